"""The server's aggregator: adds payloads up as they arrive, without making them dense."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.fl_constant import FLMetaKey, ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.aggregators.weighted_aggregation_helper import WeightedAggregationHelper
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

import fedplug
from fedplug_nvflare.constants import Constants
from fedplug_nvflare.global_model import NO_MODEL, GlobalModel, empty_sum, weights_of_task
from fedplug_nvflare.receipts import Receipts
from fedplug_nvflare.update import SEND_DIFFERENCES, is_compressed

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
        self, aggregation_weights: dict[str, float] | None = None, receipts: str | None = None
    ) -> None:
        """Adds nothing yet.

        Args:
            aggregation_weights: By client; 1 for all others. (A recipe hands its own to its built-in
                aggregation only.)
            receipts: The file that keeps from job to job what was accepted; to be given where clients have a
                store of their own. None: in the folder of the job, for this job only.
        """
        super().__init__()
        self.aggregation_weights = aggregation_weights
        self.receipts = receipts
        self._receipts = Receipts(receipts, self)
        self._dense = fedplug.codec("identity")
        self._lock = threading.Lock()
        self._model: GlobalModel | None = None
        self._total: fedplug.ModelSum | None = None
        self.reset_stats()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Follows the rounds."""
        super().handle_event(event_type, fl_ctx)
        if event_type == AppEventType.BEFORE_TRAIN_TASK:
            with self._lock:
                if self._total is None:
                    weights = weights_of_task(fl_ctx)
                    self._model, self._total = GlobalModel(weights), empty_sum(weights)
                    self._constants = Constants(weights)
        self._receipts.handle_event(event_type, fl_ctx)

    def reset_stats(self) -> None:
        """Forgets the last round."""
        self._model = self._total = None
        self._constants = Constants({})
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
            numbers = _numbers(model.metrics or {})
            sent = self._add(model, weight)
        except Exception as error:  # whatever it sent: NVFlare logs it as this client's
            raise ValueError(f"update of client {client!r} refused: {error}") from error
        self._uplink_bytes += sent
        self._all_have_metrics &= model.metrics is not None
        if numbers and self._all_have_metrics:
            self._metrics.add(numbers, weight, client, None)

    def aggregate_model(self) -> FLModel:
        """The mean of what was accepted, as a difference; and the bytes that it took, in the meta."""
        clients = 0 if self._total is None else self._total.count
        dense = clients * self._model.dense_bytes if self._model else 0
        report = {"clients": clients, "uplink_bytes": self._uplink_bytes, "dense_bytes": dense}
        if clients:
            self.info(f"{clients} updates took {self._uplink_bytes} bytes instead of {dense}")
        else:
            self.warning("no update was accepted in this round; the model stays as it is")
        metrics = self._metrics.get_result() if self._all_have_metrics else None
        params = self._mean()
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
        """Of what was added, which is forgotten; empty if there is nothing."""
        model, total = self._model, self._total
        if model is None or total is None or not total.count:
            return {}
        sums, weight = total.value(), total.weight
        self._total = total = None  # before there is a third array of the model's size
        return model.update(_divided(sums, weight))

    def _weight(self, client: str, model: FLModel) -> float:
        return (self.aggregation_weights or {}).get(client, 1.0) * _num_steps(model.meta or {})

    def _add(self, model: FLModel, weight: float) -> int:
        """Adds payloads; the bytes that were sent."""
        if self._total is None:
            raise ValueError(NO_MODEL)
        if model.params_type != ParamsType.DIFF:
            raise ValueError(f"it is of full weights; {SEND_DIFFERENCES}")
        payloads = model.params
        if not is_compressed(model.meta):
            payloads, _ = self._dense.encode_model(self._constants.left_out(payloads))
        self._total.add(payloads, weight)
        return sum(len(payload) for payload in payloads.values())


def _num_steps(meta: dict[str, Any]) -> float:
    """What a client says of its weight, read as FedAvg reads it: 1 for what is no positive number."""
    said = meta.get(FLMetaKey.NUM_STEPS_CURRENT_ROUND)
    try:
        weight = 1.0 if said is None or isinstance(said, bool) else float(said)
    except (TypeError, ValueError, OverflowError):
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """The metrics that are finite numbers: those whose mean cannot fail once the update is added."""
    kinds = (bool, int, float, np.integer, np.floating)
    numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, kinds)}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def _divided(sums: dict[str, NDArray[Any]], weight: float) -> dict[str, NDArray[Any]]:
    """Times the reciprocal, as FedAvg does: a division would round differently."""
    for array in sums.values():
        np.multiply(array, np.asarray(1.0 / weight, array.dtype), out=array)
    return sums
