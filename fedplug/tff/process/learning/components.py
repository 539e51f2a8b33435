"""TFF's components of a learning process: initial weights, names, client work, optimizers."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff import structures
from fedplug.tff.process.arguments import ModelFn, check_model, check_optimizers
from fedplug.tff.structures import Structure

__all__ = [
    "LearningComponents",
    "ProximalOptimizer",
    "Shared",
    "build_finalizer",
    "build_learning_components",
    "names_of",
    "sharing",
    "variable_names",
    "weight_to_encode",
]


def variable_names(model_fn: ModelFn) -> tff.learning.models.ModelWeights:
    """Returns the names of a model's variables, as `tff.learning.models.ModelWeights` of lists of strings.

    ``trainable`` has the names of an update's tensors, in their order: a Keras layer "dense" has
    "dense/kernel" and "dense/bias". The model is made in a graph of its own, so that unnamed layers have the
    same names however many models were made before. The weights of a functional model are named by position:
    "0", "1" and so on.

    Args:
        model_fn: The argument of `fedplug.tff.process.build_weighted_fed_avg`.
    """
    if isinstance(model_fn, tff.learning.models.FunctionalModel):
        return tff.learning.models.ModelWeights(
            *([str(place) for place, _ in enumerate(weights)] for weights in model_fn.initial_weights)
        )
    with tf.Graph().as_default():
        return names_of(tff.learning.models.ModelWeights.from_model(model_fn()))


def names_of(weights: Structure) -> tff.learning.models.ModelWeights:
    """Returns the names of variables without TensorFlow's suffix, such as ``:0``."""
    return tff.learning.models.ModelWeights(
        *([v.name.rpartition(":")[0] for v in variables] for variables in weights)
    )


def weight_to_encode(update_weight: tf.Tensor, dataset: tf.data.Dataset, *, by_examples: bool) -> tf.Tensor:
    """Returns the weight for `EncodedAggregation.encode`: NaN for a non-finite update, 0 without data.

    If a client has data but no weight, TFF replaced its update.

    Args:
        update_weight: The weight from TFF's client work, a float32 scalar.
        dataset: The client's dataset.
        by_examples: Whether the weight is the number of examples. If it is above 0, the dataset is not read
            again, which would cost as much as training on a batch.
    """

    def has_data() -> tf.Tensor:
        return dataset.take(1).reduce(False, lambda _, batch: True)

    with_data = tf.cond(update_weight > 0, lambda: True, has_data) if by_examples else has_data()
    replaced = with_data & (update_weight <= 0)
    return tf.where(replaced, np.float32(np.nan), tf.where(with_data, update_weight, np.float32(0)))


@dataclass(frozen=True, kw_only=True)
class LearningComponents:
    """The components of a round except distribution and aggregation.

    Attributes:
        names: The names of the weights, see `variable_names`.
        initial_weights: ``( -> W)``, W a `tff.learning.models.ModelWeights`.
        client_work: A `tff.learning.templates.ClientWorkProcess`.
        finalizer: A `tff.learning.templates.FinalizerProcess`.
    """

    names: tff.learning.models.ModelWeights
    initial_weights: tff.Computation
    client_work: tff.learning.templates.ClientWorkProcess
    finalizer: tff.learning.templates.FinalizerProcess

    @property
    def weights_type(self) -> tff.Type:
        """W."""
        return self.initial_weights.type_signature.result

    @property
    def update_type(self) -> tff.Type:
        """The type of a client's update: the trainable weights."""
        return self.weights_type.trainable

    @property
    def data_type(self) -> tff.Type:
        """The type of a client's dataset."""
        return self.client_work.next.type_signature.parameter[2].member

    @property
    def client_result_type(self) -> tff.Type:
        """The type of a client's result: ``<update=V,update_weight=float32>``."""
        return self.client_work.next.type_signature.result.result.member


Shared = dict[tuple[int, ...], tuple[tuple[object, ...], LearningComponents]]
"""Components and their arguments, by the identities of the arguments."""

_shared: contextvars.ContextVar[Shared | None] = contextvars.ContextVar("shared_components", default=None)


