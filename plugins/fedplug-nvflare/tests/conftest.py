"""The simulator's jobs, which take half a minute each, most of it waiting: run once, side by side."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jobs
import pytest
from broken_filter import BrokenFilter
from fedplug_nvflare import FedplugAggregator, FedplugDecoder, FedplugEncoder

Jobs = dict[str, Future[jobs.Finished]]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """The jobs by name, under way from the first test on that looks at one."""
    workspace = tmp_path_factory.mktemp("workspace")
    with ThreadPoolExecutor(3) as pool:
        yield {
            job.__name__.removeprefix("_"): pool.submit(job, workspace)
            for job in (_continued, _mixed, _example, _plain, _identity_summed, _identity_decoded)
        }


def _plain(workspace: Path) -> jobs.Finished:
    """NVFlare without fedplug."""
    return jobs.run(jobs.recipe("plain", 2, 3), workspace, 2)


def _identity_summed(workspace: Path) -> jobs.Finished:
    """Nothing is compressed away; payloads are added up."""
    job = jobs.recipe("identity-summed", 2, 3, aggregator=FedplugAggregator())
    job.add_client_output_filter(FedplugEncoder("identity"), tasks=["train"])
    return jobs.run(job, workspace, 2)


def _identity_decoded(workspace: Path) -> jobs.Finished:
    """The same with NVFlare's own aggregation behind the decoder."""
    job = jobs.recipe("identity-decoded", 2, 3)
    job.add_client_output_filter(FedplugEncoder("identity"), tasks=["train"])
    job.add_server_input_filter(FedplugDecoder(), tasks=["train"])
    return jobs.run(job, workspace, 2)


def _continued(workspace: Path) -> jobs.Finished:
    """Ten rounds in two jobs; in the second, every client's process ends after each of its rounds."""
    first = _topk_job("first", 8, workspace)
    before = jobs.run(first, workspace, 2)
    second = _topk_job("second", 2, workspace, initial_ckpt=str(before.model_file))
    return jobs.run(second, workspace, 2, processes=1)


def _topk_job(name: str, rounds: int, workspace: Path, **more: str) -> jobs.NumpyFedAvgRecipe:
    aggregator = FedplugAggregator(receipts=str(workspace / "server/receipts.json"))
    job = jobs.recipe(name, 2, rounds, aggregator=aggregator, **more)
    encoder = FedplugEncoder("topk(0.1)", store=f"sqlite:///{workspace}/{{site}}/residuals")
    job.add_client_output_filter(encoder, tasks=["train"])
    return job


def _mixed(workspace: Path) -> jobs.Finished:
    """A site that compresses, one that does not know fedplug, and one whose first update is broken."""
    job = jobs.recipe("mixed", 3, 3, aggregator=FedplugAggregator())
    job.set_per_site_config({f"site-{i + 1}": {} for i in range(3)})
    job.add_client_output_filter(FedplugEncoder("topk(0.1)"), tasks=["train"], clients=["site-1", "site-3"])
    job.add_client_output_filter(BrokenFilter(), tasks=["train"], clients=["site-3"])
    return jobs.run(job, workspace, 3)


def _example(workspace: Path) -> jobs.Finished:
    """The README's, as its reader starts it."""
    script = jobs.HERE.parent / "examples/digits/job.py"
    command = [sys.executable, str(script), "--rounds", "2", "--workspace", str(workspace)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return jobs.Finished(workspace / "digits", done.stdout)
