"""The server's input filter: decodes payloads to weight differences for any workflow."""

from __future__ import annotations

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedplug_nvflare.global_model import NO_MODEL, GlobalModel
from fedplug_nvflare.receipts import Receipts
from fedplug_nvflare.update import RECEIPT, finite_numbers, mean_of, none_accepted, num_steps, replaced
from fedplug_nvflare.weight_filter import WeightFilter

__all__ = ["FedplugDecoder"]


class FedplugDecoder(WeightFilter):
    """Decodes each client's update as it arrives, for aggregators that do not support payloads.

    Use ``recipe.add_server_input_filter(FedplugDecoder(), tasks=["train"])``. `FedplugAggregator` needs no
    such filter, and less memory and time. Uncompressed updates pass the same checks.

    An update that is not from an encoder, or does not fit the global model, reaches no aggregator: the
    client's result becomes empty, which NVFlare's FedAvg skips with a warning. The server's log has the
    reason. (An error would end the job: FedAvg requires a good result of every client in the round.) A round
    without updates, or with a mean that is not finite, leaves the model unchanged, and an error says why.
    """

    must_be = "first"

    def __init__(self, receipts: str | None = None, wire_ids: list[str] | None = None) -> None:
        """Initializes the filter.

        Args:
            receipts: The file that keeps accepted receipts between jobs, required if clients keep a store
                between jobs. None means a file in the job's folder, for this job only.
            wire_ids: Wire ids of the payloads to accept, for example ``["acme/1"]`` for an encoder of a
                plugin. Others are refused. None means those of fedplug's own encoders.
        """
        super().__init__(DataKind.WEIGHTS, DataKind.WEIGHT_DIFF)
        self.receipts = receipts
        self.wire_ids = wire_ids
        self._receipts = Receipts(receipts, self)
        self._task: object = None
        self._model: GlobalModel | None = None
        self._refused: dict[str, str] = {}

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Handles an event of NVFlare's rounds, and checks FedAvg's result of each round."""
        if event_type == EventType.START_RUN and (reason := self.misplaced(fl_ctx)):
            self.system_panic(reason, fl_ctx)
        elif event_type == AppEventType.BEFORE_TRAIN_TASK:
            task = fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE)
            if task is not self._task:  # the event comes once for each client
                self._task, self._refused = task, {}
                self._model = GlobalModel.of_task(fl_ctx, self.wire_ids, self)
        elif event_type == AppEventType.AFTER_AGGREGATION:
            self._check_result(fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT), fl_ctx)
        self._receipts.handle_event(event_type, fl_ctx)

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Decodes a result. An invalid one becomes an empty update."""
        try:
            return super().process(shareable, fl_ctx)
        except Exception as error:  # any content is possible, and must not end the others' job
            return self._refuse(DXO(DataKind.WEIGHT_DIFF, {}), shareable, fl_ctx, error).update_shareable(
                shareable
            )

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO:
        """Decodes payloads to differences. An invalid update gives an empty one."""
        try:
            if self._model is None:
                raise ValueError(NO_MODEL)
            payloads = self._model.payloads(dxo.data, dxo.meta, dxo.data_kind == DataKind.WEIGHT_DIFF)
            update = self._model.decode(payloads, num_steps(dxo.meta))
            metrics = _harmless(dxo.meta.get(MetaKey.INITIAL_METRICS))
        except Exception as error:
            return self._refuse(dxo, shareable, fl_ctx, error)
        passed = replaced(dxo, update, MetaKey.INITIAL_METRICS)
        if metrics is not None:
            passed.set_meta_prop(MetaKey.INITIAL_METRICS, metrics)
        return passed

    def _refuse(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext, error: Exception) -> DXO:
        client = str(shareable.get_peer_prop(ReservedKey.IDENTITY_NAME, "?"))
        self._refused[client] = str(error)
        self.log_error(fl_ctx, f"update of client {client!r} refused: {error}")
        shareable.set_header(RECEIPT, None)  # the empty result may be accepted, the update is not
        return replaced(dxo, {}, MetaKey.INITIAL_METRICS)

    def _check_result(self, result: object, fl_ctx: FLContext) -> None:
        """Replaces a missing or non-finite mean by an empty difference: the model stays unchanged."""
        mean = mean_of(result)
        if mean is None:
            return
        try:
            if mean and self._model is not None:
                self._model.total.check(self._model.payloads(mean, None, is_difference=True))
                return
            reason = none_accepted(self._refused)
        except ValueError as error:
            reason = f"the model stays as it is: {error}"
        self.log_error(fl_ctx, f"the round is refused: {reason}")
        if isinstance(result, FLModel):
            result.params, result.params_type = {}, ParamsType.DIFF
        else:
            replaced(from_shareable(result), {}).update_shareable(result)


def _harmless(metrics: object) -> dict[str, object] | None:
    """Returns the metrics that NVFlare can average or ignores."""
    if not isinstance(metrics, dict):
        return None
    left_alone = {k: v for k, v in metrics.items() if isinstance(v, str | dict | list | tuple | set)}
    return left_alone | finite_numbers(metrics)