@contextlib.contextmanager
def sharing(shared: Shared) -> Iterator[None]:
    """Reuses the components in `shared` for equal arguments, within the ``with`` block.

    Tracing the clients' training takes most of the time to build a process. The caller guarantees that a
    model function always makes the same model.
    """
    token = _shared.set(shared)
    try:
        yield
    finally:
        _shared.reset(token)


def build_learning_components(
    model_fn: ModelFn,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer | None,
    *,
    weighting: tff.learning.ClientWeighting,
    metrics_aggregator: Callable[..., tff.Computation] | None,
    loop_implementation: tff.learning.LoopImplementation | None = None,
) -> LearningComponents:
    """Builds the components for a model.

    Args:
        model_fn: A function that makes a `tff.learning.models.VariableModel`, or a
            `tff.learning.models.FunctionalModel`.
        client_optimizer: A `tff.learning.optimizers.Optimizer`.
        server_optimizer: See `build_finalizer`.
        weighting: A `tff.learning.ClientWeighting`.
        metrics_aggregator: See TFF.
        loop_implementation: A `tff.learning.LoopImplementation`. Default: `DATASET_ITERATOR`. In the
            in-process runtime `DATASET_REDUCE` takes a little less time, in TFF's stock runtime twice as
            much. The last bits may differ.

    Raises:
        TypeError: TFF cannot use the model or an optimizer.
    """
    check_model(model_fn)
    check_optimizers(client_optimizer_fn=client_optimizer, server_optimizer_fn=server_optimizer)
    built_of = (
        model_fn,
        client_optimizer,
        server_optimizer,
        weighting,
        metrics_aggregator,
        loop_implementation,
    )
    shared = _shared.get()
    if shared is None:
        return _build(*built_of)
    key = tuple(map(id, built_of))
    if key not in shared:
        shared[key] = built_of, _build(*built_of)
    return shared[key][1]


def _build(
    model_fn: Structure,
    client_optimizer: tff.learning.optimizers.Optimizer,
    server_optimizer: tff.learning.optimizers.Optimizer | None,
    weighting: tff.learning.ClientWeighting,
    metrics_aggregator: Callable[..., tff.Computation] | None,
    loop_implementation: tff.learning.LoopImplementation | None,
) -> LearningComponents:
    functional = isinstance(model_fn, tff.learning.models.FunctionalModel)

    @tff.tensorflow.computation
    def initial_weights() -> Structure:
        if functional:
            trainable, non_trainable = model_fn.initial_weights
            return tff.learning.models.ModelWeights(
                tuple(tf.convert_to_tensor(w) for w in trainable),
                tuple(tf.convert_to_tensor(w) for w in non_trainable),
            )
        return tff.learning.models.ModelWeights.from_model(model_fn())

    options = {
        "metrics_aggregator": metrics_aggregator,
        "loop_implementation": loop_implementation or tff.learning.LoopImplementation.DATASET_ITERATOR,
    }
    if functional:
        client_work = tff.learning.templates.build_functional_model_delta_client_work(
            model=model_fn, optimizer=client_optimizer, client_weighting=weighting, **options
        )
    else:
        client_work = tff.learning.templates.build_model_delta_client_work(
            model_fn, client_optimizer, weighting, **options
        )
    weights_type = initial_weights.type_signature.result
    return LearningComponents(
        names=variable_names(model_fn),
        initial_weights=initial_weights,
        client_work=client_work,
        finalizer=build_finalizer(server_optimizer, weights_type),
    )


