"""TFF's components of a learning process: initial weights, client work, server optimizer."""

from __future__ import annotations

import collections
import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff import structures
from fedplug.tff.process.arguments import check_model, check_optimizers

__all__ = ["LearningComponents", "Shared", "build_finalizer", "build_learning_components", "sharing"]


@dataclass(frozen=True, kw_only=True)
class LearningComponents:
    """The components of a round except distribution and aggregation.

    Attributes:
        initial_weights: ``( -> W)``, W a `tff.learning.models.ModelWeights`.
        client_work: A `tff.learning.templates.ClientWorkProcess`.
        finalizer: A `tff.learning.templates.FinalizerProcess`.
    """

    initial_weights: Any
    client_work: Any
    finalizer: Any

    @property
    def weights_type(self) -> Any:
        """W."""
        return self.initial_weights.type_signature.result

    @property
    def update_type(self) -> Any:
        """The type of a client's update: the trainable weights."""
        return self.weights_type.trainable

    @property
    def data_type(self) -> Any:
        """The type of a client's dataset."""
        return self.client_work.next.type_signature.parameter[2].member

    @property
    def client_result_type(self) -> Any:
        """The type of a client's result: ``<update=V,update_weight=float32>``."""
        return self.client_work.next.type_signature.result.result.member


Shared = dict[tuple[int, ...], tuple[tuple[Any, ...], LearningComponents]]
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
    model_fn: Any,
    client_optimizer: Any,
    server_optimizer: Any,
    *,
    weighting: Any,
    metrics_aggregator: Any,
    loop_implementation: Any = None,
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
    model_fn: Any,
    client_optimizer: Any,
    server_optimizer: Any,
    weighting: Any,
    metrics_aggregator: Any,
    loop_implementation: Any,
) -> LearningComponents:
    functional = isinstance(model_fn, tff.learning.models.FunctionalModel)

    @tff.tensorflow.computation
    def initial_weights() -> Any:
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
        initial_weights=initial_weights,
        client_work=client_work,
        finalizer=build_finalizer(server_optimizer, weights_type),
    )


def build_finalizer(server_optimizer: Any, weights_type: Any) -> Any:
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
    def taken(state: Any, weights: Any, next_state: Any, next_weights: Any) -> Any:
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
    def next_fn(state: Any, weights: Any, update: Any) -> Any:
        step = finalizer.next(state, weights, update)
        kept = tff.federated_map(taken, (state, weights, step.state, step.result))
        return tff.templates.MeasuredProcessOutput(kept.state, kept.weights, step.measurements)

    return tff.learning.templates.FinalizerProcess(finalizer.initialize, next_fn)
