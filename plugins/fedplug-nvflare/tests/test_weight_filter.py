"""Jobs that cannot work are refused: collections, filters in the wrong order, workflows without events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import contexts
import numpy as np
import pytest
from fedplug_nvflare import (
    FedplugAggregator,
    FedplugBroadcaster,
    FedplugDecoder,
    FedplugEncoder,
    FedplugReceiver,
)
from fedplug_nvflare.receipts import Receipts
from fedplug_nvflare.update import RECEIPT, REFUSED, VERSION
from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import Filter
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.filters.exclude_vars import ExcludeVars
from nvflare.app_common.filters.percentile_privacy import PercentilePrivacy
from nvflare.app_common.filters.svt_privacy import SVTPrivacy

WEIGHTS = {"kernel": np.ones((64, 32), np.float32)}


def collection(*kinds: str) -> Shareable:
    """Returns a message with a DXO of each kind, as SCAFFOLD sends the weights and the control variates."""
    inner = {f"part {i}": DXO(kind, {"kernel": WEIGHTS["kernel"] * i}) for i, kind in enumerate(kinds)}
    return DXO(DataKind.COLLECTION, inner).to_shareable()


class Runner:
    """NVFlare's runner of an end, with the filters of its task "train"."""

    def __init__(self, executor: Any = None, **chains: list[Any]) -> None:
        self.task_data_filters = {"train/x": chains.get("data", [])}
        self.task_result_filters = {"train/x": chains.get("result", [])}
        self.executor = executor

    def find_executor(self, task: str) -> Any:
        return self.executor


def with_runner(fl_ctx: FLContext, runner: Any, task: str = "train") -> FLContext:
    fl_ctx.set_prop(FLContextKey.RUNNER, runner, private=True)
    fl_ctx.set_prop(FLContextKey.TASK_NAME, task, private=True, sticky=False)
    return fl_ctx


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reasons with which components ended the job."""
    reasons: list[str] = []
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(FLComponent, "system_panic", lambda self, reason, fl_ctx: reasons.append(reason))
    monkeypatch.setattr(
        FLComponent, "fire_fed_event", lambda self, event, data, fl_ctx: reasons.append(data["reason"])
    )
    return reasons


def test_a_collection_is_no_update_of_a_residual(tmp_path: Any) -> None:
    encoder = FedplugEncoder("topk(0.1)", store=f"sqlite:///{tmp_path}/s")
    fl_ctx = contexts.task_context("site-1", contexts.task(WEIGHTS))
    with pytest.raises(ValueError, match=r"a collection of 2 DXOs \(.*WEIGHT_DIFF"):
        encoder.process(collection(DataKind.WEIGHT_DIFF, DataKind.WEIGHT_DIFF), fl_ctx)
    assert not list(tmp_path.iterdir())
    one = encoder.process(collection(DataKind.WEIGHT_DIFF, DataKind.METRICS), fl_ctx)
    assert one.get_header(RECEIPT)


def test_a_collection_for_the_decoder_is_an_empty_update(caplog: pytest.LogCaptureFixture) -> None:
    decoder = FedplugDecoder()
    contexts.begin_round(decoder, WEIGHTS)
    sent = collection(DataKind.WEIGHT_DIFF, DataKind.WEIGHT_DIFF)
    assert contexts.decoded(decoder, sent, "site-2").data == {}
    assert "update of client 'site-2' refused: it is a collection of 2 DXOs" in caplog.text


def test_a_collection_of_models_ends_the_job(ended: list[str]) -> None:
    fl_ctx = contexts.context("server", "site-1")
    fl_ctx.get_peer_context().set_prop(VERSION, "", private=False)
    with pytest.raises(ValueError, match="collection"):
        FedplugBroadcaster().process(collection(DataKind.WEIGHTS, DataKind.WEIGHTS), fl_ctx)
    assert ended[0].startswith("the model cannot be sent: it is a collection of 2 DXOs")


@pytest.mark.parametrize("component", [FedplugAggregator, FedplugDecoder])
def test_a_task_that_is_a_collection_ends_the_job_before_the_training(
    component: type[Any], ended: list[str]
) -> None:
    fl_ctx = contexts.context("server", "site-1")
    task = collection(DataKind.WEIGHTS, DataKind.WEIGHT_DIFF)
    fl_ctx.set_prop(AppConstants.TRAIN_SHAREABLE, task, private=True, sticky=False)
    component().handle_event(AppEventType.BEFORE_TRAIN_TASK, fl_ctx)
    assert ended[0].startswith("the task: it is a collection of 2 DXOs")


class Logger(Filter):
    """Works with any message."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        return shareable


BEHIND = [PercentilePrivacy(), SVTPrivacy(), ExcludeVars("bias"), FedplugEncoder("sign")]


