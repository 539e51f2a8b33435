"""Clients receive the changes since their version, and train on the same bits."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import contexts
import numpy as np
import pytest
import torch
from fedplug_nvflare import FedplugAggregator, FedplugBroadcaster, FedplugReceiver
from fedplug_nvflare.update import VERSION
from nvflare.apis.analytix import AnalyticsData
from nvflare.apis.dxo import DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_copy
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.fuel.utils import fobs

import fedplug
from fedplug.errors import BaseVersionError, CapabilityError, FedplugError, PayloadError
from fedplug.wire import message as messages
from fedplug.wire.message import Contents, MessageReader

Weights = Mapping[str, Any]
ENCODERS = ["lossless", "auto"]


def weights(step: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(64, 32)).astype(np.float32)
    for _ in range(step):
        kernel = kernel + 1e-3 * rng.normal(size=kernel.shape).astype(np.float32)
    mask = np.triu(np.full((16, 16), -np.inf, np.float32), 1)
    return {
        "kernel": kernel,
        "bn.running_var": np.full(80, 1.5 + step, np.float32),
        "mask": mask,
        "steps": step,
    }


class Server:
    """The server's side of a job."""

    def __init__(self, encoder: str = "auto") -> None:
        self.filter = FedplugBroadcaster(encoder)
        self.context = contexts.context("server", "")

    def send(self, task: Shareable, to: FLContext) -> Shareable:
        """Returns the message for a client."""
        sent: Shareable = self.filter.process(make_copy(task), contexts.between(to, self.context))
        return sent


def contents(sent: Shareable) -> Contents:
    return MessageReader(from_shareable(sent).data["message"]).contents()


class Site:
    """A client's process. `restarted` makes another one with the same files."""

    def __init__(self, name: str, folder: Path, **options: Any) -> None:
        self.name, self.folder, self.options = name, folder, options
        self.filter = FedplugReceiver(f"sqlite:///{folder}/{{site}}", **options)
        self.context = contexts.context(name, "server")
        self.filter.handle_event(EventType.START_RUN, self.context)
        self.kind: str | None = None

    def restarted(self) -> Site:
        return Site(self.name, self.folder, **self.options)

    def lose_store(self) -> None:
        shutil.rmtree(self.folder / self.name)

    @property
    def version(self) -> Any:
        return self.context.get_prop(VERSION)

    def receive(self, server: Server, step: int) -> dict[str, Any]:
        """Runs a task up to its execution. Returns the weights that the script gets."""
        return self.apply(server.send(contexts.task(weights(step), step), self.context))

    def apply(self, message: Shareable) -> dict[str, Any]:
        self.kind = contents(message).kind
        fl_ctx = contexts.between(contexts.context("server", ""), self.context)
        dxo = from_shareable(self.filter.process(fobs.loads(fobs.dumps(message)), fl_ctx))
        assert dxo.data_kind == DataKind.WEIGHTS
        assert MetaKey.PROCESSED_ALGORITHM not in dxo.meta
        return dict(dxo.data)


def assert_same_bits(actual: Weights, expected: Weights) -> None:
    assert list(actual) == list(expected)
    for name, array in expected.items():
        assert np.asarray(actual[name]).dtype == np.asarray(array).dtype, name
        assert np.asarray(actual[name]).tobytes() == np.asarray(array).tobytes(), name


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site("site-1", tmp_path)


def test_weights_may_be_written_to_as_without_the_filter(site: Site) -> None:
    server = Server("lossless")
    site.receive(server, 0)["kernel"][:] = 0
    assert_same_bits(site.receive(server, 1), weights(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.float8_e5m2], ids=str)
def test_tensors_stay_tensors(dtype: torch.dtype, site: Site) -> None:
    tensors = {"kernel": torch.arange(-600, 600).reshape(30, 40).to(dtype), "scalar": torch.tensor(2.5)}
    received = site.apply(Server("lossless").send(contexts.task(tensors), site.context))
    for name, tensor in tensors.items():
        assert received[name].dtype == tensor.dtype
        assert received[name].tolist() == tensor.tolist()
    received["kernel"][0] = 0


