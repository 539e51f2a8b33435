"""The client's output filter: compresses a weight difference to payloads."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants

import fedplug
from fedplug.errors import NonFiniteError
from fedplug.stores.rules import absolute
from fedplug_nvflare.constants import Constants, base_of, weights_of
from fedplug_nvflare.update import (
    ACCEPTED,
    RECEIPT,
    REFUSED,
    SEND_DIFFERENCES,
    SERVED,
    compressed,
    is_compressed,
    replaced,
)
from fedplug_nvflare.weight_filter import WeightFilter

__all__ = ["FedplugEncoder", "state_url"]

_NOT_SERVED = (
    "this site has a FedplugEncoder, but the server has no FedplugAggregator or FedplugDecoder to read its "
    "updates; give the recipe aggregator=FedplugAggregator()"
)
"""The reason why a job cannot begin."""

_NOT_FILTERED = (
    "in a workflow that clients control, such as swarm learning, NVFlare applies no filters to task {!r}, so "
    "FedplugEncoder would compress nothing; use a workflow of the server, such as FedAvg, or remove it"
)

_UNTIL_IT_IS_READ = 2.0
"""Seconds before this site ends: NVFlare's server drops an unread error once all sites have left."""

_TASK = "fedplug_task"
_MIN_SIZE = 64


class _Task(NamedTuple):
    """The data of a task with which its result is encoded."""

    round_num: int
    accepted: str | None
    constants: Constants
    base: dict[str, NDArray[np.generic]]
    run: str | None


