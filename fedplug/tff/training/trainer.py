"""Trains a process with stateful clients: samples them, passes their states, commits every round."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from numpy.typing import NDArray

from fedplug.codecs.no_update import no_update
from fedplug.errors import ConfigError
from fedplug.registry import resolve
from fedplug.stores.base import StateStore, Tensors
from fedplug.stores.memory import MemoryStore
from fedplug.tff import structures
from fedplug.tff.process.learning.stateful_clients import StatefulClientsProcess
from fedplug.tff.structures import Structure
from fedplug.tff.training.client_data import (
    ClientData,
    ClientDataset,
    Selection,
    by_client,
    check_clients,
    check_context,
    check_elements,
    check_round,
    check_weights,
    round_of,
)
from fedplug.tff.training.program_state import CommittedRounds

__all__ = ["ClientData", "ClientDataset", "Trainer"]


_log = logging.getLogger("fedplug")


class Trainer:
    """Trains round by round. Every finished round is committed to the store before the next begins.

    Round 0 is the initial state. After an interruption, a trainer with the same arguments goes on from the
    last finished round. It ends with the same bits as an uninterrupted one if the datasets depend only on
    client and round.

    It works in `tff.simulation.run_training_process`, with `select` as the selection function and
    `program_state_manager` as the state manager. Another state manager keeps a second copy of the server's
    state. `next` refuses a state that is not of the store's last round.
    """

    def __init__(
        self,
        process: StatefulClientsProcess,
        client_data: ClientData | Mapping[str, tf.data.Dataset | Callable[[int], tf.data.Dataset]],
        *,
        store: StateStore | None = None,
        process_id: str = "default",
        clients_per_round: int | None = None,
        seed: int = 0,
        initial_weights: tff.learning.models.ModelWeights | None = None,
    ) -> None:
        """Opens the store for the process.

        Args:
            process: A process of `fedplug.tff.process.build_weighted_fed_avg` or of another builder there.
            client_data: Datasets by client id, or functions that make one from the round number, or a
                `tff.simulation.datasets.ClientData`.
            store: The store, see `fedplug.open_store`. Default: a store in memory.
            process_id: The name of this training in the store, which can hold several.
            clients_per_round: Number of clients sampled without replacement. Default: all.
            seed: Seed of the sampling. The clients of a round depend only on it and the round number.
            initial_weights: `tff.learning.models.ModelWeights` to begin with, for instance of a trained Keras
                model. Default: the weights of the process. Ignored if the store has a round.

        Raises:
            ConfigError: There are no clients or fewer than ``clients_per_round``, or an argument has another
                type or value than described here.
            StoreMismatchError: The store holds another model or encoder under this process id.
        """
        if not isinstance(process, StatefulClientsProcess):
            raise ConfigError(
                f"the process is a {type(process).__name__}; a trainer takes those of fedplug.tff.process, "
                "such as build_weighted_fed_avg(...), whose clients have states; TFF's own need no trainer"
            )
        if store is not None and not isinstance(store, StateStore):
            raise ConfigError(f"store is {store!r}; it must be an open one, as of fedplug.open_store(...)")
        self.process = process
        self._datasets = by_client(client_data)
        self._client_ids = sorted(self._datasets)
        self._clients_per_round = len(self._datasets) if clients_per_round is None else clients_per_round
        if not self._datasets:
            raise ConfigError("there are no clients to train with: client_data is empty")
        if process.clients not in (None, len(self._datasets)):
            raise ConfigError(
                f"the process was built for {process.clients} clients, whose memories its aggregator adds "
                f"up, and client_data has {len(self._datasets)}; build it with "
                f"memory_mean({len(self._datasets)})"
            )
        if not (_is_whole(self._clients_per_round) and 1 <= self._clients_per_round <= len(self._datasets)):
            raise ConfigError(
                f"clients_per_round is {clients_per_round!r}; it must be between 1 and the number of "
                f"clients, {len(self._datasets)}"
            )
        if self._clients_per_round > (process.most_clients or self._clients_per_round):
            raise ConfigError(
                f"a sum of {self._clients_per_round} clients could wrap: the process was built for at most "
                f"{process.most_clients} a round; give its encoder clients={self._clients_per_round}"
            )
        if not (_is_whole(seed) and seed >= 0):
            raise ConfigError(f"seed is {seed!r}; it must be a whole number of at least 0")
        self._seed = seed
        self._process_id = process_id
        self._initial_weights = initial_weights
        store = MemoryStore() if store is None else store
        self._states = store.open_process(process_id, process.signature)
        self._state_type = process.initialize.type_signature.result.member
        self._client_state_type = process.initialize_client.type_signature.result
        self._element_type = process.next.type_signature.parameter[1].member.element

    @property
    def client_ids(self) -> list[str]:
        """All clients, sorted."""
        return list(self._client_ids)

    @property
    def last_round(self) -> int | None:
        """The last finished round in the store. None before `initialize`."""
        return self._states.last_round

    @property
    def last_metrics(self) -> Structure:
        """The metrics of the last finished round, as JSON values. None before round 1."""
        return None if self.last_round is None else self._states.metadata.get("metrics")

    @property
    def program_state_manager(self) -> CommittedRounds:
        """The store, for loops that keep the server's state with a `tff.program.ProgramStateManager`."""
        return CommittedRounds(self)

    def initialize(self) -> Structure:
        """Returns the server state of the last finished round, or commits a new one as round 0.

        Raises:
            ConfigError: It is called in a `tff.program.FederatedContext`.
        """
        check_context()
        arrays = self._states.read_server()
        if arrays is not None:
            return structures.unflatten(
                [arrays[path] for path in structures.paths(self._state_type)], self._state_type
            )
        state = self.process.initialize()
        if self._initial_weights is not None:
            check_weights(self._initial_weights, self._state_type.global_model_weights)
            state = self.process.set_model_weights(state, self._initial_weights)
        self._states.commit(
            0,
            client_states={},
            server_state=_to_arrays(state, self._state_type),
            metadata={"provenance": self.process.provenance},
        )
        return state

    def client_states(self, client_ids: Sequence[str]) -> dict[str, Structure]:
        """Returns the clients' states after the last finished round. New clients have the initial state."""
        return self._as_states(client_ids, self._states.read_clients(client_ids))

    def sample(self, round_num: int) -> list[str]:
        """Returns the clients of a round, sorted. They depend only on seed and round.

        Raises:
            ConfigError: ``round_num`` is not a whole number of at least 0.
        """
        if not (_is_whole(round_num) and round_num >= 0):
            raise ConfigError(f"round_num is {round_num!r}; it must be a whole number of at least 0")
        generator = np.random.default_rng([self._seed, round_num])
        chosen = generator.choice(len(self._datasets), self._clients_per_round, replace=False)
        return [self._client_ids[i] for i in sorted(chosen)]

    def select(self, round_num: int) -> Selection:
        """Returns the clients of `sample` with their data."""
        clients = [ClientDataset(name, self._datasets[name](round_num)) for name in self.sample(round_num)]
        return Selection(clients, round_num)

    def next(self, state: Structure, client_data: Sequence[ClientDataset]) -> Structure:
        """Runs one round and commits the states of server and clients in one transaction.

        Args:
            state: The result of `initialize`, or the state of the previous `next`.
            client_data: The result of `select`, or any clients with their data. Each client at most once.

        Returns:
            A `tff.learning.templates.LearningProcessOutput` of the next state and the metrics.

        Raises:
            ConfigError: There is no client, a client is there twice, a dataset has another element type than
                the process, or `select` was called for another round, or see `initialize`.
            StoreError: The state is not of the last finished round, or the commit failed. The store then
                still has the previous round.
        """
        check_context()
        check_clients(client_data)
        check_elements(client_data, self._element_type)
        round_num = round_of(state) + 1
        check_round(round_num, self.last_round, client_data)
        ids, data = [client.client_id for client in client_data], [client.dataset for client in client_data]
        known = self._states.view_clients(ids)  # the runtime need not copy these
        output = self.process.next(state, data, list(self._as_states(ids, known).values()))
        metrics = _to_json(output["metrics"])
        _log_no_update(round_num, metrics, len(ids))
        self._states.commit(
            round_num,
            client_states={
                client_id: _to_arrays(client_state, self._client_state_type)
                for client_id, client_state in zip(ids, output["client_states"], strict=True)
            },
            server_state=_to_arrays(output["state"], self._state_type),
            metadata={"metrics": metrics, "provenance": self.process.provenance},
        )
        resolve.notify(
            "fedplug_round_finished",
            process=self.process,
            process_id=self._process_id,
            round_num=round_num,
            metrics=metrics,
        )
        return tff.learning.templates.LearningProcessOutput(output["state"], output["metrics"])

    def run(
        self, rounds: int, on_round: Callable[[int, Structure, Structure], None] | None = None
    ) -> Structure:
        """Trains up to round ``rounds``, from the last finished one.

        Args:
            rounds: The number of the last round. Nothing is done if the store already has it.
            on_round: Called after each commit with the round number, the state and the metrics.

        Returns:
            The server state of the last round.

        Raises:
            ConfigError: ``rounds`` is not a whole number of at least 0.
        """
        if not (_is_whole(rounds) and rounds >= 0):
            raise ConfigError(f"rounds is {rounds!r}; it must be a whole number of at least 0")
        state = self.initialize()
        assert self.last_round is not None
        for round_num in range(self.last_round + 1, rounds + 1):
            output = self.next(state, self.select(round_num))
            state = output.state
            if on_round is not None:
                on_round(round_num, state, output.metrics)
        return state

    def log_metrics(self, round_num: int, metrics: Mapping[str, float]) -> None:
        """Passes metrics of a round's model, such as its test accuracy, to observers and nowhere else.

        It can be called in ``on_round`` of `run`.

        Args:
            round_num: The round; 0 is the initial model.
            metrics: The metrics by name.
        """
        resolve.notify(
            "fedplug_round_evaluated",
            process=self.process,
            process_id=self._process_id,
            round_num=round_num,
            metrics=metrics,
        )

    def _as_states(self, client_ids: Sequence[str], known: Mapping[str, Tensors]) -> dict[str, Structure]:
        """Converts stored arrays to client states. New clients get the initial state."""
        return {client_id: self._client_state(known.get(client_id)) for client_id in client_ids}

    def _client_state(self, arrays: Mapping[str, NDArray[np.generic]] | None) -> Structure:
        if arrays is None:
            return self._first_client_state
        paths = structures.paths(self._client_state_type)
        return structures.unflatten([arrays[path] for path in paths], self._client_state_type)

    @functools.cached_property
    def _first_client_state(self) -> Structure:
        return self.process.initialize_client()


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _to_arrays(value: Structure, type_spec: tff.Type) -> dict[str, NDArray[np.generic]]:
    leaves = structures.flatten(value, type_spec)
    return {path: np.asarray(leaf) for path, leaf in zip(structures.paths(type_spec), leaves, strict=True)}


def _log_no_update(round_num: int, metrics: Structure, clients: int) -> None:
    """Logs an error if no client of a round sent a payload."""
    found = metrics.get("aggregator") if isinstance(metrics, dict) else None
    if isinstance(found, dict) and found.get("payloads") == 0:
        nonfinite = found.get("nonfinite_updates")
        why = f"{nonfinite} of {clients} updates hold a NaN or an infinity, and the others have no examples"
        _log.error("fedplug: round %d: %s", round_num, no_update([], why))


def _to_json(value: Structure) -> Structure:
    if isinstance(value, Mapping):
        return {str(key): _to_json(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(member) for member in value]
    return np.asarray(value).tolist()