@pytest.mark.parametrize("encoder", ENCODERS)
def test_sites_hold_the_same_bits_whatever_happened_to_them(encoder: str, tmp_path: Path) -> None:
    server = Server(encoder)
    one, other = Site("site-1", tmp_path), Site("site-2", tmp_path)  # both on one machine
    expected = one.receive(server, 0)
    assert_same_bits(other.receive(server, 0), expected)

    one.receive(server, 1)
    expected = one.receive(server, 2)
    assert_same_bits(other.receive(server, 2), expected)  # it missed a round
    assert other.kind == "changes"

    late = Site("site-3", tmp_path)
    assert_same_bits(late.receive(server, 2), expected)
    assert late.kind == "snapshot"

    one.lose_store()
    one = one.restarted()
    assert_same_bits(one.receive(server, 2), expected)
    assert one.kind == "snapshot"

    other = other.restarted()
    assert_same_bits(other.receive(server, 2), expected)
    assert other.kind == "same"


def test_plain_weights_pass_a_client(site: Site) -> None:
    fl_ctx = contexts.between(contexts.context("server", ""), site.context)
    passed = site.filter.process(contexts.task(weights()), fl_ctx)
    assert_same_bits(from_shareable(passed).data, weights())
    assert site.version == ""


def test_weights_that_are_encrypted_pass_the_server(site: Site) -> None:
    task = contexts.result({"kernel": b"secret"}, kind=DataKind.WEIGHTS, PROCESSED_ALGORITHM="HE")
    assert from_shareable(Server().send(task, site.context)).data == {"kernel": b"secret"}


def test_the_shared_task_is_not_changed(tmp_path: Path) -> None:
    server, task = Server(), contexts.task(weights())
    task["DXO"]["meta"][MetaKey.FILTER_HISTORY] = ["another filter"]
    before = copy.deepcopy(task)
    for name in ("site-1", "site-2"):
        sent = server.send(task, Site(name, tmp_path).context)
        assert from_shareable(sent).get_filter_history() == ["another filter", "FedplugBroadcaster"]
    assert task["DXO"]["meta"] == before["DXO"]["meta"]
    assert_same_bits(task["DXO"]["data"], before["DXO"]["data"])


def test_requests_in_threads_get_the_model_of_their_task_encoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    sites = [Site(f"site-{number}", tmp_path) for number in range(6)]
    for site in sites[:3]:
        site.receive(server, 0)
    written = []
    write = messages.write
    monkeypatch.setattr(
        messages, "write", lambda one, payloads: written.append(one.kind) or write(one, payloads)
    )
    task = contexts.task(weights(1), 1)
    with ThreadPoolExecutor(6) as pool:
        sent = list(pool.map(lambda site: server.send(task, site.context), sites))
    assert sorted(written) == ["changes", "snapshot"]
    first, *others = [site.apply(message) for site, message in zip(sites, sent, strict=True)]
    for other in others:
        assert_same_bits(other, first)
    tasks = [contexts.task(weights(step), step) for step in (2, 3)] * 12
    with ThreadPoolExecutor(6) as pool:  # of two models at a time
        mixed = list(pool.map(lambda one: server.send(one, contexts_of("other")), tasks))
    found = {contents(message).version for message in mixed[::2]}
    assert len(found) == 1
    assert found.isdisjoint(contents(message).version for message in mixed[1::2])


def contexts_of(name: str, version: Any = "") -> FLContext:
    """Returns the context of a site that reports a version."""
    fl_ctx = contexts.context(name, "server")
    fl_ctx.set_prop(VERSION, version, private=False, sticky=True)
    return fl_ctx


@pytest.mark.parametrize("version", [3, ["0" * 16], b"x", {}, None])
def test_a_version_that_is_no_text_gets_plain_weights(version: Any) -> None:
    sent = Server().send(contexts.task(weights()), contexts_of("site-1", version))
    assert_same_bits(from_shareable(sent).data, weights())


