"""The server's state of a learning process and the output of its rounds.

The state is TFF's, so that TFF's own tools can read it.
"""

from __future__ import annotations

import collections
from typing import Any

import tensorflow_federated as tff

__all__ = ["build_initialize", "round_output", "with_model_weights"]


def build_initialize(
    *, initial_weights: Any, distributor: Any, init_aggregator: Any, finalizer: Any, client_work: Any = None
) -> Any:
    """``( -> S@SERVER)``, S a `tff.learning.templates.LearningAlgorithmState`.

    Args:
        initial_weights: ``( -> W)``
        distributor: The process that sends the model.
        init_aggregator: ``( -> A)``
        finalizer: The process that applies the update.
        client_work: The process that trains. None if it has no state.
    """

    @tff.federated_computation
    def initialize() -> Any:
        state = tff.learning.templates.LearningAlgorithmState(
            global_model_weights=tff.federated_eval(initial_weights, tff.SERVER),
            distributor=distributor.initialize(),
            client_work=client_work.initialize() if client_work else tff.federated_value((), tff.SERVER),
            aggregator=tff.federated_eval(init_aggregator, tff.SERVER),
            finalizer=finalizer.initialize(),
        )
        return tff.federated_zip(state)

    return initialize


def round_output(
    *, distributor: Any, client_work: Any, aggregator: Any, finalizer: Any, client_states: Any
) -> Any:
    """Returns the output of a round, for the end of a `tff.federated_computation`.

    Args:
        distributor: The distributor's output, ``<state=...,measurements=...>@SERVER`` at least.
        client_work: The output of the client work, with the same fields.
        aggregator: The aggregator's output, with the same fields.
        finalizer: The finalizer's output. Its ``result`` is the next model.
        client_states: ``{C}@CLIENTS``

    Returns:
        ``<state=S@SERVER,metrics=M@SERVER,client_states={C}@CLIENTS>``
    """
    outputs = collections.OrderedDict(
        distributor=distributor, client_work=client_work, aggregator=aggregator, finalizer=finalizer
    )
    state = tff.learning.templates.LearningAlgorithmState(
        global_model_weights=finalizer.result, **{name: output.state for name, output in outputs.items()}
    )
    metrics = collections.OrderedDict((name, output.measurements) for name, output in outputs.items())
    return collections.OrderedDict(
        state=tff.federated_zip(state), metrics=tff.federated_zip(metrics), client_states=client_states
    )


def with_model_weights(state: Any, weights: Any) -> Any:
    """Returns the state with other weights, for the body of a `tff.tensorflow.computation`."""
    return tff.learning.templates.LearningAlgorithmState(
        global_model_weights=weights,
        distributor=state.distributor,
        client_work=state.client_work,
        aggregator=state.aggregator,
        finalizer=state.finalizer,
    )