def build_finalizer(
    server_optimizer: tff.learning.optimizers.Optimizer | None, weights_type: tff.Type
) -> tff.learning.templates.FinalizerProcess:
    """Builds a `tff.learning.templates.FinalizerProcess` that applies a server optimizer.

    It skips a step that would make a finite number of the model or of the optimizer's state infinite or NaN.
    For example, Adam squares a large update and would never recover.

    Args:
        server_optimizer: A `tff.learning.optimizers.Optimizer`. None means plain averaging, which is SGD with
            learning rate 1.
        weights_type: The type of the model.
    """
    if server_optimizer is None:
        server_optimizer = tff.learning.optimizers.build_sgdm(learning_rate=1.0)
    finalizer = tff.learning.templates.build_apply_optimizer_finalizer(server_optimizer, weights_type)
    state_type = finalizer.state_type.member

    @tff.tensorflow.computation(state_type, weights_type, state_type, weights_type)
    def taken(
        state: Structure, weights: Structure, next_state: Structure, next_weights: Structure
    ) -> Structure:
        types = (state_type, weights_type)
        before = [structures.flatten(x, t) for x, t in zip((state, weights), types, strict=True)]
        after = [structures.flatten(x, t) for x, t in zip((next_state, next_weights), types, strict=True)]
        finite = [
            tf.reduce_all(tf.math.is_finite(new) | ~tf.math.is_finite(old))
            for olds, news in zip(before, after, strict=True)
            for old, new in zip(olds, news, strict=True)
            if old.dtype.is_floating
        ]
        good = tf.reduce_all(finite)
        kept = [
            structures.unflatten([tf.where(good, n, o) for o, n in zip(olds, news, strict=True)], t)
            for olds, news, t in zip(before, after, types, strict=True)
        ]
        return collections.OrderedDict(state=kept[0], weights=kept[1])

    @tff.federated_computation(finalizer.next.type_signature.parameter)
    def next_fn(state: Structure, weights: Structure, update: Structure) -> Structure:
        step = finalizer.next(state, weights, update)
        kept = tff.federated_map(taken, (state, weights, step.state, step.result))
        return tff.templates.MeasuredProcessOutput(kept.state, kept.weights, step.measurements)

    return tff.learning.templates.FinalizerProcess(finalizer.initialize, next_fn)


class ProximalOptimizer(tff.learning.optimizers.Optimizer):
    """Adds a proximal term to an optimizer: the loss is ``f(w) + strength / 2 ||w - v||^2``.

    v are the first weights; on a client, the model of the round. A gradient g becomes ``g + strength (w -
    v)``. The state is ``<optimizer=S,start=V,began=bool>``, with the optimizer's state S and V like the
    weights.

    Source: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020 (arXiv 1812.06127),
    equation 2. `tff.learning.algorithms.build_weighted_fed_prox` of TFF 0.87 adds ``strength (v - w)``, which
    drives clients away from v.
    """

    def __init__(self, optimizer: tff.learning.optimizers.Optimizer, strength: float) -> None:
        """Makes the optimizer.

        Args:
            optimizer: A `tff.learning.optimizers.Optimizer`.
            strength: The weight of the proximal term, at least 0. The paper's mu.

        Raises:
            ConfigError: The strength is not a number of at least 0.
        """
        if (
            isinstance(strength, bool)
            or not isinstance(strength, int | float)
            or not 0 <= strength < math.inf
        ):
            raise ConfigError(
                f"the strength of a proximal term is {strength!r}; it must be a number of at least 0"
            )
        self._optimizer = optimizer
        self._strength = strength

    def initialize(self, specs: Structure) -> Structure:
        """See the class."""
        return collections.OrderedDict(
            optimizer=self._optimizer.initialize(specs),
            start=tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs),
            began=tf.constant(False),
        )

    def next(self, state: Structure, weights: Structure, gradients: Structure) -> Structure:
        """See the class. Weights without a gradient get no proximal term."""
        began = state["began"]
        start = tf.nest.map_structure(lambda v, w: tf.where(began, v, w), state["start"], weights)

        def pulled(gradient: Structure, w: Structure, v: Structure) -> Structure:
            pull = tf.cast(self._strength, w.dtype) * (w - v)
            return None if gradient is None else tf.add(gradient, pull)  # which takes slices as well

        gradients = tf.nest.map_structure(pulled, gradients, weights, start)
        inner, weights = self._optimizer.next(state["optimizer"], weights, gradients)
        return collections.OrderedDict(optimizer=inner, start=start, began=tf.constant(True)), weights

    def get_hparams(self, state: Structure) -> Structure:
        """Returns the hyperparameters of the inner optimizer."""
        return self._optimizer.get_hparams(state["optimizer"])

    def set_hparams(self, state: Structure, hparams: Structure) -> Structure:
        """Sets the hyperparameters of the inner optimizer."""
        optimizer = self._optimizer.set_hparams(state["optimizer"], hparams)
        return collections.OrderedDict(optimizer=optimizer, start=state["start"], began=state["began"])
