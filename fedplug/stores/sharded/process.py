"""What a sharded store keeps of one training process: reading it, and adding a round in two phases.

Every shard that keeps a client of the round prepares; then one commit of the index, an embedded store beside
the driver, decides. The index keeps the server's state, the `Record`, and for each client that has state an
empty one, so that it can say who has been lost with a machine.
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

__all__ = ["ShardedProcess"]

_States = Mapping[str, Tensors | Staged]


class ShardedProcess(ProcessState):
    """Of a `fedplug.stores.sharded.store.ShardedStore`, which makes it.

    Args:
        process_id: Of the process.
        index: What the index keeps of it.
        fleet: The shards.
        partitions: For a process that is new.
        keep_rounds: How many rounds are kept from the next commit on.
    """

    def __init__(
        self, process_id: str, index: SqliteProcess, fleet: Fleet, partitions: int, keep_rounds: int
    ) -> None:
        self.process_id = process_id
        self.index = index
        self.fleet = fleet
        self._keep_rounds = keep_rounds
        self._in_doubt = False
        self._tidied = False
        if index.last_round is None:
            # So that there is always a round to go back to.
            index.commit(
                0, client_states={}, server_state={}, metadata=Record(partitions=partitions).to_json()
            )
        self._number: int | None = None  # the highest version that was tried since the store was opened

    @property
    def record(self) -> Record:
        """What the index says now."""
        return Record.from_json(self.index.metadata)

    @property
    def history(self) -> History:
        """What the index says of all rounds that are kept."""
        return History(self.index.kept_metadata())

    def placed(self) -> Record:
        """The record to go on from: where there is no state yet, it is to be on all shards."""
        record = self.record
        if record.versions:
            return record
        return dataclasses.replace(record, versions=dict.fromkeys(self.fleet.places, 0))

    @property
    def signature(self) -> Any:
        """As in `ProcessState`."""
        return self.index.signature

    @property
    def last_round(self) -> int | None:
        """As in `ProcessState`."""
        return self.record.round

    @property
    def metadata(self) -> Any:
        """As in `ProcessState`."""
        return self.record.metadata

    def client_ids(self) -> list[str]:
        """As in `ProcessState`."""
        return self.index.client_ids()

    def known(self, client_ids: Iterable[str]) -> list[str]:
        """Those of the clients that have state, in the order asked for."""
        return list(self.index.read_clients(client_ids))

    def read_clients(self, client_ids: Iterable[str]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """As in `ProcessState`; the states travel to this process."""
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

    def read_server(self) -> dict[str, np.ndarray[Any, Any]] | None:
        """As in `ProcessState`."""
        return None if self.last_round is None else self.index.read_server()

    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors | Staged],
        server_state: Tensors,
        metadata: Any = None,
    ) -> None:
        """As in `ProcessState`; states that are on the shards already are given as `Staged`."""
        last = self.last_round
        number, _ = rules.check_commit(self.process_id, last, round_num, client_states, metadata)
        try:
            self.resolve()
            if self.record.untidy and not self._tidied and len(self.history.placements()) == 1:
                self.tidy()
            record = self.placed()
            # In the first round all shards take part: from then on each has a version.
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

    def transact(
        self,
        record: Record,
        states: Mapping[str, _States],
        client_ids: Iterable[str],
        server_state: Tensors,
        oldest: int | None = None,
    ) -> None:
        """Goes to a new record: all of it or, when this raises or anything stops, nothing of it.

        Args:
            record: With the versions as they are; those of the shards that take part become new ones.
            states: By shard, what it is to prepare.
            client_ids: Those that have state from now on.
            server_state: From now on.
            oldest: The oldest round that is kept from now on; None: all that are.

        Raises:
            StoreError: A shard or the index refuses.
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
            # Shards keep what the index keeps until now: it lets go of rounds first, and they follow.
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
            with contextlib.suppress(StoreError):  # else the next use, or the next opening, does it
                self.resolve()
            raise

    def check_index(self) -> None:
        """Makes sure that the index is not an older copy; changes nothing.

        Raises:
            StoreError: It is older than a shard, or a shard cannot be reached.
        """
        there = set(self.history.versions()) & set(self.fleet.places)
        self.fleet.call("check_index", dict.fromkeys(there, (self.process_id, self.index.generation)))

    def settle(self) -> None:
        """Lets the shards that are there go to the version that the index has.

        Raises:
            StoreError: A shard has it not, or cannot be reached.
        """
        versions = self.history.versions()
        self.fleet.call(
            "settle",
            {
                shard: (self.process_id, versions[shard], self._number)
                for shard in set(versions) & set(self.fleet.places)
            },
        )

    def resolve(self) -> None:
        """After an attempt that ended with an error: lets the shards go to what counts.

        Raises:
            StoreError: One cannot; the next use tries again.
        """
        if self._in_doubt:
            # A disk that failed in the middle of a decision may yet remember it after a crash. This
            # overwrites it, before any shard goes on as if it had not been taken.
            self.index.rewind(self._commits())
            self.settle()
            self._in_doubt = False

    def _commits(self) -> int:
        """The last commit of the index, which counts rounds and moves."""
        number = self.index.last_round
        assert number is not None, "the constructor makes the first"
        return number

    def tidy(self) -> None:
        """Lets the shards delete the states of clients that are elsewhere in all rounds that are kept.

        Raises:
            StoreError: A disk refuses.
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

    def damage(self) -> Iterator[str]:
        """Reads everything; the shards check their parts at the same time.

        States of rounds before the last are left out if they are on machines that are not there.
        """
        self.resolve()
        yield from self.index.damage()
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
        for damage in self.fleet.call("damage", calls).values():
            yield from damage
