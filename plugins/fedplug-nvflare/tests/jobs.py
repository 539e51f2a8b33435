"""The jobs of the tests: NVFlare's own recipe in NVFlare's simulator.

`python jobs.py NAME WORKSPACE` runs a job and prints the name of its folder last.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bad_filters import BrokenFilter, LostUpdate
from fedplug_nvflare import (
    FedplugAggregator,
    FedplugBroadcaster,
    FedplugDecoder,
    FedplugEncoder,
    FedplugReceiver,
)
from numpy.typing import NDArray
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.client.config import TransferType
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.recipe.sim_env import SimEnv
from nvflare.recipe.spec import Recipe

HERE = Path(__file__).parent
SHAPE = (65, 10)

HAS_TENSEAL = importlib.util.find_spec("tenseal") is not None
ENCRYPTED = "sharedk(0.2, clients=3, max_weight=1000)"


def recipe(name: str, sites: int, rounds: int, **more: Any) -> NumpyFedAvgRecipe:
    """Returns FedAvg of differences on the digits. ``more`` are arguments of NVFlare's recipe."""
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
    """The files and the output of a job."""

    def __init__(self, folder: Path, printed: str = "") -> None:
        self.folder = folder
        self.printed = printed
        self.model_file = folder / "server/simulate_job/models/server.npy"

    @property
    def model(self) -> NDArray[np.float32]:
        """Weights after the last round."""
        array: NDArray[np.float32] = np.load(self.model_file)
        return array

    def log(self, site: str) -> str:
        """Returns the log of the server or of a client."""
        return (self.folder / site / "log.txt").read_text(encoding="utf-8")


def run(job: Recipe, workspace: Path, sites: int, processes: int | None = None) -> Finished:
    """Runs a job in the simulator; with fewer processes than sites, a process ends after every task."""
    job.add_server_config({"server": {"heart_beat_timeout": 600, "task_request_interval": 0.5}})
    names = [f"site-{i + 1}" for i in range(sites)]
    environment = SimEnv(clients=names, num_threads=processes or sites, workspace_root=str(workspace))
    return Finished(Path(job.execute(environment).get_result()))


def _plain(workspace: Path) -> Finished:
    """Runs NVFlare without fedplug."""
    return run(recipe("plain", 2, 3), workspace, 2)


def _lossless_both_ways(workspace: Path) -> Finished:
    """Sends exact models and updates; clients' processes end after each round."""
    job = recipe("lossless-both-ways", 2, 3, aggregator=FedplugAggregator())
    job.add_client_output_filter(FedplugEncoder("identity"), tasks=["train"])
    job.add_server_output_filter(FedplugBroadcaster("lossless"), tasks=["train"])
    job.add_client_input_filter(FedplugReceiver(), tasks=["train"])
    return run(job, workspace, 2, processes=1)


def _both_ways(workspace: Path) -> Finished:
    """Compresses both ways, for two of three sites."""
    job = recipe("both-ways", 3, 6, aggregator=FedplugAggregator())
    job.set_per_site_config({f"site-{i + 1}": {} for i in range(3)})
    job.add_server_output_filter(FedplugBroadcaster("auto"), tasks=["train"])
    for add, one in (
        (job.add_client_input_filter, FedplugReceiver()),
        (job.add_client_output_filter, FedplugEncoder("topk(0.1)")),
    ):
        add(one, tasks=["train"], clients=["site-1", "site-2"])
    return run(job, workspace, 3)


def _continued(workspace: Path) -> Finished:
    """Runs ten rounds in two jobs; in the second, clients' processes end after each round."""
    first = _topk_job("first", 8, workspace)
    before = run(first, workspace, 2)
    second = _topk_job("second", 2, workspace, initial_ckpt=str(before.model_file))
    return run(second, workspace, 2, processes=1)


def _topk_job(name: str, rounds: int, workspace: Path, **more: str) -> NumpyFedAvgRecipe:
    aggregator = FedplugAggregator(receipts=str(workspace / "server/receipts.json"))
    job = recipe(name, 2, rounds, aggregator=aggregator, **more)
    encoder = FedplugEncoder("topk(0.1)", store=f"sqlite:///{workspace}/{{site}}/residuals")
    job.add_client_output_filter(encoder, tasks=["train"])
    return job


def _mixed(workspace: Path) -> Finished:
    """Runs a site that compresses, one without fedplug, and one whose first update is damaged."""
    job = recipe("mixed", 3, 3, aggregator=FedplugAggregator())
    job.set_per_site_config({f"site-{i + 1}": {} for i in range(3)})
    job.add_client_output_filter(FedplugEncoder("topk(0.1)"), tasks=["train"], clients=["site-1", "site-3"])
    job.add_client_output_filter(BrokenFilter(), tasks=["train"], clients=["site-3"])
    return run(job, workspace, 3)


def _all_broken(workspace: Path) -> Finished:
    """Damages the updates of all sites in the first of two rounds, for the decoder."""
    job = recipe("all-broken", 2, 2)
    job.add_client_output_filter(FedplugEncoder("topk(0.1)"), tasks=["train"])
    job.add_client_output_filter(BrokenFilter(), tasks=["train"])
    job.add_server_input_filter(FedplugDecoder(), tasks=["train"])
    return run(job, workspace, 2)


def _alone(workspace: Path) -> Finished:
    """Runs an encoder without an aggregator or decoder on the server."""
    job = recipe("alone", 2, 3)
    job.add_client_output_filter(FedplugEncoder("topk(0.1)"), tasks=["train"])
    try:
        return run(job, workspace, 2)
    except RuntimeError as error:
        return Finished(workspace / "alone", str(error))


def _encrypted(workspace: Path) -> Finished:
    """Encrypts the updates of three sites, one of which is lost in round 1."""
    from fedplug_nvflare.he.recipe import he_recipe
    from nvflare.lighter.impl.he import HEBuilder

    startup = workspace / "encrypted/startup"  # the simulator copies it to all sites
    startup.mkdir(parents=True)
    builder = HEBuilder()
    builder.initialize(None, None)
    for end in ("server", "client"):
        context = builder.get_serialized_context(is_client=end == "client")
        (startup / f"{end}_context.tenseal").write_bytes(context)
    job = he_recipe(
        ENCRYPTED,
        sites=[f"site-{i + 1}" for i in range(3)],
        persistor=NPModelPersistor(model=np.zeros(SHAPE).tolist()),
        train_script=str(HERE / "digits_client.py"),
        train_args="--sites 3",
        num_rounds=4,
        min_sites=2,
        framework=FrameworkType.NUMPY,
        name="encrypted",
    )
    job.add_client_output_filter(LostUpdate(), tasks=["train"])
    return run(job, workspace, 3)


def _example(name: str, workspace: Path) -> Finished:
    """Runs an example of the README as documented."""
    script = HERE.parent / "examples" / name / "job.py"
    command = [sys.executable, str(script), "--rounds", "2", "--workspace", str(workspace)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Finished(workspace / name, done.stdout)


JOBS: dict[str, Callable[[Path], Finished]] = {
    "continued": _continued,
    "mixed": _mixed,
    "all_broken": _all_broken,
    "alone": _alone,
    "example": partial(_example, "digits"),
    "lossless_both_ways": _lossless_both_ways,
    "both_ways": _both_ways,
    "plain": _plain,
    **({"encrypted": _encrypted} if HAS_TENSEAL else {}),
}

if __name__ == "__main__":
    job = JOBS[sys.argv[1]](Path(sys.argv[2]))
    print(job.printed, job.folder.name, sep="\n")
