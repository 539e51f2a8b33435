"""The server's input filter: payloads become the weight differences that any workflow aggregates."""

from __future__ import annotations

from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.fl_constant import ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_event_type import AppEventType

from fedplug_nvflare.global_model import NO_MODEL, GlobalModel
from fedplug_nvflare.receipts import Receipts
from fedplug_nvflare.update import RECEIPT, is_compressed, replaced

__all__ = ["FedplugDecoder"]


class FedplugDecoder(DXOFilter):
    """Makes one client's update dense as it arrives: for aggregators that know nothing of payloads.

    For ``recipe.add_server_input_filter(FedplugDecoder(), tasks=["train"])``; `FedplugAggregator` needs no
    such filter, and less memory and time. Results of clients that do not compress pass untouched.

    An update that no encoder wrote, or that does not fit the global model, reaches no aggregator: the
    client's result is empty, which NVFlare's FedAvg skips with a warning, and the reason is in the server's
    log. (An error instead would end the job: FedAvg wants a good result of every client that it asked.)
    """

    def __init__(self, receipts: str | None = None) -> None:
        """Remembers nothing yet.

        Args:
            receipts: The file that keeps from job to job what was accepted; to be given where clients have a
                store of their own. None: in the folder of the job, for this job only.
        """
        kinds = [DataKind.WEIGHTS, DataKind.WEIGHT_DIFF]
        super().__init__(supported_data_kinds=kinds, data_kinds_to_filter=kinds)
        self.receipts = receipts
        self._receipts = Receipts(receipts, self)
        self._model: GlobalModel | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Follows the rounds."""
        if event_type == AppEventType.BEFORE_TRAIN_TASK:
            self._model = GlobalModel.of_task(fl_ctx)
        self._receipts.handle_event(event_type, fl_ctx)

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        """Differences for payloads; nothing for a broken update; None (unchanged) for any other."""
        client = shareable.get_peer_prop(ReservedKey.IDENTITY_NAME, "?")
        try:
            if not is_compressed(dxo.meta):
                return None
            if self._model is None:
                raise ValueError(NO_MODEL)
            update = self._model.decode(dxo.data)
        except Exception as error:  # whatever a client sent, it must not end the others' job
            self.log_error(fl_ctx, f"update of client {client!r} refused: {error}")
            shareable.set_header(RECEIPT, None)  # it is not accepted, whatever becomes of the empty result
            return replaced(dxo, {}, MetaKey.INITIAL_METRICS)
        return replaced(dxo, update)
