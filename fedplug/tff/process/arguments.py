"""Checks and reads the arguments of process builders: components or expressions, models, optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

import fedplug.api as api
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.quantizers import Identity
from fedplug.errors import ConfigError
from fedplug.tff.aggregators.base import Aggregator
from fedplug.tff.aggregators.sums import Mean

__all__ = [
    "AnyEncoder",
    "ModelFn",
    "as_aggregator",
    "as_broadcast_encoder",
    "as_encoder",
    "check_model",
    "check_optimizers",
    "check_replaced",
    "with_weighting",
]


ModelFn: TypeAlias = Callable[[], tff.learning.models.VariableModel] | tff.learning.models.FunctionalModel
"""A function that makes a model anew, or a functional model."""

AnyEncoder = Encoder | EncoderAssignment | str | Mapping[str, object] | Sequence[object]
"""An encoder, an expression, or rules: encoders by patterns of names, or a list. See `Rules`."""


def as_encoder(encoder: AnyEncoder | None) -> Encoder | EncoderAssignment:
    """Returns the encoder of an expression or of rules. None means uncompressed.

    Raises:
        ConfigError: It is neither an encoder nor a valid expression nor valid rules.
    """
    return Identity() if encoder is None else api.encoder(encoder)


def as_broadcast_encoder(encoder: AnyEncoder) -> Encoder | EncoderAssignment:
    """Returns the encoder of a broadcast, see `EncoderAssignment.for_models`.

    Raises:
        ConfigError: See `as_encoder`.
    """
    chosen = as_encoder(encoder)
    return chosen.for_models() if isinstance(chosen, EncoderAssignment) else chosen


def as_aggregator(aggregator: Aggregator | str | None) -> Aggregator:
    """Returns the aggregator of an expression. None means the weighted mean.

    Raises:
        ConfigError: It is neither an aggregator nor a valid expression.
    """
    if aggregator is None:
        return Mean()
    if isinstance(
        aggregator, tff.aggregators.WeightedAggregationFactory | tff.aggregators.UnweightedAggregationFactory
    ):
        raise ConfigError(
            f"aggregator is a {type(aggregator).__name__}, a factory of TFF, which cannot read what encoders "
            "send; put a stateless encoder into it, as in tff.aggregators.MeanFactory(value_sum_factory="
            "fedplug.tff.process.build_sum_factory('qsgd(8)')), for TFF's own processes"
        )
    chosen = api.aggregator(aggregator) if isinstance(aggregator, str | Mapping) else aggregator
    if not isinstance(chosen, Aggregator):
        raise ConfigError(
            f"aggregator must be an Aggregator or an expression such as 'mean', found {aggregator!r}"
        )
    return chosen


def with_weighting(aggregator: Aggregator | str | None, client_weighting: object) -> Aggregator | str | None:
    """Returns the aggregator that TFF's argument ``client_weighting`` means.

    Args:
        aggregator: The argument ``aggregator``.
        client_weighting: A `tff.learning.ClientWeighting`, or None.

    Raises:
        ConfigError: Both are given, or ``client_weighting`` is something else.
    """
    if client_weighting is None:
        return aggregator
    if not isinstance(client_weighting, tff.learning.ClientWeighting):
        raise ConfigError(
            f"client_weighting is {client_weighting!r}; it must be a tff.learning.ClientWeighting"
        )
    if aggregator is not None:
        raise ConfigError(
            "client_weighting is given with an aggregator, which has weights of its own; leave it out and "
            "write for instance aggregator=\"mean(weights='uniform')\""
        )
    return Mean(weights="uniform") if client_weighting is tff.learning.ClientWeighting.UNIFORM else None


def check_replaced(*, model_distributor: object, model_aggregator: object) -> None:
    """Checks that two arguments of TFF, which other arguments replace, are None.

    Raises:
        ConfigError: One is not None.
    """
    if model_distributor is not None:
        raise ConfigError(
            "model_distributor must be None; write broadcast_encoder='bfp(5) | rans' or leave it out"
        )
    if model_aggregator is not None:
        raise ConfigError(
            f"model_aggregator is a {type(model_aggregator).__name__}, a factory of TFF, which cannot read "
            "what encoders send; write aggregator= with an aggregator of fedplug, or keep TFF's "
            "build_weighted_fed_avg with fedplug.tff.process.build_aggregation_factory in its factory"
        )


def check_model(model_fn: ModelFn) -> None:
    """Checks that TFF can make models from the argument; TFF's own error for a Keras model is unclear.

    Raises:
        TypeError: It is neither a function without arguments nor a `tff.learning.models.FunctionalModel`.
    """
    if isinstance(model_fn, tff.learning.models.FunctionalModel):
        return
    if isinstance(model_fn, tf.keras.Model):
        raise TypeError(
            "model_fn is a Keras model; use fedplug.tff.process.from_keras(model, loss, input_spec), or a "
            "function that makes the model anew and returns tff.learning.models.from_keras_model(...) of it"
        )
    if not callable(model_fn):
        raise TypeError(
            "model_fn must be a function that makes a model, or a FunctionalModel, found a "
            f"{type(model_fn).__name__}; TFF makes the model in graphs of its own, so give a function"
        )


def check_optimizers(**optimizers: object) -> None:
    """Checks that all are optimizers of TFF, or None.

    Args:
        optimizers: The optimizers by the names of their arguments.

    Raises:
        TypeError: One is something else, for instance a function that makes a Keras optimizer, which older
            versions of TFF took.
    """
    for argument, optimizer in optimizers.items():
        if optimizer is not None and not isinstance(optimizer, tff.learning.optimizers.Optimizer):
            raise TypeError(
                f"{argument} must be an optimizer of TFF, found {optimizer!r}; write for instance "
                "tff.learning.optimizers.build_sgdm(learning_rate=0.1) in place of a Keras optimizer"
            )
