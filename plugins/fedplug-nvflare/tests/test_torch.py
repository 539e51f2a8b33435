"""NVFlare passes torch tensors with ``server_expected_format=ExchangeFormat.PYTORCH``."""

from __future__ import annotations

from pathlib import Path

import contexts
import pytest
import torch
from fedplug_nvflare import FedplugAggregator, FedplugDecoder, FedplugEncoder
from nvflare.apis.dxo import from_shareable
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

import fedplug
from conftest import Jobs

DTYPES = [torch.float32, torch.bfloat16]


def update(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "kernel": torch.randn((64, 32), generator=generator).to(dtype),
        "batches": torch.tensor(2),
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_encoding_does_not_change_tensors(dtype: torch.dtype, tmp_path: Path) -> None:
    tensors = update(dtype)
    encoder = FedplugEncoder("topk(0.1)", store=f"sqlite:///{tmp_path}/store")
    sent = encoder.process(contexts.result(tensors), contexts.task_context("site-1", contexts.task({})))
    assert from_shareable(sent).data == fedplug.codec("topk(0.1)").encode_model(tensors)[0]
    assert all(torch.equal(tensor, update(dtype)[name]) for name, tensor in tensors.items())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_server_adds_tensors_of_the_models_dtype(dtype: torch.dtype) -> None:
    aggregator = FedplugAggregator()
    weights = {name: torch.zeros_like(tensor) for name, tensor in update(dtype).items()}
    contexts.begin_round(aggregator, weights)
    payloads, _ = fedplug.codec("identity").encode_model(update(dtype))
    for client in ("site-1", "site-2"):
        sent = contexts.arrived(contexts.result(payloads, PROCESSED_ALGORITHM="fedplug"), client)
        assert aggregator.accept(sent, contexts.context("server", client))
    after = FLModelUtils.update_model(
        FLModelUtils.from_shareable(contexts.task(weights)), aggregator.aggregate_model()
    )
    assert after.params["kernel"].dtype == dtype
    assert torch.equal(after.params["kernel"], update(dtype)["kernel"])
    assert after.params["batches"].item() == 2


def test_the_decoder_makes_tensors(tmp_path: Path) -> None:
    decoder = FedplugDecoder()
    contexts.begin_round(decoder, update(torch.bfloat16))
    payloads, _ = fedplug.codec("identity").encode_model(update(torch.bfloat16))
    made = contexts.decoded(decoder, contexts.result(payloads, PROCESSED_ALGORITHM="fedplug"))
    assert torch.equal(made.data["kernel"], update(torch.bfloat16)["kernel"])


def test_the_example_of_the_readme_runs(finished: Jobs) -> None:
    printed = finished["example"].result().printed
    assert "round 1: accuracy" in printed
    assert "2 updates took" in printed
