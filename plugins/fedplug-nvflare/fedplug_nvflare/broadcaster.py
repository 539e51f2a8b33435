"""The server's output filter: sends the model as the changes since the version of each client."""

from __future__ import annotations

import threading

from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

import fedplug
from fedplug.errors import FedplugError
from fedplug.versions import LOSSLESS
from fedplug_nvflare.global_model import is_torch
from fedplug_nvflare.update import SEND_DIFFERENCES, VERSION, compressed_model
from fedplug_nvflare.weight_filter import WeightFilter

__all__ = ["FedplugBroadcaster"]


class FedplugBroadcaster(WeightFilter):
    """Compresses the model for clients that have a `FedplugReceiver`. Others get NVFlare's plain weights.

    Use ``recipe.add_server_output_filter(FedplugBroadcaster("auto"), tasks=["train"])``, and
    ``recipe.add_client_input_filter(FedplugReceiver(), tasks=["train"])`` for the same tasks.

    A client reports the version it holds with each request for a task, so this filter keeps no list of
    clients. A client that is new, missed rounds, or lost its store gets its parts, also from a restarted
    server. A message is encoded once for all clients of a version, see `fedplug.Broadcaster`.

    Clients train on the decoded model. If the encoder loses something, their results must be differences
    (``params_transfer_type=TransferType.DIFF``), which NVFlare adds to the server's exact model. A mean of
    full weights would contain the error of the broadcast, and ends the job.
    """

    _lock = threading.Lock()  # of the class, because NVFlare copies components

    def __init__(self, encoder: str | dict[str, object] = "auto") -> None:
        """Initializes the filter, and checks the encoder.

        Args:
            encoder: ``"lossless"``, or an expression or rules by tensor name, for `fedplug.Broadcaster`.

        Raises:
            CapabilityError: The encoder needs TensorFlow.
            ConfigError: The encoder cannot be parsed.
            UnknownNameError: There is no such encoder.
        """
        super().__init__(DataKind.WEIGHTS)
        self.encoder = encoder  # NVFlare reads a component's arguments from its attributes
        self._broadcaster = fedplug.Broadcaster(encoder)
        self._models = self._sent = self._dense = 0

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Adds the transferred bytes to the meta of FedAvg's result of each round, and checks the result."""
        if event_type == EventType.START_RUN and (reason := self.misplaced(fl_ctx)):
            self.system_panic(reason, fl_ctx)
        if event_type != AppEventType.AFTER_AGGREGATION:
            return
        with self._lock:
            models, sent, dense = self._models, self._sent, self._dense
            self._models = self._sent = self._dense = 0
        if not models:
            return
        self.log_info(fl_ctx, f"{models} models took {sent} bytes instead of {dense}")
        result = fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT)
        if isinstance(result, FLModel):
            result.meta = result.meta or {}
            report = {"models": models, "downlink_bytes": sent, "downlink_dense_bytes": dense}
            result.meta["fedplug"] = {**result.meta.get("fedplug", {}), **report}
            if self.encoder != LOSSLESS and result.params and result.params_type != ParamsType.DIFF:
                result.params, result.params_type = {}, ParamsType.DIFF  # the model stays as it is
                self.system_panic(
                    f"clients trained on a model with the error of {self.encoder!r}, so their weights cannot "
                    f'replace the server\'s; {SEND_DIFFERENCES}; or use FedplugBroadcaster("lossless")',
                    fl_ctx,
                )

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Sends the model; a collection of several models ends the job."""
        try:
            return super().process(shareable, fl_ctx)
        except (FedplugError, ValueError) as error:
            self.system_panic(f"the model cannot be sent: {error}", fl_ctx)
            raise

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        """Returns the message for the client. None for a client without a `FedplugReceiver`.

        Raises:
            FedplugError: The model cannot be sent. The message names the tensor.
        """
        peer = fl_ctx.get_peer_context()
        version = peer.get_prop(VERSION) if peer else None
        if not isinstance(version, str) or dxo.meta.get(MetaKey.PROCESSED_ALGORITHM) is not None:
            return None
        message = self._message(dxo.data, version)
        return compressed_model(dxo, message, any(map(is_torch, dxo.data.values())))

    def _message(self, weights: dict[str, object], version: str) -> bytes:
        with self._lock:  # NVFlare asks in several threads, perhaps for different models
            self._broadcaster.publish(weights)
            message = self._broadcaster.message(version)
            self._models += 1
            self._sent += len(message)
            self._dense += sum(array.nbytes for array in self._broadcaster.model.values())
        return message
