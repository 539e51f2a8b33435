"""The state of one training process in a database: reading, committing and rewinding rounds."""

from __future__ import annotations

import collections
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores import ProcessState, blob, rules
from fedplug.stores.base import Json, State, Tensors
from fedplug.stores.parts import SERVER, Part, client_owner, encoded, joined
from fedplug.stores.turns import in_turn, refuse_copies
from fedplug_postgres.connection import Cursor
from fedplug_postgres.schema import digest
from fedplug_postgres.session import InDoubtError, Session

__all__ = ["PostgresProcess"]

_COLUMNS = "process, owner, name, round, part, parts, checksum, data"
_TYPES = ("bytea", "bytea", "bytea", "int8", "int4", "int4", "int8", "bytea")
_REMEDY = "restore the database from a backup, or start a new store"
_NEWEST = (
    f"SELECT {_COLUMNS} FROM state AS one WHERE process = %s AND owner = ANY(%s) AND round = "
    "(SELECT max(round) FROM state WHERE process = one.process AND owner = one.owner) ORDER BY owner, part"
)
_ALL = f"SELECT {_COLUMNS} FROM state WHERE process = %s ORDER BY owner, round, part"
# This deletes the states that the rounds from %s to %s replaced.
_LET_GO = (
    "DELETE FROM state AS old USING state AS new WHERE new.process = %s AND new.round BETWEEN %s AND %s "
    "AND new.part = 0 AND old.process = new.process AND old.owner = new.owner AND old.round < new.round"
)


