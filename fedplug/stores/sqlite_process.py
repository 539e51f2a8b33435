"""The state of one training process in a store on disk: reading, committing and rewinding rounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores import parts, rules
from fedplug.stores.base import Json, ProcessState, State, Tensors
from fedplug.stores.database import TREES, Database, ProcessRow
from fedplug.stores.parts import SERVER, client_owner
from fedplug.stores.turns import in_turn, refuse_copies

__all__ = ["SqliteProcess"]

_CLIENT = client_owner("")
_INSERT = f"INSERT INTO states VALUES ({', '.join('?' * len(parts.Part._fields))})"
_DELETE = "DELETE FROM states WHERE process = ? AND owner = ?"
_OWNERS = "SELECT DISTINCT owner FROM states INDEXED BY {} WHERE process = ?"
_LATER = "SELECT MIN(round) FROM states WHERE process = ? AND owner = ? AND round > ?"
_STATES = "SELECT DISTINCT owner, round FROM states WHERE process = ? ORDER BY owner, round"


class RoundRow(NamedTuple):
    """A kept round. ``metadata`` is a JSON text, ``owners`` a JSON list of the owners it replaced."""

    process: str
    round: int
    metadata: str
    owners: str


class SqliteProcess(ProcessState):
    """A process of a `fedplug.stores.sqlite.SqliteStore`, which creates it."""

    __reduce__ = refuse_copies

    def __init__(self, process_id: str, database: Database, keep_rounds: int) -> None:
        self.turn = database.turn
        self._process_id = process_id
        self._database = database
        self._keep_rounds = keep_rounds

    @property
    @in_turn
    def signature(self) -> Json:
        return json.loads(self._row().signature)

    @property
    @in_turn
    def last_round(self) -> int | None:
        return self._row().round

    @property
    @in_turn
    def metadata(self) -> Json:
        return json.loads(self._row().metadata)

    @in_turn
    def kept_rounds(self) -> list[int]:
        """Returns the rounds that `rewind` accepts, oldest first. The last one is the current round."""
        return [row.round for row in self._rounds()]

    @in_turn
    def client_ids(self) -> list[str]:
        queries = map(_OWNERS.format, TREES)
        found, witness = (
            {owner for (owner,) in self._database.rows(one, self._process_id)} for one in queries
        )
        if found != witness:
            raise self._database.corrupt(
                f"its two trees disagree on the clients of process {self._process_id!r}"
            )
        return sorted(owner.removeprefix(_CLIENT) for owner in found if owner != SERVER)

    @in_turn
    def read_clients(self, client_ids: Iterable[str]) -> dict[str, State]:
        asked = [rules.check_text("client id", client) for client in client_ids]
        found = {client: self._read(client_owner(client)) for client in asked}
        return {client: state for client, state in found.items() if state is not None}

    @in_turn
    def read_server(self) -> State | None:
        return self._read(SERVER)

    @in_turn
    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors],
        server_state: Tensors,
        metadata: object = None,
    ) -> None:
        """Commits a round. See `ProcessState.commit`. A lazy mapping of states is read one at a time."""
        row = self._row()
        number, text = rules.check_commit(self._process_id, row.round, round_num, client_states, metadata)
        owners = json.dumps([*map(client_owner, client_states), SERVER])
        try:
            with self._database.transaction():
                for part in parts.encoded(self._process_id, number, client_states, server_state):
                    self._database.execute(_INSERT, *part)
                    if self._keep_rounds == 1 and part.part == part.parts - 1:  # makes room for the next
                        self._database.execute(f"{_DELETE} AND round < ?", *part[:3])
                self._let_go(number - self._keep_rounds + 1)
                self._database.put("rounds", self._process_id, number, text, owners)
                self._database.put("processes", *row._replace(round=number, metadata=text))
        except StoreError as error:
            raise rules.not_committed(self._process_id, number, row.round, error) from error

    @in_turn
    def rewind(self, round_num: int) -> None:
        """Rolls back to a kept round, atomically. See `ProcessState.rewind`.

        Raises:
            StoreError: The round is not kept, or a disk operation fails.
            CorruptStoreError: A row is damaged.
        """
        rounds = {row.round: row for row in self._rounds()}
        if round_num not in rounds:
            raise rules.not_kept(self._process_id, round_num, rounds)
        with self._database.transaction():
            for table in ("states", "rounds"):
                self._database.execute(
                    f"DELETE FROM {table} WHERE process = ? AND round > ?", self._process_id, round_num
                )
            last = self._row()._replace(round=round_num, metadata=rounds[round_num].metadata)
            self._database.put("processes", *last)

    @in_turn
    def damage(self) -> Iterator[str]:
        """Reads everything and returns one line for each damage. See `ProcessState.damage`."""
        return iter([*self._database.damage(), *self._damaged().values()])

    @in_turn
    def drop_damaged(self) -> list[str]:
        """Drops damaged states, atomically. See `ProcessState.drop_damaged`."""
        last, damaged = self._row().round, self._damaged()
        for beyond in (("", None), (SERVER, last)):
            if beyond in damaged:
                raise CorruptStoreError(damaged[beyond])
        with self._database.transaction():
            for owner, number in damaged:
                newest = self._database.newest(self._process_id, owner)
                if newest == number:
                    self._database.execute(_DELETE, self._process_id, owner)
                elif newest is not None:
                    later = self._database.rows(_LATER, self._process_id, owner, number)
                    self._let_go(later[0][0])
        return list(damaged.values())

    def _damaged(self) -> dict[tuple[str, int | None], str]:
        """Reads the states of all kept rounds. Returns the message of each damaged one."""
        damaged: dict[tuple[str, int | None], str] = {}
        try:
            for owner, number in self._database.rows(_STATES, self._process_id):
                try:
                    self._database.state(self._process_id, owner, number)
                except CorruptStoreError as error:
                    damaged[owner, number] = str(error)
            last = self._row().round
            if last is not None and self._database.newest(self._process_id, SERVER) != last:
                damaged[SERVER, last] = str(self._database.corrupt(f"it has no server state of round {last}"))
            self.client_ids()
        except CorruptStoreError as error:
            damaged["", None] = str(error)
        return damaged

    def _let_go(self, oldest: int) -> None:
        """Removes the kept rounds before ``oldest``, and the states that only they need."""
        kept = self._rounds()
        for row in kept:
            if kept[0].round < row.round <= oldest:
                for owner in json.loads(row.owners):
                    self._database.execute(f"{_DELETE} AND round < ?", self._process_id, owner, row.round)
        self._database.execute("DELETE FROM rounds WHERE process = ? AND round < ?", self._process_id, oldest)

    def _rounds(self) -> list[RoundRow]:
        return [RoundRow(*row) for row in self._database.sealed_rows("rounds", self._process_id)]

    def _row(self) -> ProcessRow:
        row = self._database.process_row(self._process_id)
        assert row is not None, "`SqliteStore.open_process` has made it"
        return row

    def _read(self, owner: str) -> State | None:
        return self._database.newest_state(self._process_id, owner)
