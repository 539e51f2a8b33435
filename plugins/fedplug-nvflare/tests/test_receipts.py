"""The server reports accepted payloads according to NVFlare's events."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import contexts
import pytest
from fedplug_nvflare import FedplugAggregator, FedplugEncoder
from fedplug_nvflare.receipts import Receipts
from fedplug_nvflare.update import ACCEPTED, RECEIPT
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType


def opened(path: Path) -> Receipts:
    receipts = Receipts(str(path), FLComponent())
    receipts.handle_event(EventType.START_RUN, contexts.context("server", ""))
    return receipts


def contribute(receipts: Receipts, client: str, receipt: str, accepted: bool = True) -> None:
    result = Shareable()
    result.set_header(RECEIPT, receipt)
    fl_ctx = contexts.context("server", client)
    fl_ctx.set_prop(AppConstants.TRAINING_RESULT, result, private=True, sticky=False)
    fl_ctx.set_prop(AppConstants.AGGREGATION_ACCEPTED, accepted, private=True, sticky=False)
    receipts.handle_event(AppEventType.AFTER_CONTRIBUTION_ACCEPT, fl_ctx)


def fire(receipts: Receipts, event_type: str) -> None:
    receipts.handle_event(event_type, contexts.context("server", ""))


def told(receipts: Receipts, client: str) -> str | None:
    message = contexts.task({})
    fl_ctx = contexts.context("server", client)
    fl_ctx.set_prop(FLContextKey.TASK_DATA, message, private=True, sticky=False)
    receipts.handle_event(EventType.AFTER_TASK_DATA_FILTER, fl_ctx)
    receipt: str | None = message.get_header(ACCEPTED)
    return receipt


@pytest.mark.parametrize("kept", [AppEventType.AFTER_LEARNABLE_PERSIST, AppEventType.ROUND_STARTED])
def test_another_job_knows_the_updates_accepted_before_its_model_was_saved(tmp_path: Path, kept: str) -> None:
    receipts = opened(tmp_path / "folder/receipts.json")
    contribute(receipts, "site-1", "0-a")
    fire(receipts, AppEventType.AFTER_AGGREGATION)
    assert told(opened(tmp_path / "folder/receipts.json"), "site-1") is None
    fire(receipts, kept)
    contribute(receipts, "site-1", "1-b")  # a round that is never aggregated
    fire(receipts, EventType.END_RUN)
    assert told(opened(tmp_path / "folder/receipts.json"), "site-1") == "0-a"


def test_a_receipt_of_any_length_is_not_kept(tmp_path: Path) -> None:
    receipts = opened(tmp_path / "receipts.json")
    contribute(receipts, "site-1", "0" * 1_000_000)
    fire(receipts, AppEventType.AFTER_AGGREGATION)
    assert told(receipts, "site-1") is None


@pytest.mark.parametrize("text", ["[1", '{"receipts": {"site-1": "0-a"}, "crc32": 1}'])
def test_a_damaged_file_ends_the_job_before_it_begins_and_is_not_changed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "receipts.json"
    file.write_text(text)
    aggregator = FedplugAggregator(receipts=str(file))
    fl_ctx = contexts.context("server", "")
    aggregator.handle_event(EventType.START_RUN, fl_ctx)
    assert "receipts.json is no file of receipts, or is damaged" in fl_ctx.get_prop(FLContextKey.EVENT_DATA)
    aggregator.handle_event(EventType.END_RUN, fl_ctx)
    assert file.read_text() == text


def test_ending_the_job_does_not_wait_for_itself(tmp_path: Path) -> None:
    class Owner(FLComponent):  # type: ignore[misc]
        """A component whose panic fires an event, as in an engine."""

        def system_panic(self, reason: str, fl_ctx: FLContext) -> None:
            receipts.handle_event(EventType.FATAL_SYSTEM_ERROR, fl_ctx)

    (tmp_path / "receipts.json").write_text("[1")
    receipts = Receipts(str(tmp_path / "receipts.json"), Owner())
    thread = threading.Thread(target=fire, args=(receipts, EventType.START_RUN), daemon=True)
    thread.start()
    thread.join(timeout=600)
    assert not thread.is_alive()


def test_the_lines_on_the_page_are_right() -> None:
    page = (Path(__file__).parents[3] / "docs" / "nvflare.md").read_text(encoding="utf-8")
    block, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"FedplugEncoder": FedplugEncoder, "FedplugAggregator": FedplugAggregator}
    exec(block, names)
    assert {type(names["encoder"]), type(names["aggregator"])} == {FedplugEncoder, FedplugAggregator}


@pytest.mark.parametrize("params", [{}, {"k": 1.0}])
def test_a_refused_round_of_scatter_and_gather_accepts_no_receipt(tmp_path: Path, params: dict) -> None:
    receipts = opened(tmp_path / "receipts.json")
    contribute(receipts, "site-1", "0-a")
    contexts.end_round(receipts, contexts.result(params))
    assert told(receipts, "site-1") == ("0-a" if params else None)
