"""The clients' data for a trainer, and checks of a round's arguments whose errors name a remedy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError, StoreError
from fedplug.tff import structures
from fedplug.tff.structures import Structure

__all__ = [
    "ClientData",
    "ClientDataset",
    "Selection",
    "by_client",
    "check_clients",
    "check_context",
    "check_elements",
    "check_round",
    "check_weights",
    "round_of",
]


@runtime_checkable
class ClientData(Protocol):
    """The part of `tff.simulation.datasets.ClientData` that a trainer needs."""

    client_ids: Sequence[str]

    def create_tf_dataset_for_client(self, client_id: str) -> tf.data.Dataset:
        """The client's data."""


class ClientDataset(NamedTuple):
    """A client in a round: its id, which finds its state, and its data."""

    client_id: str
    dataset: tf.data.Dataset


class Selection(list[ClientDataset]):
    """The clients of a round.

    Attributes:
        round_num: The number of the round.
    """

    def __init__(self, clients: Iterable[ClientDataset], round_num: int) -> None:
        super().__init__(clients)
        self.round_num = round_num


def by_client(client_data: object) -> dict[str, Callable[[int], tf.data.Dataset]]:
    """Returns the clients' data as functions of the round number, by client id.

    Args:
        client_data: The argument of `fedplug.Trainer`.

    Raises:
        ConfigError: The argument has another type.
    """
    if isinstance(client_data, Mapping):
        strangers = [client_id for client_id in client_data if not isinstance(client_id, str)]
        if strangers:
            raise ConfigError(
                f"the client id {strangers[0]!r} is not text; a client's state is found again under its id, "
                "so use str(...)"
            )
        return {client_id: _by_round(client_id, data) for client_id, data in client_data.items()}
    if isinstance(client_data, ClientData):
        return {
            client_id: functools.partial(_from_client_data, client_data, client_id)
            for client_id in client_data.client_ids
        }
    raise ConfigError(
        "client_data must be a mapping from client ids to datasets or a tff.simulation.datasets.ClientData, "
        f"found {type(client_data).__name__}"
    )


def check_clients(clients: Sequence[ClientDataset]) -> list[str]:
    """Checks the clients of a round and returns their ids.

    Raises:
        ConfigError: They have another type, there is none, or one is there twice.
    """
    if not isinstance(clients, Sequence):
        raise ConfigError(f"the clients of a round must be a list, as `select` makes it, not {clients!r}")
    for client in clients:
        if not isinstance(client, ClientDataset) or not isinstance(client.client_id, str):
            raise ConfigError(
                f"{client!r} is no client of a round; write fedplug.tff.training.trainer.ClientDataset("
                "client_id, dataset), with the id as text"
            )
    ids = [client.client_id for client in clients]
    if not ids:
        raise ConfigError("a round needs at least one client")
    if len(set(ids)) != len(ids):
        twice = sorted({client_id for client_id in ids if ids.count(client_id) > 1})
        raise ConfigError(f"client {twice[0]!r} is in the round twice; its state could not be kept")
    for client_id, dataset in clients:
        if not isinstance(dataset, tf.data.Dataset):
            raise ConfigError(
                f"the data of client {client_id!r} is a {type(dataset).__name__}; it must be a "
                "tf.data.Dataset, or a function from the round number to one"
            )
    return ids


def _by_round(client_id: str, data: object) -> Callable[[int], tf.data.Dataset]:
    if not callable(data):
        return functools.partial(_same_every_round, data)
    try:
        inspect.signature(data).bind(0)
    except TypeError as error:
        raise ConfigError(
            f"the data of client {client_id!r} is a function that does not take one argument ({error}); "
            "it is called with the number of the round, so write for instance lambda round_num: dataset"
        ) from error
    except ValueError:
        pass  # functions written in C have no signature
    return cast("Callable[[int], tf.data.Dataset]", data)


def _same_every_round(dataset: tf.data.Dataset, round_num: int) -> tf.data.Dataset:
    del round_num
    return dataset


def _from_client_data(client_data: ClientData, client_id: str, round_num: int) -> tf.data.Dataset:
    del round_num
    return client_data.create_tf_dataset_for_client(client_id)


def check_context() -> None:
    """Checks that computations return values, not promises of values."""
    if isinstance(tff.framework.get_context_stack().current, tff.program.FederatedContext):
        raise ConfigError(
            "a trainer does not run in a tff.program.FederatedContext, as tff.learning.programs.train_model "
            "needs one; use trainer.run(rounds), or tff.simulation.run_training_process(trainer, "
            "trainer.select, rounds, program_state_manager=trainer.program_state_manager)"
        )


def round_of(state: Structure) -> int:
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


def check_weights(weights: object, weights_type: tff.Type) -> None:
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
