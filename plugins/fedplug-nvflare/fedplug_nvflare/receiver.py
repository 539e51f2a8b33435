"""The client's input filter: decodes the messages of the server's `FedplugBroadcaster`."""

from __future__ import annotations

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants

import fedplug
from fedplug.codecs import BUILT_IN, DEFAULT_MAX_BYTES
from fedplug.errors import FedplugError
from fedplug.stores.rules import absolute
from fedplug.wire.message import MessageReader
from fedplug_nvflare.encoder import state_url
from fedplug_nvflare.global_model import native
from fedplug_nvflare.update import VERSION, message_of
from fedplug_nvflare.weight_filter import WeightFilter

__all__ = ["FedplugReceiver"]

_NOT_RECEIVED = (
    "the server's FedplugBroadcaster compresses the model of task {!r}, and this site's FedplugReceiver is "
    "not a filter of that task; give both the same tasks"
)
"""The reason why a task cannot be executed."""


class FedplugReceiver(WeightFilter):
    """Replaces the server's message by the model before the task is executed. Plain weights pass.

    Use ``recipe.add_client_input_filter(FedplugReceiver(), tasks=["train"])`` with a `FedplugBroadcaster` on
    the server. The model is on the disk before the task begins, so a restarted client gets only those that
    has changed. A message that is damaged, too large, or for another version gives no model: NVFlare's policy
    for failed clients applies, the client's log has the reason, and the next message fits.
    """

    must_be = "first"

    def __init__(
        self,
        store: str | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        wire_ids: list[str] | None = None,
    ) -> None:
        """Initializes the filter.

        Args:
            store: The URL of the store that keeps the client's model between jobs, which may be that of a
                `FedplugEncoder`. ``{site}`` in it stands for the name of the client. None means a store in
                the job's folder, for this job only.
            max_bytes: Maximum size of the model. Larger ones are refused.
            wire_ids: Wire ids of the payloads to accept, for example ``["acme/1"]`` for an encoder of a
                plugin. Others are refused. None means those of fedplug's own encoders.
        """
        super().__init__(DataKind.WEIGHTS)
        self.store = store
        self._url = None if store is None else absolute(store)
        self.max_bytes = max_bytes
        self.wire_ids = wire_ids

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Reports the stored version when the job starts. Ends the job at a task that it cannot decode."""
        if event_type == EventType.START_RUN:
            _report(None, fl_ctx)  # even if the store cannot be opened, so that the first task says so
            with fedplug.open_store(state_url(self._url, fl_ctx)) as store:
                _report(self._opened(store, fl_ctx).version, fl_ctx)
            return
        reason = None
        if event_type == EventType.BEFORE_TASK_DATA_FILTER:
            reason = self.misplaced(fl_ctx)
        elif event_type == EventType.BEFORE_TASK_EXECUTION and _holds_message(fl_ctx):
            reason = _NOT_RECEIVED.format(fl_ctx.get_prop(FLContextKey.TASK_NAME))
        if reason is not None:
            self.log_error(fl_ctx, reason)
            # The error must reach the server, too, which would otherwise wait for this site.
            self.fire_fed_event(EventType.FATAL_SYSTEM_ERROR, Shareable({"reason": reason}), fl_ctx)

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        """Returns the model. None for plain weights.

        Raises:
            ValueError: The DXO is not a message of a `FedplugBroadcaster`.
            FedplugError: The message is refused, or the model cannot be stored.
        """
        found = message_of(dxo)
        if found is None:
            return None
        message, as_torch = found
        round_num = shareable.get_header(AppConstants.CURRENT_ROUND) or 0
        try:
            with fedplug.open_store(state_url(self._url, fl_ctx)) as store:
                receiver = self._opened(store, fl_ctx)
                try:
                    model = receiver.apply(message)
                finally:
                    _report(receiver.version, fl_ctx)
        except FedplugError as error:
            self.log_error(fl_ctx, f"the model of round {round_num} is refused: {error}")
            raise
        sent, dense = len(message), sum(array.nbytes for array in model.values())
        kind = MessageReader(message).contents().kind
        self.log_info(
            fl_ctx,
            f"model {receiver.version} ({kind}): "
            f"{sent} bytes instead of {dense} ({sent / max(dense, 1):.2%})",
        )
        self.track_bytes("downlink", sent, round_num, fl_ctx)
        meta = {key: value for key, value in dxo.meta.items() if key != MetaKey.PROCESSED_ALGORITHM}
        # Copies, because scripts may write into the weights, and those of a receiver are read-only.
        weights = {name: native(array.copy(), as_torch) for name, array in model.items()}
        return DXO(DataKind.WEIGHTS, weights, meta)

    def _opened(self, store: fedplug.stores.StateStore, fl_ctx: FLContext) -> fedplug.Receiver:
        wire_ids = BUILT_IN if self.wire_ids is None else self.wire_ids
        name = fl_ctx.get_identity_name()
        return fedplug.Receiver(store, name, max_bytes=self.max_bytes, wire_ids=wire_ids)


def _report(version: str | None, fl_ctx: FLContext) -> None:
    """Reports a version to the server, in all later requests of this process."""
    fl_ctx.set_prop(VERSION, version or "", private=False, sticky=True)


def _holds_message(fl_ctx: FLContext) -> bool:
    task = fl_ctx.get_prop(FLContextKey.TASK_DATA)
    try:
        return isinstance(task, Shareable) and message_of(from_shareable(task)) is not None
    except ValueError:
        return False
