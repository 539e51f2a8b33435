"""Two processes publish the shards of `fully_shard` without a gather."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from fedplug_vllm.publisher import Publisher, mesh_of, shards
from fedplug_vllm.staging import Staging
from models import assert_has
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.debug import CommDebugMode

RANKS, STEPS = 2, 3


class Client:
    """The servers of a trainer."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def init_weight_transfer_engine(self, init_info: dict[str, object]) -> None:
        pass

    def start_weight_update(self) -> None:
        pass

    def update_weights(self, update_info: dict[str, int]) -> None:
        self.numbers.append(update_info["number"])

    def finish_weight_update(self, weight_version: str) -> None:
        pass


def by_publisher(url: str, model: torch.nn.Module) -> None:
    mesh = mesh_of(model.parameters())
    publisher = Publisher(url, part=mesh.get_local_rank(), parts=mesh.size())
    for step in range(1, STEPS + 1):
        yield step
        with CommDebugMode() as counted:
            local, layout = shards(model.named_parameters())
            assert publisher.publish(local.items(), layout).number == step
        assert counted.get_total_counts() == 0


def by_engine(url: str, model: torch.nn.Module) -> None:
    from fedplug_vllm.trainer import FedplugTrainerEngine, FedplugTrainerInitInfo, ShardSource

    info = FedplugTrainerInitInfo(rank=distributed.get_rank(), url=url)
    engine = FedplugTrainerEngine.trainer_init(info, client=Client(), source=ShardSource(model))
    for step in range(1, STEPS + 1):
        yield step
        engine.send_weights()
        if distributed.get_rank() == 0:
            assert engine.client.numbers[-1] == step
            assert Staging(url, poll_seconds=3600).take(step)  # all ranks have written it


WAYS = {"publisher": by_publisher, "engine": by_engine}


def train(rank: int, way: str, folder: str) -> None:
    """Runs in each process: trains, publishes each version, and writes the whole weights beside."""
    distributed.init_process_group("gloo", f"file://{folder}/ranks", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 5), torch.nn.Linear(5, 1, bias=False), torch.nn.LayerNorm(1)
    model = torch.nn.Sequential(*layers).to(torch.bfloat16)
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in WAYS[way](f"{folder}/channel", model):
        model(torch.randn(4, 16, dtype=torch.bfloat16)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        whole = {name: parameter.full_tensor().detach() for name, parameter in model.named_parameters()}
        if rank == 0:
            torch.save(whole, f"{folder}/{step}.pt")
    distributed.destroy_process_group()


@pytest.mark.parametrize("way", WAYS)
def test_the_server_has_the_bits_of_all_ranks(tmp_path: Path, way: str) -> None:
    if way == "engine" and importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    torch.multiprocessing.spawn(train, (way, str(tmp_path)), nprocs=RANKS)
    staging = Staging(str(tmp_path / "channel"), poll_seconds=3600)
    for step in range(1, STEPS + 1):
        update = staging.take(step)
        staging.applied(update)
        assert_has(update, torch.load(tmp_path / f"{step}.pt"))