@pytest.mark.parametrize("other", BEHIND, ids=lambda other: type(other).__name__)
def test_the_encoder_comes_last(other: Any, ended: list[str]) -> None:
    encoder = FedplugEncoder("topk(0.1)")
    for chain in ([encoder, other], [encoder, Logger(), other]):
        fl_ctx = with_runner(contexts.task_context("site-1", contexts.task(WEIGHTS)), Runner(result=chain))
        encoder.handle_event(EventType.BEFORE_TASK_EXECUTION, fl_ctx)
        reason = ended.pop()
        assert "FedplugEncoder must be the last filter of task 'train'" in reason
        assert f"{type(other).__name__} would get its payloads" in reason
    assert not ended


def test_filters_that_fit_are_allowed(ended: list[str]) -> None:
    encoder = FedplugEncoder("topk(0.1)")
    chain = [PercentilePrivacy(), encoder, Logger(), ExcludeVars("bias", [DataKind.WEIGHTS])]
    chain[-1].data_kinds = [DataKind.METRICS]
    fl_ctx = with_runner(contexts.task_context("site-1", contexts.task(WEIGHTS)), Runner(result=chain))
    encoder.handle_event(EventType.BEFORE_TASK_EXECUTION, fl_ctx)
    assert not ended


@pytest.mark.parametrize(
    ("make", "chain", "event"),
    [
        (FedplugDecoder, "result", EventType.START_RUN),
        (FedplugReceiver, "data", EventType.BEFORE_TASK_DATA_FILTER),
        (FedplugBroadcaster, "data", EventType.START_RUN),
    ],
)
def test_decoders_come_first_and_the_broadcaster_last(
    make: type[Any], chain: str, event: str, ended: list[str], tmp_path: Any
) -> None:
    ours, other = make(), ExcludeVars("bias")
    right, wrong = (
        ([other, ours], [ours, other]) if ours.must_be == "last" else ([ours, other], [other, ours])
    )
    for filters, expected in ((right, 0), (wrong, 1)):
        runner = SimpleNamespace(config=Runner(**{chain: filters}))  # the server's runner has a configuration
        fl_ctx = with_runner(contexts.context("server", "site-1"), runner)
        fl_ctx.get_workspace = lambda: SimpleNamespace(get_run_dir=lambda job: str(tmp_path))
        ours.handle_event(event, fl_ctx)
        assert [f"{make.__name__} must be the {ours.must_be} filter" in one for one in ended] == [
            True
        ] * expected


@pytest.mark.parametrize("trains", [False, True])
def test_a_workflow_that_announces_no_training_is_refused_at_the_first_task(
    trains: bool, ended: list[str], tmp_path: Any
) -> None:
    """Cyclic weight transfer is such a workflow: the server does not learn which updates arrived."""
    receipts = Receipts(str(tmp_path / "receipts"), FLComponent())
    receipts.handle_event(EventType.START_RUN, contexts.context("server", ""))
    if trains:
        receipts.handle_event(AppEventType.BEFORE_TRAIN_TASK, contexts.context("server", "site-1"))
    sent = contexts.task_context("server", contexts.task(WEIGHTS))
    receipts.handle_event(EventType.AFTER_TASK_DATA_FILTER, sent)
    task = sent.get_prop(FLContextKey.TASK_DATA)
    assert (task.get_header(REFUSED) is None) == trains
    FedplugEncoder("sign").handle_event(
        EventType.BEFORE_TASK_EXECUTION, contexts.task_context("site-1", task)
    )
    assert ["fires no event BEFORE_TRAIN_TASK" in reason for reason in ended] == [True] * (not trains)


def test_swarm_learning_is_refused_because_it_applies_no_filters(ended: list[str]) -> None:
    encoder = FedplugEncoder("sign")
    runner = Runner(SimpleNamespace(learn_task_name="train"), result=[encoder])
    fl_ctx = with_runner(contexts.task_context("site-1", Shareable()), runner, task="swarm_config")
    encoder.handle_event(EventType.BEFORE_TASK_EXECUTION, fl_ctx)
    assert "NVFlare applies no filters to task 'train'" in ended[0]


def test_tasks_without_the_encoder_are_none_of_its_business(ended: list[str]) -> None:
    encoder = FedplugEncoder("sign")
    runner = Runner(result=[encoder])
    fl_ctx = with_runner(contexts.task_context("site-1", Shareable()), runner, task="validate")
    encoder.handle_event(EventType.BEFORE_TASK_EXECUTION, fl_ctx)
    assert not ended


def test_an_update_that_another_filter_has_encoded_is_refused(tmp_path: Any) -> None:
    encoder = FedplugEncoder("topk(0.1)", store=f"sqlite:///{tmp_path}/s")
    fl_ctx = contexts.task_context("site-1", contexts.task(WEIGHTS))
    for algorithm, message in (("float16", "processed by 'float16'"), ("fedplug", "compressed already")):
        sent = contexts.result(WEIGHTS, **{MetaKey.PROCESSED_ALGORITHM: algorithm})
        with pytest.raises(ValueError, match=message):
            encoder.process(sent, fl_ctx)