class PostgresProcess(ProcessState):
    """A process of a `fedplug_postgres.store.PostgresStore`, which creates it."""

    __reduce__ = refuse_copies

    def __init__(self, process_id: str, session: Session, keep_rounds: int) -> None:
        self._process_id = process_id
        self._key = digest(process_id)
        self._session = session
        self.turn = session.turn
        self._keep_rounds = keep_rounds

    @property
    @in_turn
    def signature(self) -> Json:
        """See `ProcessState.signature`."""
        return json.loads(self._column("signature"))

    @property
    @in_turn
    def last_round(self) -> int | None:
        """See `ProcessState.last_round`."""
        found: int | None = self._column("round")
        return found

    @property
    @in_turn
    def metadata(self) -> Json:
        """See `ProcessState.metadata`."""
        return json.loads(self._column("metadata"))

    @in_turn
    def kept_rounds(self) -> list[int]:
        """Returns the rounds that `rewind` accepts, oldest first. The last one is the current round."""
        query = "SELECT round FROM round WHERE process = %s ORDER BY round"
        return [number for (number,) in self._session.rows(query, self._key)]

    @in_turn
    def client_ids(self) -> list[str]:
        """See `ProcessState.client_ids`."""
        query = "SELECT DISTINCT name FROM state WHERE process = %s AND part = 0 AND owner <> %s"
        found = self._session.rows(query, self._key, digest(SERVER))
        return sorted(name.decode().removeprefix(client_owner("")) for (name,) in found)

    @in_turn
    def read_clients(self, client_ids: Iterable[str]) -> dict[str, State]:
        """See `ProcessState.read_clients`."""
        asked = [rules.check_text("client id", client) for client in client_ids]
        found = dict(self._read([client_owner(client) for client in asked]))
        return {client: found[owner] for client in asked if (owner := client_owner(client)) in found}

    @in_turn
    def read_server(self) -> State | None:
        """See `ProcessState.read_server`."""
        return dict(self._read([SERVER])).get(SERVER)

    @in_turn
    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors],
        server_state: Tensors,
        metadata: object = None,
    ) -> None:
        """Commits a round. See `ProcessState.commit`. A lazy mapping of states is read one at a time.

        Raises:
            StoreError: The round is not committed, because it is invalid or the connection is lost. The
                message says so if the outcome is unknown.
        """
        last = self.last_round
        number, text = rules.check_commit(self._process_id, last, round_num, client_states, metadata)
        try:
            with self._session.transaction() as cursor:
                with cursor.copy(f"COPY state ({_COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
                    copy.set_types(_TYPES)
                    for part in encoded(self._process_id, number, client_states, server_state):
                        _, owner, *rest = part
                        copy.write_row((self._key, digest(owner), owner.encode(), *rest))
                cursor.execute("INSERT INTO round VALUES (%s, %s, %s)", (self._key, number, text))
                self._set_round(cursor, number, text)
                self._let_go_of_rounds_before(cursor, number - self._keep_rounds + 1)
        except InDoubtError as error:
            self._settle(number, error)
        except StoreError as error:
            raise rules.not_committed(self._process_id, number, last, error) from error

    @in_turn
    def rewind(self, round_num: int) -> None:
        """Rolls back to a kept round, atomically. See `ProcessState.rewind`.

        Raises:
            StoreError: The round is not kept, or the server raises an error or is lost.
        """
        query = "SELECT round, metadata FROM round WHERE process = %s ORDER BY round"
        rounds = dict(self._session.rows(query, self._key))
        if round_num not in rounds:
            raise rules.not_kept(self._process_id, round_num, rounds)
        try:
            with self._session.transaction() as cursor:
                for table in ("state", "round"):
                    cursor.execute(
                        f"DELETE FROM {table} WHERE process = %s AND round > %s", (self._key, round_num)
                    )
                self._set_round(cursor, round_num, rounds[round_num])
        except InDoubtError as error:
            self._settle(round_num, error)

    @in_turn
    def damage(self) -> Iterator[str]:
        """Reads everything and returns one line for each damage. See `ProcessState.damage`."""
        owners, damage = set(), []
        with self._parts(_ALL, self._key) as rows:
            for (key, _), group in itertools.groupby(rows, lambda row: (row[0], row[1].round)):
                parts = [part for _, part in group]
                owner = parts[0].owner if digest(parts[0].owner) == key else "(its name is damaged)"
                owners.add(owner)
                try:
                    joined(self._process_id, owner, parts, self._session.where, _REMEDY)
                except CorruptStoreError as error:
                    damage.append(str(error))
        if self.last_round is not None and SERVER not in owners:
            damage.append(
                f"process {self._process_id!r}: {self._session.where} is corrupt: there is a round, but no "
                f"server state; {_REMEDY}"
            )
        return iter(damage)

    def _column(self, column: str) -> Any:
        rows = self._session.rows(f"SELECT {column} FROM process WHERE process = %s", self._key)
        ((value,),) = rows
        return value

    def _read(self, owners: list[str]) -> Iterator[tuple[str, State]]:
        asked = {digest(owner): owner for owner in owners}
        with self._parts(_NEWEST, self._key, list(asked)) as rows:
            for key, group in itertools.groupby(rows, lambda row: row[0]):
                parts = [part for _, part in group]
                document = joined(self._process_id, asked[key], parts, self._session.where, _REMEDY)
                yield asked[key], blob.decode(document)

    @contextmanager
    def _parts(self, query: str, *values: object) -> Iterator[Iterator[tuple[bytes, Part]]]:
        """Yields each row's digest of the owner, and its part. Reads all rows, to free the connection."""
        found = self._session.rows(query, *values)
        rows = ((row[1], Part(self._process_id, row[2].decode(errors="replace"), *row[3:])) for row in found)
        try:
            yield rows
        finally:
            collections.deque(rows, maxlen=0)

    def _set_round(self, cursor: Cursor, number: int, metadata: str) -> None:
        query = "UPDATE process SET round = %s, metadata = %s WHERE process = %s"
        cursor.execute(query, (number, metadata, self._key))

    def _let_go_of_rounds_before(self, cursor: Cursor, oldest: int) -> None:
        """Removes the states that only rounds before ``oldest`` need."""
        cursor.execute("SELECT min(round) FROM round WHERE process = %s", (self._key,))
        [(first,)] = cursor
        if first < oldest:
            cursor.execute(_LET_GO, (self._key, first + 1, oldest))
            cursor.execute("DELETE FROM round WHERE process = %s AND round < %s", (self._key, oldest))

    def _settle(self, number: int, error: InDoubtError) -> None:
        """Raises an error unless the transaction to round ``number`` was committed."""
        try:
            reached = self.last_round == number
        except StoreError as again:
            raise StoreError(
                f"the connection was lost while round {number} of process {self._process_id!r} was being "
                f"committed ({error}), and cannot be restored: {again}; when it can, `last_round` shows "
                "whether the round was committed"
            ) from error
        if not reached:
            raise StoreError(
                f"round {number} of process {self._process_id!r} was not reached: {error}; the last round is "
                "intact"
            ) from error