def test_a_broken_message_gives_no_model_and_keeps_the_old_one(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    site.receive(server, 0)
    before = site.version
    sent = server.send(contexts.task(weights(1), 1), site.context)
    broken = copy.deepcopy(sent)
    broken["DXO"]["data"]["message"] = broken["DXO"]["data"]["message"][:-1]
    fl_ctx = contexts.between(server.context, site.context)
    with pytest.raises(PayloadError):
        site.filter.process(broken, fl_ctx)
    assert "the model of round 1 is refused: " in caplog.text
    assert site.version == before
    site.apply(sent)
    assert site.version != before


def test_a_message_of_another_type_is_refused(site: Site) -> None:
    sent = Server().send(contexts.task(weights()), site.context)
    sent["DXO"]["data"]["message"] = np.zeros(3)
    with pytest.raises(ValueError, match="not the message of a FedplugBroadcaster"):
        site.filter.process(sent, contexts.between(contexts.context("server", ""), site.context))


def test_changes_to_another_model_are_refused_and_the_next_message_fits(site: Site) -> None:
    server = Server()
    site.receive(server, 0)
    site.lose_store()
    with pytest.raises(BaseVersionError):
        site.receive(server, 1)
    site.receive(server, 1)
    assert site.kind == "snapshot"


def test_a_model_above_the_limit_is_refused(tmp_path: Path) -> None:
    site = Site("site-1", tmp_path, max_bytes=1000)
    with pytest.raises(PayloadError, match="max_bytes"):
        site.receive(Server(), 0)


def test_payloads_of_unexpected_encoders_are_refused(tmp_path: Path) -> None:
    site = Site("site-1", tmp_path, wire_ids=["acme/1"])
    with pytest.raises(PayloadError, match="wire id"):
        site.receive(Server(), 0)


def test_a_task_that_only_the_server_filters_ends_the_job(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    fl_ctx = contexts.between(contexts.context("server", ""), site.context)
    fl_ctx.set_prop(FLContextKey.TASK_NAME, "validate", private=True, sticky=False)
    for task in (contexts.task(weights()), Server().send(contexts.task(weights()), site.context)):
        assert "FedplugReceiver" not in caplog.text
        fl_ctx.set_prop(FLContextKey.TASK_DATA, task, private=True, sticky=False)
        site.filter.handle_event(EventType.BEFORE_TASK_EXECUTION, fl_ctx)
    assert "the model of task 'validate', and this site's FedplugReceiver is not a filter" in caplog.text


def test_bytes_are_in_the_meta_of_the_result_beside_those_of_updates(tmp_path: Path) -> None:
    server, sites = Server(), [Site(f"site-{number}", tmp_path) for number in range(3)]
    sizes = []
    for site in sites:
        sent = server.send(contexts.task(weights()), site.context)
        sizes.append(len(from_shareable(sent).data["message"]))
    result = FedplugAggregator().aggregate_model()
    contexts.end_round(server.filter, result)
    dense = 3 * sum(np.asarray(array).nbytes for array in weights().values())
    report = {"models": 3, "downlink_bytes": sum(sizes), "downlink_dense_bytes": dense}
    assert result.meta["fedplug"] == {"clients": 0, "uplink_bytes": 0, "dense_bytes": 0, **report}
    later = FLModel(params={}, params_type=ParamsType.DIFF)
    contexts.end_round(server.filter, later)
    assert "fedplug" not in (later.meta or {})


def test_bytes_are_sent_to_nvflares_experiment_tracking(site: Site) -> None:
    sent = Server().send(contexts.task(weights(), 7), site.context)
    size = len(from_shareable(sent).data["message"])
    fl_ctx = contexts.between(contexts.context("server", ""), site.context)
    site.filter.process(sent, fl_ctx)
    scalar = AnalyticsData.from_dxo(from_shareable(fl_ctx.get_prop(FLContextKey.EVENT_DATA)))
    assert (scalar.tag, scalar.value, scalar.step) == ("fedplug/downlink_bytes", size, 7)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_full_weights_after_a_lossy_broadcast_end_the_job(encoder: str, site: Site) -> None:
    server = Server(encoder)
    site.receive(server, 0)
    result = FLModel(params=weights(), params_type=ParamsType.FULL)
    fl_ctx = contexts.end_round(server.filter, result)
    if encoder == "lossless":
        assert_same_bits(result.params, weights())
    else:
        assert "params_transfer_type=TransferType.DIFF" in fl_ctx.get_prop(FLContextKey.EVENT_DATA)
        assert (result.params, result.params_type) == ({}, ParamsType.DIFF)


def test_a_sparse_encoder_ends_the_job_with_the_reason(site: Site) -> None:
    server = Server("topk(0.1)")
    fl_ctx = contexts.between(site.context, server.context)
    with pytest.raises(CapabilityError):
        server.filter.process(contexts.task(weights()), fl_ctx)
    assert "cannot encode a broadcast" in fl_ctx.get_prop(FLContextKey.EVENT_DATA)


def test_an_encoder_that_cannot_be_read_fails_when_the_job_is_made() -> None:
    with pytest.raises(FedplugError, match="bfp"):
        FedplugBroadcaster("bpf(5)")


def test_a_model_that_cannot_be_sent_ends_the_job_with_its_tensor(site: Site) -> None:
    server = Server()
    fl_ctx = contexts.between(site.context, server.context)
    with pytest.raises(fedplug.errors.ArgumentError):
        server.filter.process(contexts.task({"kernel": "text"}), fl_ctx)
    assert "'kernel'" in fl_ctx.get_prop(FLContextKey.EVENT_DATA)
