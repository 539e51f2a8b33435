"""The server's aggregator: adds payloads up as they arrive, without making them dense."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.fl_constant import ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.aggregators.weighted_aggregation_helper import WeightedAggregationHelper
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from fedplug_nvflare.global_model import NO_MODEL, GlobalModel
from fedplug_nvflare.receipts import Receipts
from fedplug_nvflare.update import finite_numbers, num_steps

__all__ = ["FedplugAggregator"]

_CLIENT = "client_name"


class FedplugAggregator(ModelAggregator):
    """The weighted mean that NVFlare's FedAvg computes by itself, of payloads; dense updates are taken, too.

    For ``FedAvgRecipe(..., aggregator=FedplugAggregator(), params_transfer_type=TransferType.DIFF)``. A
    client weighs as much as it says in NUM_STEPS_CURRENT_ROUND, times its aggregation weight. The sums are
    those of NVFlare, rounding by rounding, for one order of arrival; those of statistics are in float64. The
    server holds one sum of the model's size, however many clients there are; a sparse payload is added entry
    by entry.

    A contribution that no encoder wrote, that does not fit the global model, or that is of full weights is
    refused: the error names client and tensor, nothing of it is added, the others are aggregated. A round in
    which all are refused leaves the model as it is.
    """

    def __init__(
        self,
        aggregation_weights: dict[str, float] | None = None,
        receipts: str | None = None,
        wire_ids: list[str] | None = None,
    ) -> None:
        """Adds nothing yet.

        Args:
            aggregation_weights: By client; 1 for all others. (A recipe hands its own to its built-in
                aggregation only.)
            receipts: The file that keeps from job to job what was accepted; to be given where clients have a
                store of their own. None: in the folder of the job, for this job only.
            wire_ids: The wire ids of the payloads to accept, for instance ``["acme/1"]`` where clients use an
                encoder of a plugin; payloads of others are refused. None: those of fedplug's own encoders.
        """
        super().__init__()
        self.aggregation_weights = aggregation_weights
        self.receipts = receipts
        self.wire_ids = wire_ids
        self._receipts = Receipts(receipts, self)
        self._lock = threading.Lock()
        self.reset_stats()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Follows the rounds."""
        super().handle_event(event_type, fl_ctx)
        if event_type == AppEventType.BEFORE_TRAIN_TASK:
            with self._lock:
                if self._model is None:
                    self._model = GlobalModel.of_task(fl_ctx, self.wire_ids)
        self._receipts.handle_event(event_type, fl_ctx)

    def reset_stats(self) -> None:
        """Forgets the last round."""
        self._model: GlobalModel | None = None
        self._metrics = WeightedAggregationHelper()
        self._all_have_metrics = True
        self._uplink_bytes = 0

    def accept_model(self, model: FLModel) -> None:
        """Adds one client's update.

        Raises:
            ValueError: It is refused; the message names the client, and what is wrong with which tensor.
        """
        client = (model.meta or {}).get(_CLIENT, "?")
        try:
            weight = self._weight(client, model)
            sent = self._add(model, weight)
        except Exception as error:  # whatever it sent: NVFlare logs it as this client's
            raise ValueError(f"update of client {client!r} refused: {error}") from error
        self._uplink_bytes += sent
        self._all_have_metrics &= model.metrics is not None
        numbers = finite_numbers(model.metrics)
        if numbers and self._all_have_metrics:
            self._metrics.add(numbers, weight, client, None)

    def aggregate_model(self) -> FLModel:
        """The mean of what was accepted, as a difference; and the bytes that it took, in the meta."""
        clients = self._model.total.count if self._model else 0
        dense = clients * self._model.dense_bytes if self._model else 0
        report = {"clients": clients, "uplink_bytes": self._uplink_bytes, "dense_bytes": dense}
        if clients:
            self.info(f"{clients} updates took {self._uplink_bytes} bytes instead of {dense}")
        else:
            self.warning("no update was accepted in this round; the model stays as it is")
        metrics = self._metrics.get_result() if self._all_have_metrics else None
        try:
            params = self._mean()
        except ValueError as error:
            self.warning(f"the round is refused, the model stays as it is: {error}")
            params = {}
        self.reset_stats()
        return FLModel(
            params_type=ParamsType.DIFF, params=params, metrics=metrics or None, meta={"fedplug": report}
        )

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """As ScatterAndGather calls it, which takes an answer instead of an error."""
        self.fl_ctx = fl_ctx
        try:
            model = FLModelUtils.from_shareable(shareable)
            model.meta[_CLIENT] = shareable.get_peer_prop(ReservedKey.IDENTITY_NAME, "?")
            self.accept_model(model)
        except ValueError as error:
            self.error(str(error))
            return False
        return True

    def _mean(self) -> dict[str, Any]:
        """Returns the mean of what was added, which is forgotten; empty if there is nothing."""
        model = self._model
        if model is None or not model.total.count:
            return {}
        return model.update(_divided(model.total.value(), model.total.weight))

    def _weight(self, client: str, model: FLModel) -> float:
        return (self.aggregation_weights or {}).get(client, 1.0) * num_steps(model.meta or {})

    def _add(self, model: FLModel, weight: float) -> int:
        """Adds an update; returns the bytes of its payloads."""
        if self._model is None:
            raise ValueError(NO_MODEL)
        payloads = self._model.payloads(model.params, model.meta, model.params_type == ParamsType.DIFF)
        self._model.total.add(payloads, weight)
        return sum(len(payload) for payload in payloads.values())


def _divided(sums: dict[str, NDArray[Any]], weight: float) -> dict[str, NDArray[Any]]:
    """Times the reciprocal, as FedAvg does: a division would round differently."""
    with np.errstate(over="ignore"):  # the result is checked
        for array in sums.values():
            np.multiply(array, np.asarray(1.0 / weight, array.dtype), out=array)
    return sums
