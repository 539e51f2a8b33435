"""The state of one training process in a sharded store: reading it, and committing a round in two phases.

Every shard that keeps a client of the round prepares. Then one commit of the index decides. The index is an
embedded store beside the driver. It keeps the server's state and the `Record`. It also keeps an empty state
for each client that has one, so that it can name the clients lost with a machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fedplug.errors import StoreError
from fedplug.stores import rules
from fedplug.stores.base import ProcessState, Tensors
from fedplug.stores.sharded.fleet import Fleet
from fedplug.stores.sharded.history import History
from fedplug.stores.sharded.record import Record
from fedplug.stores.sharded.staging import Staged
from fedplug.stores.sqlite_process import SqliteProcess
from fedplug.stores.turns import in_turn, refuse_copies

__all__ = ["ShardedProcess"]

_States = Mapping[str, Tensors | Staged]


class ShardedProcess(ProcessState):
    """A process of a `fedplug.stores.sharded.store.ShardedStore`, which creates it.

    It shares the lock for threads with its index.

    Args:
        process_id: The id of the process.
        index: The process's state in the index.
        fleet: The shards.
        partitions: Number of partitions, for a new process.
        keep_rounds: Number of rounds to keep from the next commit on.
    """

    __reduce__ = refuse_copies

    def __init__(
        self, process_id: str, index: SqliteProcess, fleet: Fleet, partitions: int, keep_rounds: int
    ) -> None:
        self.turn = index.turn
        self.process_id = process_id
        self.index = index
        self.fleet = fleet
        self._keep_rounds = keep_rounds
        self._in_doubt = False
        self._tidied = False
        if index.last_round is None:
            # This gives a failed first round a commit to return to.
            index.commit(
                0, client_states={}, server_state={}, metadata=Record(partitions=partitions).to_json()
            )
        self._number: int | None = None  # the highest version tried since the store was opened

    @property
    def record(self) -> Record:
        """The current record in the index."""
        return Record.from_json(self.index.metadata)

    @property
    def history(self) -> History:
        """The records of all kept rounds in the index."""
        return History(self.index.kept_metadata())

    @in_turn
    def placed(self) -> Record:
        """Returns the record for the next round; a process without state is placed on all shards."""
        record = self.record
        if record.versions:
            return record
        return dataclasses.replace(record, versions=dict.fromkeys(self.fleet.places, 0))

    @property
    def signature(self) -> Any:
        return self.index.signature

    @property
    def last_round(self) -> int | None:
        return self.record.round

    @property
    def metadata(self) -> Any:
        return self.record.metadata

    def client_ids(self) -> list[str]:
        return self.index.client_ids()

    @in_turn
    def known(self, client_ids: Iterable[str]) -> list[str]:
        """Returns the given clients that have state, in the order given."""
        return list(self.index.read_clients(client_ids))

    @in_turn
    def read_clients(self, client_ids: Iterable[str]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """Copies the states to this process. See `ProcessState.read_clients`."""
        self.resolve()
        record, known = self.record, self.known(client_ids)
        asked: dict[str, list[str]] = {}
        for client_id in known:
            asked.setdefault(record.placement.homes(client_id)[0], []).append(client_id)
        found = self.fleet.call(
            "read", {shard: (self.process_id, record.versions[shard], ids) for shard, ids in asked.items()}
        )
        states = {client_id: state for part in found.values() for client_id, state in part.items()}
        return {client_id: states[client_id] for client_id in known}

    @in_turn
    def read_server(self) -> dict[str, np.ndarray[Any, Any]] | None:
        return None if self.last_round is None else self.index.read_server()

    @in_turn
    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors | Staged],
        server_state: Tensors,
        metadata: Any = None,
    ) -> None:
        """Commits a round. States that are already on the shards are given as `Staged`."""
        last = self.last_round
        number, _ = rules.check_commit(self.process_id, last, round_num, client_states, metadata)
        try:
            self.resolve()
            if self.record.untidy and not self._tidied and len(self.history.placements()) == 1:
                self.tidy()
            record = self.placed()
            # All shards take part in the first round, so that each has a version from then on.
            states: dict[str, dict[str, Tensors | Staged]] = {
                shard: {} for shard, version in record.versions.items() if not version
            }
            for client_id, state in client_states.items():
                for shard in record.placement.homes(client_id):
                    states.setdefault(shard, {})[client_id] = state
            untidy = record.untidy and not self._tidied
            new = dataclasses.replace(record, round=number, metadata=metadata, untidy=untidy)
            self.transact(new, states, list(client_states), server_state, number - self._keep_rounds + 1)
        except StoreError as error:
            raise rules.not_committed(self.process_id, number, last, error) from error

    @in_turn
    def transact(
        self,
        record: Record,
        states: Mapping[str, _States],
        client_ids: Iterable[str],
        server_state: Tensors,
        oldest: int | None = None,
    ) -> None:
        """Replaces the record atomically: completely, or not at all if this raises or the machine stops.

        Args:
            record: The new record with the current versions. Participating shards get a new version.
            states: The states that each shard has to prepare, by shard.
            client_ids: The clients that have state from now on.
            server_state: The new state of the server.
            oldest: The oldest round to keep from now on. All kept rounds if None.

        Raises:
            StoreError: A shard or the index raises an error.
        """
        self.resolve()
        history = self.history
        held = history.versions()
        self._number = 1 + max(self._number or 0, *held.values(), 0)
        commit = self._commits() + 1
        needed = history.first_needed(oldest, record.round)
        decided = dataclasses.replace(
            record,
            versions={**record.versions, **dict.fromkeys(states, self._number)},
            places={shard: self.fleet.places[shard] for shard in {*record.versions, *states}},
        )
        self._in_doubt = True
        try:
            # Shards keep the rounds of the index so far: the index removes rounds first, then the shards.
            self.fleet.call(
                "prepare",
                {
                    shard: (
                        *(self.process_id, held.get(shard), history.oldest(shard)),
                        *(self._number, self.index.generation, part),
                    )
                    for shard, part in states.items()
                },
            )
            self.index.commit(
                commit,
                client_states={client_id: {} for client_id in client_ids},
                server_state=server_state,
                metadata=decided.to_json(),
                oldest=commit if needed is None else needed,
            )
            self._in_doubt = False
        except BaseException:
            with contextlib.suppress(StoreError):  # the next use or opening tries again
                self.resolve()
            raise
        self._confirm()

    def _confirm(self) -> None:
        """Tells the shards the index's generation, so that they later refuse an older copy of the index."""
        with contextlib.suppress(StoreError):  # the decision stands
            self.fleet.call("confirm", dict.fromkeys(self.fleet.places, (self.index.generation,)))

    @in_turn
    def settle(self) -> None:
        """Sets the reachable shards to the version in the index.

        Raises:
            StoreError: A shard does not have the version, or cannot be reached.
        """
        versions = self.history.versions()
        self.fleet.call(
            "settle",
            {
                shard: (self.process_id, versions[shard], self._number)
                for shard in set(versions) & set(self.fleet.places)
            },
        )

    @in_turn
    def resolve(self) -> None:
        """Sets the shards to the decided version after a failed attempt.

        Raises:
            StoreError: A shard fails. The next use tries again.
        """
        if self._in_doubt:
            # A disk that failed during a decision may reveal it after a crash. This overwrites the
            # decision before any shard continues without it.
            self.index.rewind(self._commits())
            self.settle()
            self._in_doubt = False
            self._confirm()

    def _commits(self) -> int:
        """Returns the last commit of the index, which counts rounds and moves."""
        number = self.index.last_round
        assert number is not None, "the constructor makes the first"
        return number

    @in_turn
    def tidy(self) -> None:
        """Deletes from the shards the states of clients that no kept round places there.

        Raises:
            StoreError: A disk operation fails.
        """
        self._tidied = False
        placements = self.history.placements()
        self.fleet.call(
            "tidy",
            {
                shard: (
                    self.process_id,
                    self.record.partitions,
                    sorted({number for each in placements for number in each.partitions_of(shard)}),
                )
                for shard in self.fleet.places
            },
        )
        self._tidied = len(placements) == 1

    @in_turn
    def damage(self) -> Iterator[str]:
        """Reads everything. The shards check their parts in parallel.

        States of earlier rounds on missing machines are not checked.
        """
        self.resolve()
        damage = list(self.index.damage())
        history = self.history
        there = set(history.versions()) & set(self.fleet.places)
        kept: dict[str, dict[int, set[str]]] = {shard: {} for shard in there}
        for commit, record in history.rounds.values():
            for shard in there & set(record.versions):
                kept[shard].setdefault(record.versions[shard], set())
            for client_id in self.index.client_ids_at(commit):
                for shard in there.intersection(record.placement.homes(client_id)):
                    kept[shard][record.versions[shard]].add(client_id)
        calls = {shard: (self.process_id, clients) for shard, clients in kept.items()}
        for found in self.fleet.call("damage", calls).values():
            damage += found
        return iter(damage)
