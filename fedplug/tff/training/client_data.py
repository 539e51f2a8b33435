"""The clients' data for a trainer: functions of the round, by client id."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import tensorflow as tf

from fedplug.errors import ConfigError

__all__ = ["ClientData", "ClientDataset", "Selection", "by_client", "check_clients"]


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
        needed: Number of clients needed. The others at the end of the list are the reserve.
    """

    def __init__(self, clients: Iterable[ClientDataset], round_num: int, needed: int | None = None) -> None:
        super().__init__(clients)
        self.round_num = round_num
        self.needed = len(self) if needed is None else needed


def by_client(client_data: Any) -> dict[str, Callable[[int], tf.data.Dataset]]:
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


def _by_round(client_id: str, data: Any) -> Callable[[int], tf.data.Dataset]:
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