class FedplugEncoder(WeightFilter):
    """Compresses a client's updates. The residual is kept in a store and added to the next update.

    Use ``recipe.add_client_output_filter(FedplugEncoder("topk(0.01) | qsgd(8)"), tasks=["train"])``. The
    state is on the disk before the payloads are sent. It is confirmed when a later task of the server says
    that the payloads were accepted, through `FedplugAggregator` or `FedplugDecoder`. If they were lost or
    refused, the residual returns to its previous value.

    A job that cannot work ends at its first task, and the logs have the remedy. Reasons are a server that
    does not read payloads, a workflow without NVFlare's events of training, and a filter of weights behind
    this one. A result with full weights is an error: only differences can be compressed, and NVFlare makes
    them with ``params_transfer_type=TransferType.DIFF``. A collection of DXOs is an error, too. An update
    that is not finite is replaced by an empty result, which NVFlare's FedAvg skips. The client's log has the
    reason. (An error would end the job for all sites.)

    A tensor that has no negative element before and after training has none at the server, either: it is sent
    exactly where the encoder would make one.

    The log says once which tensors are sent exactly, such as batch normalization statistics, and why.
    """

    def __init__(
        self, codec: str | dict[str, object], store: str | None = None, min_size: int = _MIN_SIZE
    ) -> None:
        """Initializes the filter, and checks the codec.

        Args:
            codec: An expression, or rules by tensor name, for `fedplug.codec`. It is stored in the job's
                configuration.
            store: The URL of the store that keeps the client's state between jobs. ``{site}`` in it stands
                for the name of the client. None means a store in the job's folder, for this job only.
            min_size: Minimum number of elements. Smaller tensors are sent uncompressed.

        Raises:
            CapabilityError: The decoded values are not updates, see `fedplug.Codec.require_updates`.
            ConfigError: The codec cannot be parsed.
            UnknownNameError: There is no such encoder.
        """
        super().__init__(DataKind.WEIGHTS, DataKind.WEIGHT_DIFF)
        self.codec = codec  # NVFlare reads a component's arguments from its attributes
        self.store = store
        self._url = None if store is None else absolute(store)
        self._codec = fedplug.codec(codec, min_size=min_size).require_updates()
        self.min_size = self._codec.min_size
        self._exactly: dict[str, list[str]] = {}

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Stores the data of a task that `process_dxo` needs for the result."""
        if event_type == EventType.BEFORE_TASK_EXECUTION:
            task = fl_ctx.get_prop(FLContextKey.TASK_DATA)
            if isinstance(task, Shareable):
                if reason := self._reason_to_end(task, fl_ctx):
                    self.log_error(fl_ctx, reason)
                    # The error must reach the server, too, which would otherwise wait for this site.
                    self.fire_fed_event(EventType.FATAL_SYSTEM_ERROR, Shareable({"reason": reason}), fl_ctx)
                    time.sleep(_UNTIL_IT_IS_READ)
                weights = weights_of(task)
                seen = _Task(
                    task.get_header(AppConstants.CURRENT_ROUND) or 0,
                    task.get_header(ACCEPTED),
                    Constants(weights),
                    base_of(weights),
                    task.get_header(SERVED),
                )
                fl_ctx.set_prop(_TASK, seen, private=True, sticky=False)

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO:
        """Encodes weight differences to payloads. An update that is not finite gives an empty result.

        Raises:
            ValueError: The result has full weights.
            FedplugError: The update cannot be encoded. The message names the tensor.
        """
        if dxo.data_kind != DataKind.WEIGHT_DIFF:
            raise ValueError(
                f"the result is of full weights; {SEND_DIFFERENCES}; for tasks that return weights, such as "
                "submit_model, this filter is not: add it with tasks=['train']"
            )
        if is_compressed(dxo.meta):  # raises for other processing, such as quantization
            raise ValueError("the update is compressed already; add one FedplugEncoder to a task")
        task = fl_ctx.get_prop(_TASK) or _Task(0, None, Constants({}), {}, None)
        update = task.constants.left_out(dxo.data)
        fits = all(name in task.base and task.base[name].shape == np.shape(x) for name, x in update.items())
        base = task.base if fits else None
        identity, job = fl_ctx.get_identity_name(), fl_ctx.get_job_id()
        with fedplug.open_store(state_url(self._url, fl_ctx)) as store:
            client = fedplug.ClientCodec(self._codec, store, identity, training=f"{job} {task.run}")
            before = client.pending
            settled = client.settle(task.accepted)
            try:
                payloads, receipt = client.encode_model(update, task.round_num, base=base)
            except NonFiniteError as error:
                self.log_error(fl_ctx, f"the update of round {task.round_num} is not sent: {error}")
                return replaced(dxo, {}, MetaKey.INITIAL_METRICS)
        if before is not None and not settled:
            self.log_warning(
                fl_ctx, f"update {before} was not accepted by the server; its residual is undone"
            )
        shareable.set_header(RECEIPT, receipt)
        self._report(dxo, payloads, receipt, task.round_num, fl_ctx)
        return compressed(dxo, payloads)

    def _reason_to_end(self, task: Shareable, fl_ctx: FLContext) -> str | None:
        """Returns the reason why the job cannot work. None for tasks without this filter, too."""
        tasks = {name for name, _ in self.chains(fl_ctx)}
        name, runner = fl_ctx.get_prop(FLContextKey.TASK_NAME), fl_ctx.get_prop(FLContextKey.RUNNER)
        executor = runner.find_executor(name) if runner else None
        if (learned := getattr(executor, "learn_task_name", None)) in tasks:  # NVFlare's ClientSideController
            return _NOT_FILTERED.format(learned)
        if tasks and name not in tasks:
            return None
        if reason := self.misplaced(fl_ctx) or task.get_header(REFUSED):
            return reason
        return None if task.get_header(SERVED) else _NOT_SERVED

    def _report(
        self, dxo: DXO, payloads: dict[str, bytes], receipt: str, round_num: int, fl_ctx: FLContext
    ) -> None:
        exactly = self._codec.sent_exactly(dxo.data)
        if exactly != self._exactly:
            self._exactly = exactly
            for reason, names in exactly.items():
                self.log_info(fl_ctx, f"sent exactly, {reason}: {', '.join(names)}")
        sent = sum(map(len, payloads.values()))
        exact = sum(len(payloads[name]) for names in exactly.values() for name in names)
        dense = sum(getattr(x, "nbytes", 8) for x in dxo.data.values())  # a Python number is a float64
        self.log_info(
            fl_ctx,
            f"update {receipt}: {sent} bytes instead of {dense} ({sent / max(dense, 1):.2%}), "
            f"{exact} of them for tensors that are sent exactly",
        )
        self.track_bytes("uplink", sent, round_num, fl_ctx)


def state_url(store: str | None, fl_ctx: FLContext) -> str:
    """Returns the URL of the store of a client's state.

    Args:
        store: The configured URL, see `FedplugEncoder`. None for a store in the job's folder.
        fl_ctx: A context of the client.
    """
    if store is not None:
        return store.replace("{site}", fl_ctx.get_identity_name())
    folder = Path(fl_ctx.get_workspace().get_run_dir(fl_ctx.get_job_id())) / "fedplug"
    return f"sqlite:///{folder.absolute()}"
