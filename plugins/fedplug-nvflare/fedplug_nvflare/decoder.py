"""The server's input filter: decodes payloads to weight differences for any workflow."""

from __future__ import annotations

from typing import Any

from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.fl_constant import ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedplug_nvflare.global_model import NO_MODEL, GlobalModel
from fedplug_nvflare.receipts import Receipts
from fedplug_nvflare.update import RECEIPT, finite_numbers, num_steps, replaced

__all__ = ["FedplugDecoder"]


class FedplugDecoder(DXOFilter):
    """Decodes each client's update as it arrives, for aggregators that do not support payloads.

    Use ``recipe.add_server_input_filter(FedplugDecoder(), tasks=["train"])``. `FedplugAggregator` needs no
    such filter, and less memory and time. Uncompressed updates pass the same checks.

    An update that is not from an encoder, or does not fit the global model, reaches no aggregator: the
    client's result becomes empty, which NVFlare's FedAvg skips with a warning. The server's log has the
    reason. (An error would end the job: FedAvg requires a good result of every client in the round.) A round
    without updates, or with a mean that is not finite, leaves the model unchanged.
    """

    def __init__(self, receipts: str | None = None, wire_ids: list[str] | None = None) -> None:
        """Initializes the filter.

        Args:
            receipts: The file that keeps accepted receipts between jobs, required if clients keep a store
                between jobs. None means a file in the job's folder, for this job only.
            wire_ids: Wire ids of the payloads to accept, for example ``["acme/1"]`` for an encoder of a
                plugin; others are refused. None means those of fedplug's own encoders.
        """
        kinds = [DataKind.WEIGHTS, DataKind.WEIGHT_DIFF]
        super().__init__(supported_data_kinds=kinds, data_kinds_to_filter=kinds)
        self.receipts = receipts
        self.wire_ids = wire_ids
        self._receipts = Receipts(receipts, self)
        self._task: Any = None
        self._model: GlobalModel | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Handles an event of NVFlare's rounds, and checks FedAvg's result of each round."""
        if event_type == AppEventType.BEFORE_TRAIN_TASK:
            task = fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE)
            if task is not self._task:  # the event comes once for each client
                self._task, self._model = task, GlobalModel.of_task(fl_ctx, self.wire_ids)
        elif event_type == AppEventType.AFTER_AGGREGATION:
            result = fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT)
            if isinstance(result, FLModel):
                self._check_result(result, fl_ctx)
        self._receipts.handle_event(event_type, fl_ctx)

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO:
        """Decodes payloads to differences; an invalid update gives an empty one."""
        client = shareable.get_peer_prop(ReservedKey.IDENTITY_NAME, "?")
        try:
            if self._model is None:
                raise ValueError(NO_MODEL)
            payloads = self._model.payloads(dxo.data, dxo.meta, dxo.data_kind == DataKind.WEIGHT_DIFF)
            update = self._model.decode(payloads, num_steps(dxo.meta))
            metrics = _harmless(dxo.meta.get(MetaKey.INITIAL_METRICS))
        except Exception as error:  # any content is possible, and must not end the others' job
            self.log_error(fl_ctx, f"update of client {client!r} refused: {error}")
            shareable.set_header(RECEIPT, None)  # the empty result may be accepted, the update is not
            return replaced(dxo, {}, MetaKey.INITIAL_METRICS)
        passed = replaced(dxo, update, MetaKey.INITIAL_METRICS)
        if metrics is not None:
            passed.set_meta_prop(MetaKey.INITIAL_METRICS, metrics)
        return passed

    def _check_result(self, result: FLModel, fl_ctx: FLContext) -> None:
        """Replaces a missing or non-finite mean by an empty difference: the model stays unchanged."""
        try:
            if result.params and self._model is not None:
                self._model.total.check(self._model.payloads(result.params, None, is_difference=True))
                return
            reason = "no update was accepted"
        except ValueError as error:
            reason = str(error)
        self.log_warning(fl_ctx, f"the round is refused, the model stays as it is: {reason}")
        result.params, result.params_type = {}, ParamsType.DIFF


def _harmless(metrics: Any) -> dict[str, Any] | None:
    """Returns the metrics that NVFlare can average or ignores."""
    if not isinstance(metrics, dict):
        return None
    left_alone = {k: v for k, v in metrics.items() if isinstance(v, str | dict | list | tuple | set)}
    return left_alone | finite_numbers(metrics)
