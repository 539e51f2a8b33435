"""The jobs that the tests look at: NVFlare's own recipe, run in NVFlare's simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.client.config import TransferType
from nvflare.recipe.sim_env import SimEnv

HERE = Path(__file__).parent
SHAPE = (65, 10)


def recipe(name: str, sites: int, rounds: int, **more: Any) -> NumpyFedAvgRecipe:
    """FedAvg of the digits' differences; ``more`` is what NVFlare's recipe takes."""
    if "initial_ckpt" not in more:
        more["model"] = np.zeros(SHAPE).tolist()
    return NumpyFedAvgRecipe(
        name=name,
        min_clients=sites,
        num_rounds=rounds,
        train_script=str(HERE / "digits_client.py"),
        train_args=f"--sites {sites}",
        params_transfer_type=TransferType.DIFF,
        **more,
    )


class Finished:
    """What a job left behind."""

    def __init__(self, folder: Path, printed: str = "") -> None:
        self.folder = folder
        self.printed = printed
        self.model_file = folder / "server/simulate_job/models/server.npy"

    @property
    def model(self) -> NDArray[np.float32]:
        """The weights after the last round."""
        array: NDArray[np.float32] = np.load(self.model_file)
        return array

    def log(self, site: str) -> str:
        """What the server or a client wrote."""
        return (self.folder / site / "log.txt").read_text(encoding="utf-8")


def run(job: NumpyFedAvgRecipe, workspace: Path, sites: int, processes: int | None = None) -> Finished:
    """Runs it in the simulator; with fewer processes than sites a site's process ends after every task."""
    job.add_server_config({"server": {"heart_beat_timeout": 600, "task_request_interval": 0.5}})
    names = [f"site-{i + 1}" for i in range(sites)]
    environment = SimEnv(clients=names, num_threads=processes or sites, workspace_root=str(workspace))
    return Finished(Path(job.execute(environment).get_result()))
