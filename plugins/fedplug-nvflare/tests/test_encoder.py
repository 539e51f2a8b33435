"""The filter on the client handles NVFlare's messages."""

from __future__ import annotations

import copy
from pathlib import Path

import contexts
import numpy as np
import pytest
from fedplug_nvflare import FedplugEncoder
from fedplug_nvflare.update import ACCEPTED, RECEIPT
from nvflare.apis.analytix import AnalyticsData
from nvflare.apis.dxo import DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.shareable import Shareable

import fedplug

UPDATE = {
    "kernel": np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32),
    "bias": np.arange(32, dtype=np.float32),
}


@pytest.fixture
def encoder(tmp_path: Path) -> FedplugEncoder:
    return FedplugEncoder("topk(0.1)", store=f"sqlite:///{tmp_path}/{{site}}")


def send(
    encoder: FedplugEncoder,
    update: Shareable,
    accepted: str | None = None,
    round_num: int = 0,
    *,
    weights: dict[str, np.ndarray] | None = None,
    job: str = "job",
) -> Shareable:
    """Passes a task and the resulting update of site-1 to the filter. Returns the filtered result."""
    message = contexts.task(weights or {}, round_num)
    if accepted is not None:
        message.set_header(ACCEPTED, accepted)
    fl_ctx = contexts.task_context("site-1", message, job)
    encoder.handle_event(EventType.BEFORE_TASK_EXECUTION, fl_ctx)
    return encoder.process(update, fl_ctx)


def test_an_update_may_have_numbers(encoder: FedplugEncoder) -> None:
    sent = from_shareable(send(encoder, contexts.result({**UPDATE, "intercept": 0.5})))
    assert fedplug.decode(sent.data["intercept"]) == 0.5


def test_the_result_of_training_is_not_changed(encoder: FedplugEncoder) -> None:
    given = contexts.result(UPDATE)
    dxo = from_shareable(given)
    before = copy.deepcopy(dxo.data)
    send(encoder, given)
    assert list(dxo.data) == list(before)
    assert not dxo.meta
    for name, array in before.items():
        np.testing.assert_array_equal(dxo.data[name], array)


def test_a_late_task_changes_nothing_and_a_new_job_begins_at_round_0(encoder: FedplugEncoder) -> None:
    codec = fedplug.codec("topk(0.1)")
    receipts: list[str | None] = [None]
    for round_num in range(3):
        sent = send(encoder, contexts.result(UPDATE), receipts[-1], round_num)
        receipts.append(sent.get_header(RECEIPT))
    again = send(encoder, contexts.result(UPDATE), receipts[1], round_num=1)
    assert again.get_header(RECEIPT) == receipts[2]
    state = None
    for round_num in range(3):
        _, state = codec.encode_model(UPDATE, state, round_num)
    expected, _ = codec.encode_model(UPDATE, state, 0)
    sent = send(encoder, contexts.result(UPDATE), receipts[3], round_num=0, job="next job")
    assert from_shareable(sent).data == expected


@pytest.mark.parametrize("constant", [np.inf, -np.inf, np.nan])
def test_constants_that_are_not_finite_have_not_changed(encoder: FedplugEncoder, constant: float) -> None:
    mask = np.triu(np.full((16, 16), constant, np.float32), 1)
    weights = {name: np.zeros_like(array) for name, array in UPDATE.items()} | {"mask": mask}
    with np.errstate(invalid="ignore"):
        difference = UPDATE | {"mask": mask - mask}  # like NVFlare
    sent = from_shareable(send(encoder, contexts.result(difference), weights=weights))
    assert not fedplug.decode(sent.data["mask"]).any()
    broken = difference | {"kernel": np.full((64, 32), np.nan, np.float32)}
    assert from_shareable(send(encoder, contexts.result(broken), weights=weights)).data == {}


def test_full_weights_are_refused_with_a_remedy(encoder: FedplugEncoder) -> None:
    with pytest.raises(ValueError, match=r"params_transfer_type=TransferType\.DIFF"):
        send(encoder, contexts.result(UPDATE, kind=DataKind.WEIGHTS))


def test_an_update_with_a_nan_is_not_sent_and_keeps_the_state(
    encoder: FedplugEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    """An error would end the job for all sites. FedAvg skips an empty result."""
    receipt = send(encoder, contexts.result(UPDATE)).get_header(RECEIPT)
    broken = UPDATE | {"kernel": UPDATE["kernel"] * np.nan}
    sent = send(encoder, contexts.result(broken, initial_metrics={"loss": 1.0}), receipt, round_num=1)
    assert from_shareable(sent).data == {}
    assert "initial_metrics" not in from_shareable(sent).meta
    assert sent.get_header(RECEIPT) is None
    assert "the update of round 1 is not sent: array 'kernel': it holds a NaN" in caplog.text
    third = send(encoder, contexts.result(UPDATE), receipt, round_num=2)
    _, state = fedplug.codec("topk(0.1)").encode_model(UPDATE)
    expected, _ = fedplug.codec("topk(0.1)").encode_model(UPDATE, state, 2)
    assert from_shareable(third).data == expected


def test_other_results_pass(encoder: FedplugEncoder) -> None:
    metrics = contexts.result({"accuracy": 0.5}, kind=DataKind.METRICS)
    assert from_shareable(send(encoder, metrics)).data == {"accuracy": 0.5}


def test_bytes_are_sent_to_nvflares_experiment_tracking(encoder: FedplugEncoder) -> None:
    fl_ctx = contexts.task_context("site-1", contexts.task({}, round_num=7))
    encoder.handle_event(EventType.BEFORE_TASK_EXECUTION, fl_ctx)
    sent = from_shareable(encoder.process(contexts.result(UPDATE), fl_ctx))
    scalar = AnalyticsData.from_dxo(from_shareable(fl_ctx.get_prop(FLContextKey.EVENT_DATA)))
    assert scalar.tag == "fedplug/uplink_bytes"
    assert scalar.value == sum(map(len, sent.data.values()))
    assert scalar.step == 7


def test_a_codec_that_cannot_be_read_fails_when_the_job_is_made() -> None:
    with pytest.raises(fedplug.errors.UnknownNameError, match="topk"):
        FedplugEncoder("tpok(0.1)")
