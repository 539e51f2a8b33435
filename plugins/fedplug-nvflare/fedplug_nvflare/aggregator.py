"""The server's aggregator: adds payloads as they arrive, without making them dense."""

from __future__ import annotations

import threading

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
from fedplug_nvflare.update import finite_numbers, none_accepted, num_steps

__all__ = ["FedplugAggregator"]

_CLIENT = "client_name"


class FedplugAggregator(ModelAggregator):
    """Computes the weighted mean of NVFlare's FedAvg from payloads. Dense updates are accepted, too.

    Use ``FedAvgRecipe(..., aggregator=FedplugAggregator(), params_transfer_type=TransferType.DIFF)``. A
    client's weight is NUM_STEPS_CURRENT_ROUND times its aggregation weight. For one order of arrival, the
    sums equal those of NVFlare bit for bit. Sums of statistics are in float64. The server holds one sum of
    the model's size for any number of clients; a sparse payload is added entry by entry.

    A contribution is refused if it is not from an encoder, does not fit the global model, or has full
    weights. The error names client and tensor, nothing of it is added, and the others are aggregated. If all
    are refused, the model stays unchanged.
    """

    def __init__(
        self,
        aggregation_weights: dict[str, float] | None = None,
        receipts: str | None = None,
        wire_ids: list[str] | None = None,
    ) -> None:
        """Starts an empty sum.

        Args:
            aggregation_weights: Weights by client; 1 for all others. (A recipe passes its own only to its
                built-in aggregation.)
            receipts: The file that keeps accepted receipts between jobs, required if clients keep a store
                between jobs. None means a file in the job's folder, for this job only.
            wire_ids: Wire ids of the payloads to accept, for example ``["acme/1"]`` for an encoder of a
                plugin. Others are refused. None means those of fedplug's own encoders.
        """
        super().__init__()
        self.aggregation_weights = aggregation_weights
        self.receipts = receipts
        self.wire_ids = wire_ids
        self._receipts = Receipts(receipts, self)
        self._lock = threading.Lock()
        self.reset_stats()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Handles an event of NVFlare's rounds."""
        super().handle_event(event_type, fl_ctx)
        if event_type == AppEventType.BEFORE_TRAIN_TASK:
            with self._lock:
                if self._model is None:
                    self._model = GlobalModel.of_task(fl_ctx, self.wire_ids, self)
        self._receipts.handle_event(event_type, fl_ctx)

    def reset_stats(self) -> None:
        """Discards the last round."""
        self._model: GlobalModel | None = None
        self._refused: dict[str, str] = {}
        self._metrics = WeightedAggregationHelper()
        self._all_have_metrics = True
        self._uplink_bytes = 0

    def accept_model(self, model: FLModel) -> None:
        """Adds one client's update.

        Raises:
            ValueError: The update is refused. The message names the client, the tensor and the problem.
        """
        client = (model.meta or {}).get(_CLIENT, "?")
        try:
            weight = self._weight(client, model)
            sent = self._add(model, weight)
        except Exception as error:  # any content is possible; NVFlare logs it as this client's error
            self._refused[client] = str(error)
            raise ValueError(f"update of client {client!r} refused: {error}") from error
        self._uplink_bytes += sent
        self._all_have_metrics &= model.metrics is not None
        numbers = finite_numbers(model.metrics)
        if numbers and self._all_have_metrics:
            self._metrics.add(numbers, weight, client, None)

    def aggregate_model(self) -> FLModel:
        """Returns the mean of the accepted updates as a difference. The meta has the transferred bytes."""
        clients = self._model.total.count if self._model else 0
        dense = clients * self._model.dense_bytes if self._model else 0
        report = {"clients": clients, "uplink_bytes": self._uplink_bytes, "dense_bytes": dense}
        if clients:
            self.info(f"{clients} updates took {self._uplink_bytes} bytes instead of {dense}")
        else:
            self.error(none_accepted(self._refused))
        metrics = self._metrics.get_result() if self._all_have_metrics else None
        try:
            params = self._mean()
        except ValueError as error:
            self.error(f"the round is refused, the model stays as it is: {error}")
            params = {}
        self.reset_stats()
        return FLModel(
            params_type=ParamsType.DIFF, params=params, metrics=metrics or None, meta={"fedplug": report}
        )

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """Adds an update for ScatterAndGather, which expects a boolean instead of an error."""
        self.fl_ctx = fl_ctx
        client = str(shareable.get_peer_prop(ReservedKey.IDENTITY_NAME, "?"))
        try:
            model = FLModelUtils.from_shareable(shareable)
        except Exception as error:  # any content is possible, and must not end the others' job
            self._refused[client] = str(error)
            self.error(f"update of client {client!r} refused: {error}")
            return False
        model.meta[_CLIENT] = client
        try:
            self.accept_model(model)
        except ValueError as error:
            self.error(str(error))
            return False
        return True

    def _mean(self) -> dict[str, object]:
        """Returns the mean of the sum, which is discarded. Empty if there is nothing."""
        model = self._model
        if model is None or not model.total.count:
            return {}
        return model.update(_divided(model.total.value(), model.total.weight))

    def _weight(self, client: str, model: FLModel) -> float:
        return (self.aggregation_weights or {}).get(client, 1.0) * num_steps(model.meta or {})

    def _add(self, model: FLModel, weight: float) -> int:
        """Adds an update. Returns the bytes of its payloads."""
        if self._model is None:
            raise ValueError(NO_MODEL)
        payloads = self._model.payloads(model.params, model.meta, model.params_type == ParamsType.DIFF)
        self._model.total.add(payloads, weight)
        return sum(len(payload) for payload in payloads.values())


def _divided(sums: dict[str, NDArray[np.generic]], weight: float) -> dict[str, NDArray[np.generic]]:
    """Multiplies by the reciprocal like FedAvg; a division would round differently."""
    with np.errstate(over="ignore"):  # the result is checked later
        for array in sums.values():
            np.multiply(array, np.asarray(1.0 / weight, array.dtype), out=array)
    return sums
