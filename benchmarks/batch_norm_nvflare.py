"""Trains for `benchmarks.batch_norm` in NVFlare's simulator: ``python -m benchmarks.batch_norm_nvflare``.

Arguments: MODEL ROUNDS ENCODER; an empty ENCODER is NVFlare alone. It prints a line of JSON for each round.
Sites test the model that they receive, so there is one more round than is printed.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from fedplug_nvflare import FedplugAggregator, FedplugEncoder
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.client.config import ExchangeFormat, TransferType
from nvflare.recipe.sim_env import SimEnv

from benchmarks import batch_norm_task as task


def main(kind: str, rounds: int, encoder: str) -> None:
    """Runs the job and prints the results from its logs."""
    model = task.Network(kind)
    recipe = FedAvgRecipe(
        name="batch_norm",
        model=model,
        min_clients=task.CLIENTS,
        num_rounds=rounds + 1,
        train_script=str(Path(__file__).with_name("batch_norm_site.py")),
        train_args=kind,
        server_expected_format=ExchangeFormat.PYTORCH,
        params_transfer_type=TransferType.DIFF,
        aggregator=FedplugAggregator() if encoder else None,
    )
    if encoder:
        recipe.add_client_output_filter(FedplugEncoder(encoder), tasks=["train"])
    with tempfile.TemporaryDirectory() as folder:
        environment = SimEnv(num_clients=task.CLIENTS, num_threads=task.CLIENTS, workspace_root=folder)
        result = Path(recipe.execute(environment).get_result())
        dense = sum(array.nbytes for array in model.state_dict().values())
        sent = _sent(result) if encoder else dict.fromkeys(range(rounds), dense)
        metrics = result / "server/simulate_job/metrics/round_metrics.jsonl"
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    for round_num, line in enumerate(lines[1:]):
        found = {metric["name"]: metric["value"] for metric in line["aggregated_metrics"]}
        print(json.dumps({**found, "bytes": sent[round_num]}), flush=True)


def _sent(result: Path) -> dict[int, float]:
    """The bytes of an update by round, read from the encoders' logs."""
    sent: Counter[int] = Counter()
    for log in result.glob("site-*/log.txt"):
        for round_num, size in re.findall(r"update (\d+)-\w+: (\d+) bytes instead", log.read_text()):
            sent[int(round_num)] += int(size)
    return {round_num: size / task.CLIENTS for round_num, size in sent.items()}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
