"""Batch normalization statistics pass through NVFlare exactly, and variances never become negative."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import contexts
import numpy as np
import pytest
import torch
from fedplug_nvflare import FedplugAggregator, FedplugDecoder, FedplugEncoder
from fedplug_nvflare.update import RECEIPT
from nvflare.apis.dxo import MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

ENCODERS = ["auto", "topk(0.01, scope='model') | qsgd(8)", "{'*': 'sign'}"]


def new_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.BatchNorm1d(256), torch.nn.Linear(256, 9))


def trained(weights: dict[str, torch.Tensor], client: int) -> dict[str, torch.Tensor]:
    """Returns the weights after training on data with nearly constant channels."""
    model = new_model()
    model.load_state_dict(weights)
    model[1].momentum = 0.9
    with torch.no_grad():
        model(1e-4 * torch.randn(64, 8, generator=torch.Generator().manual_seed(client)))
    return dict(model.state_dict())


def encoder_of(expression: str, folder: Path) -> FedplugEncoder:
    codec: Any = {"*": "sign"} if expression.startswith("{") else expression
    return FedplugEncoder(codec, store=f"sqlite:///{folder}/{{site}}")


@pytest.mark.parametrize("expression", ENCODERS)
@pytest.mark.parametrize("way", [FedplugAggregator, FedplugDecoder])
def test_variances_follow_the_clients_and_are_never_negative(
    expression: str, way: type, tmp_path: Path
) -> None:
    weights = dict(new_model().state_dict())
    encoders = [encoder_of(expression, tmp_path) for _ in range(3)]
    for round_num in range(3):
        server = way()
        contexts.begin_round(server, weights)
        expected = dict.fromkeys(weights, 0.0)
        for client, encoder in enumerate(encoders):
            after = trained(weights, 10 * round_num + client)
            difference = {name: after[name] - weights[name] for name in weights}
            site = f"site-{client}"
            meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: client + 0.7}
            task = contexts.task({}, round_num)
            result = encoder.process(contexts.result(difference, **meta), contexts.task_context(site, task))
            assert result.get_header(RECEIPT)
            for name in weights:
                expected[name] = expected[name] + (client + 0.7) / 5.1 * after[name].double()
            if way is FedplugAggregator:
                assert server.accept(contexts.arrived(result, site), contexts.context("server", site))
            else:
                decoded = contexts.decoded(server, result, site).data
                for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
                    assert torch.equal(decoded[name], difference[name])
        if way is FedplugAggregator:
            model = FLModelUtils.from_shareable(contexts.task(weights))
            params = FLModelUtils.update_model(model, server.aggregate_model()).params
            weights = {name: params[name].to(weights[name].dtype) for name in weights}
            for name in ("1.running_mean", "1.running_var"):
                torch.testing.assert_close(weights[name].double(), expected[name], rtol=1e-6, atol=1e-7)
            assert weights["1.num_batches_tracked"] == round_num + 1
            assert (weights["1.running_var"] >= 0).all()


def test_an_array_of_any_name_without_a_negative_element_gets_none(tmp_path: Path) -> None:
    """Training changes the arrays of the task in place, as NVFlare hands them to it."""
    rng = np.random.default_rng(0)
    encoder = encoder_of("topk(0.1) | qsgd(2)", tmp_path)
    weights = {"nu": (rng.random(256) ** 8 * 1e-3).astype(np.float32), "kernel": rng.normal(size=256)}
    for round_num in range(10):
        server = FedplugDecoder()
        contexts.begin_round(server, weights)
        task = contexts.task({name: array.copy() for name, array in weights.items()}, round_num)
        fl_ctx = contexts.task_context("site-1", task)
        encoder.handle_event(EventType.BEFORE_TASK_EXECUTION, fl_ctx)
        trained = from_shareable(task).data
        trained["nu"] *= np.float32(0.5)
        trained["nu"] += (rng.random(256) ** 8 * 5e-4).astype(np.float32)
        difference = {name: trained[name] - weights[name] for name in weights}
        result = encoder.process(contexts.result(difference), fl_ctx)
        passed = contexts.decoded(server, result).data
        weights = {name: weights[name] + change for name, change in passed.items()}
        assert not (weights["nu"] < 0).any()


def test_the_log_lists_exactly_sent_arrays_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder, weights = encoder_of("auto", tmp_path), new_model().state_dict()
    caplog.set_level("INFO")
    for round_num in range(2):
        fl_ctx = contexts.task_context("site-1", contexts.task({}, round_num))
        sent = encoder.process(contexts.result(weights), fl_ctx)
    assert caplog.text.count("sent exactly, statistics: 1.running_mean, 1.running_var") == 1
    assert caplog.text.count("sent exactly, int64: 1.num_batches_tracked") == 1
    assert caplog.text.count("sent exactly, fewer than 64 elements: 2.bias") == 1
    data = from_shareable(sent).data
    exact = sum(len(data[name]) for name in data if name.startswith(("1.running", "1.num", "2.bias")))
    assert f"{exact} of them for tensors that are sent exactly" in caplog.text
