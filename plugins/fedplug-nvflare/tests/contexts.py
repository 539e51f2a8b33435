"""NVFlare's contexts and messages, as its runners create them, for tests without a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedplug_nvflare.update import SERVED
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import FLContextKey, ReservedKey
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable
from nvflare.apis.utils.fl_context_utils import gen_new_peer_ctx
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModel, FLModelUtils


def context(identity: str, peer: str, job: str = "job") -> FLContext:
    """Returns the context of one end for a message from or to the other."""
    fl_ctx = FLContextManager(identity_name=identity, job_id=job).new_context()
    other = FLContextManager(identity_name=peer, job_id=job).new_context()
    fl_ctx.set_peer_context(other)
    return fl_ctx


def between(sender: FLContext, receiver: FLContext) -> FLContext:
    """Returns a new context of the receiver for a message. It has the sender's public properties."""
    fl_ctx = receiver.get_prop(ReservedKey.MANAGER).new_context()
    fl_ctx.set_peer_context(gen_new_peer_ctx(sender))
    return fl_ctx


def task(weights: Mapping[str, Any], round_num: int = 0) -> Shareable:
    """Returns a task of FedAvg from a server with fedplug."""
    model = FLModel(params=dict(weights), current_round=round_num)
    shareable = FLModelUtils.to_shareable(model)
    shareable.set_header(SERVED, True)
    return shareable


def result(arrays: Mapping[str, Any], kind: str = DataKind.WEIGHT_DIFF, **meta: Any) -> Shareable:
    """Returns the result of a client's training."""
    return DXO(kind, dict(arrays), dict(meta)).to_shareable()


def arrived(shareable: Shareable, client: str) -> Shareable:
    """Returns a message as the server receives it, with the name of the client."""
    shareable.set_peer_props({ReservedKey.IDENTITY_NAME: client})
    return shareable


def decoded(decoder: Any, sent: Shareable, client: str = "site-1") -> DXO:
    """Returns the data that a decoder reads from a client's message."""
    return from_shareable(decoder.process(arrived(sent, client), context("server", client)))


def begin_round(component: Any, weights: Mapping[str, Any]) -> None:
    """Fires the event before a training task is sent, for a component of the server."""
    fl_ctx = context("server", "site-1")
    fl_ctx.set_prop(AppConstants.TRAIN_SHAREABLE, task(weights), private=True, sticky=False)
    component.handle_event(AppEventType.BEFORE_TRAIN_TASK, fl_ctx)


def end_round(component: Any, result: object) -> FLContext:
    """Fires the event after an aggregation, for a component of the server. Returns its context."""
    fl_ctx = context("server", "")
    fl_ctx.set_prop(AppConstants.AGGREGATION_RESULT, result, private=True, sticky=False)
    component.handle_event(AppEventType.AFTER_AGGREGATION, fl_ctx)
    return fl_ctx


def task_context(client: str, message: Shareable, job: str = "job") -> FLContext:
    """Returns the context in which a client runs a task."""
    fl_ctx = context(client, "server", job)
    fl_ctx.set_prop(FLContextKey.TASK_DATA, message, private=True, sticky=False)
    return fl_ctx
