"""Trains softmax regression in NumPy on several sites in NVFlare's simulator, with compressed updates.

    python job.py --sites 2 --rounds 5

Only the two lines that name fedplug differ from a job without compression.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from fedplug_nvflare import FedplugAggregator, FedplugEncoder
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.client.config import TransferType
from nvflare.recipe.sim_env import SimEnv


def main(sites: int, rounds: int, codec: str, workspace: str) -> None:
    """Runs the job. Prints the accuracy of every round and the bytes that the server reports."""
    recipe = NumpyFedAvgRecipe(
        name="numpy",
        model=np.zeros((65, 10)).tolist(),
        min_clients=sites,
        num_rounds=rounds,
        train_script=str(Path(__file__).with_name("client.py")),
        train_args=f"--sites {sites}",
        params_transfer_type=TransferType.DIFF,  # fedplug compresses differences
        aggregator=FedplugAggregator(),
    )
    recipe.add_client_output_filter(FedplugEncoder(codec), tasks=["train"])
    environment = SimEnv(num_clients=sites, workspace_root=workspace)
    server = Path(recipe.execute(environment).get_result()) / "server"
    for line in (server / "simulate_job/metrics/round_metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        print(f"round {record['round']}: accuracy {record['aggregated_metrics'][0]['value']:.3f}")
    for line in (server / "log.txt").read_text().splitlines():
        if "FedplugAggregator" in line:
            print(line.rpartition(" - ")[2])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codec", default="topk(0.1) | qsgd(8)")
    parser.add_argument("--workspace", default="/tmp/fedplug-nvflare-numpy")
    arguments = parser.parse_args()
    main(arguments.sites, arguments.rounds, arguments.codec, arguments.workspace)
