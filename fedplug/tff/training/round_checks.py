"""Checks the arguments of a trainer's round. The errors name a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fedplug.errors import ConfigError, StoreError
from fedplug.tff import structures
from fedplug.tff.training.client_data import ClientDataset, Selection

__all__ = ["check_context", "check_elements", "check_round", "check_weights", "round_of"]


def check_context() -> None:
    """Checks that computations return values, not promises of values."""
    if isinstance(tff.framework.get_context_stack().current, tff.program.FederatedContext):
        raise ConfigError(
            "a trainer does not run in a tff.program.FederatedContext, as tff.learning.programs.train_model "
            "needs one; use trainer.run(rounds), or tff.simulation.run_training_process(trainer, "
            "trainer.select, rounds, program_state_manager=trainer.program_state_manager)"
        )


def round_of(state: Any) -> int:
    """Returns the round number of a server state."""
    try:
        return int(np.asarray(state.aggregator["round_num"]))
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the given state is a {type(state).__name__}; it must be what initialize() returns, or the "
            "`state` of what next() returns"
        ) from error


def check_elements(client_data: Sequence[ClientDataset], element_type: tff.Type) -> None:
    """Checks that each client's data has the type that the process takes."""
    for client_id, dataset in client_data:
        found = structures.element_type(dataset.element_spec)
        if not element_type.is_assignable_from(found):
            raise ConfigError(
                f"the data of client {client_id!r} has elements of type {found}; the process takes "
                f"{element_type}"
            )


def check_round(round_num: int, kept: int | None, client_data: Sequence[ClientDataset]) -> None:
    """Checks that a round follows the last one in the store, `kept`."""
    given = round_num - 1
    if kept is None or kept < given:
        behind = "no round" if kept is None else f"round {kept}"
        raise StoreError(
            f"the given state is of round {given}, and the store is behind it, with {behind}: what "
            "clients kept of the rounds since is not in it; open the store that this training was kept "
            "in (one in memory ends with its process), or start again from initialize()"
        )
    if kept > given:
        raise StoreError(
            f"the given state is of round {given}, and the store is ahead of it, with round {kept}: what "
            "clients keep is of that round, and of no older one; go on from initialize(), which returns "
            "the state of that round, or give TFF's loop program_state_manager="
            "trainer.program_state_manager, which cannot differ from the store"
        )
    if isinstance(client_data, Selection) and client_data.round_num != round_num:
        raise ConfigError(
            f"these clients were selected for round {client_data.round_num}, and the given state leads "
            f"to round {round_num}; count from last_round + 1, as TFF's loop does when it is given "
            "program_state_manager=trainer.program_state_manager"
        )


def check_weights(weights: Any, weights_type: Any) -> None:
    """Checks that initial weights have the shapes and dtypes of the model."""
    if not isinstance(weights, tff.learning.models.ModelWeights):
        raise ConfigError(
            f"initial_weights is a {type(weights).__name__}; it must be a tff.learning.models.ModelWeights, "
            "such as ModelWeights.from_model(model) of a Keras model"
        )
    for kind in ("trainable", "non_trainable"):
        arrays = [np.asarray(weight) for weight in getattr(weights, kind)]
        types = list(getattr(weights_type, kind))
        for what, found, wanted in (
            ("shapes", [array.shape for array in arrays], [tuple(tensor.shape) for tensor in types]),
            ("dtypes", [array.dtype.name for array in arrays], [tensor.dtype.name for tensor in types]),
        ):
            if found != wanted:
                raise ConfigError(
                    f"the {kind} weights in initial_weights have {what} {found}, and those of the model "
                    f"{wanted}; give weights of the model that the process was built for"
                )
