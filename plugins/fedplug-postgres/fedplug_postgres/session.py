"""The session of a store's only user, also across lost connections, and its transactions.

The user holds an advisory lock, which PostgreSQL releases when the session ends. After a lost connection,
another user may have opened the store meanwhile. Each opening therefore has a number, which is checked after
reconnecting and in every transaction.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors

from fedplug.errors import StoreError, StoreInUseError
from fedplug.stores.turns import Turn
from fedplug_postgres import schema as tables
from fedplug_postgres.connection import Connection, Cursor, Row, connect, one_line, place, translated

__all__ = ["InDoubtError", "Session"]

_LOCKS = 0xFED91  # the class of our advisory locks
_PATIENCE = "2s"  # time for the server to notice that a killed user is gone, and release its lock


class InDoubtError(StoreError):
    """The connection was lost between a transaction's end and the server's confirmation."""


class Session:
    """A store's connection to its server, restored after a loss. Usable in one process only.

    Attributes:
        where: The store, for errors.
        turn: The lock for threads. The caller of `rows` or `transaction` holds it.
    """

    def __init__(
        self, parameters: Mapping[str, object], schema: str, timeout: float, *, looking: bool
    ) -> None:
        """Connects and takes the lock; with ``looking``, shows a snapshot of the store without a lock.

        Raises:
            StoreError: There is no server, it rejects the connection, or the schema has no valid store.
            StoreInUseError: The store is open elsewhere.
        """
        self._parameters = parameters
        self._schema = schema
        self._timeout = timeout
        self._lock = zlib.crc32(schema.encode()) - 2**31  # a signed integer
        self._looking = looking
        self._opening: int | None = None
        self._backend: tuple[int, Any] | None = None
        self._closed = False
        self.where = f"{place(parameters)}?schema={schema}"
        self.turn = Turn(self.where)
        self._connection: Connection | None = None
        self._connection = self._look() if looking else self._open()

    def close(self) -> None:
        """Ends the session. Closing twice is allowed. It does nothing in a forked child."""
        if not self.turn.is_of_parent():
            with self.turn.lock:
                self._closed = True
                self._drop()

    def rows(self, query: str, *values: object) -> Iterator[Row]:
        """Yields the rows of a query as they arrive.

        Raises:
            StoreError: The server raises an error or is lost. The next use connects again.
        """
        connection = self._connected()
        try:
            with translated(self.where), connection.cursor() as cursor:
                yield from cursor.stream(query, values, binary=True)
        except BaseException:
            self._recover()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """Commits the block's changes when it ends, or undoes them if it raises.

        Raises:
            StoreError: The server raises an error or is lost, and nothing was committed. The next use
                connects again.
            InDoubtError: The connection was lost during the commit.
        """
        if self._looking:
            raise StoreError(f"{self.where} was opened to look into it; open it with fedplug.open_store")
        connection = self._connected()
        try:
            with translated(self.where), connection.cursor() as cursor:
                cursor.execute("BEGIN")
                self._check_opening(cursor)
                yield cursor
                try:
                    cursor.execute("COMMIT")
                except (psycopg.OperationalError, TimeoutError) as error:
                    if isinstance(error, TimeoutError) or connection.broken:
                        raise InDoubtError(f"{self.where}: {one_line(error)}") from error
                    raise
        except BaseException:
            self._recover()
            raise

    def _connected(self) -> Connection:
        if self._closed:
            raise StoreError(f"the store of {self.where} is closed")
        if self._connection is None:
            if self._looking:
                raise StoreError(f"{self.where}: the connection was lost, and its snapshot with it")
            self._connection = self._open()
        return self._connection

    def _recover(self) -> None:
        """Rolls back after an error, or drops the connection if it cannot."""
        status = psycopg.pq.TransactionStatus
        if self._connection is None:
            return
        if not self._looking:
            with suppress(psycopg.Error, TimeoutError):
                if self._connection.info.transaction_status in (status.INTRANS, status.INERROR):
                    self._connection.execute("ROLLBACK")
                if self._connection.info.transaction_status == status.IDLE:
                    return
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _look(self) -> Connection:
        connection = connect(self._parameters, self._timeout)
        try:
            with translated(self.where):
                # All reads see the same snapshot, whatever others commit meanwhile.
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                if not tables.exists(connection, self._schema):
                    raise StoreError(f"there is no store in {self.where}")
                tables.select(connection, self._schema)
                tables.check_version(connection, self.where)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self) -> Connection:
        connection = connect(self._parameters, self._timeout)
        try:
            with translated(self.where):
                self._end_lost_session(connection)
                self._take_lock(connection)
                tables.select(connection, self._schema)
                if not tables.exists(connection, self._schema):
                    tables.create(connection, self._schema)
                tables.check_version(connection, self.where)
                if self._opening is None:
                    row = connection.execute(
                        "UPDATE fedplug_store SET opened = opened + 1 RETURNING opened"
                    ).fetchone()
                    assert row is not None, "the version was in it"
                    self._opening = row[0]
                else:
                    self._check_opening(connection.cursor())
                self._backend = connection.execute(
                    "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
                ).fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _end_lost_session(self, connection: Connection) -> None:
        """Ends the session that this one replaces, if the server has not noticed its loss.

        Its last transaction is then committed or undone before anything is read.
        """
        if self._backend is not None:
            query = (
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
            )
            connection.execute(query, self._backend)

    def _take_lock(self, connection: Connection) -> None:
        key = (_LOCKS, self._lock)
        try:
            connection.execute(f"SET lock_timeout = '{_PATIENCE}'")
            connection.execute("SELECT pg_advisory_lock(%s::int, %s::int)", key)
            connection.execute("RESET lock_timeout")
        except errors.LockNotAvailable as error:
            holder = connection.execute(
                "SELECT application_name, backend_start FROM pg_locks JOIN pg_stat_activity USING (pid) "
                "WHERE locktype = 'advisory' AND granted AND classid = %s::int::oid AND objid = %s::int::oid "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                key,
            ).fetchone()
            who = "" if holder is None else f" by {holder[0]}, since {holder[1]:%Y-%m-%d %H:%M:%S %Z}"
            raise StoreInUseError(
                f"{self.where} is in use{who}; a store has one user at a time, so close it there first"
            ) from error

    def _check_opening(self, cursor: Cursor) -> None:
        row = cursor.execute("SELECT opened FROM fedplug_store FOR UPDATE").fetchone()
        if row != (self._opening,):
            raise StoreInUseError(
                f"{self.where} was opened by another user while the connection was lost; open it again"
            )
