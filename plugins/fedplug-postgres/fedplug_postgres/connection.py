"""A connection that times out if the server stops answering, and raises `StoreError`s."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import errors

from fedplug.errors import ConfigError, StoreError

__all__ = ["Connection", "Cursor", "Row", "connect", "one_line", "parameters", "place", "translated"]

_DEFAULTS = {
    "connect_timeout": "10",
    # Dead machines and networks are detected within half a minute.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
# The server releases the lock of a client whose machine is gone within half a minute.
_SESSION = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "30000",
    "client_connection_check_interval": "5s",
}

_Result = TypeVar("_Result")
Row: TypeAlias = tuple[Any, ...]
"""The values of a row, whose types only its query knows."""
Cursor: TypeAlias = psycopg.Cursor[Row]


class Connection(psycopg.Connection[Row]):
    """Raises `TimeoutError` if nothing arrives for `silence` seconds. Then it can only be closed."""

    silence: float = 300.0

    def wait(self, gen: Generator[Any, Any, _Result], interval: float | None = 0.1) -> _Result:
        """Waits for the server. Psycopg calls this for everything except connecting."""
        # psycopg's fastest way does not report a passed interval in some releases.
        return psycopg.waiting.wait_selector(_limited(gen, self.silence), self.pgconn.socket, interval)

    def cancel_safe(self, *, timeout: float = 30.0) -> None:
        """Closes the connection: an unfinished statement must not wait for a server that may be gone."""
        del timeout
        self.close()


def _limited(gen: Generator[object, object, _Result], silence: float) -> Generator[Any, Any, _Result]:
    """Yields like ``gen``. Raises `TimeoutError` after `silence` seconds in which nothing was ready."""
    since = time.monotonic()
    answer = None
    while True:
        try:
            wanted = gen.send(answer)
        except StopIteration as end:
            return end.value
        answer = yield wanted
        if answer:
            since = time.monotonic()
        elif time.monotonic() - since > silence:
            raise TimeoutError(f"nothing was heard for {silence:g} s")


def parameters(url: str) -> dict[str, Any]:
    """Returns the parameters of a URL, or of another connection string of libpq.

    Raises:
        ConfigError: The string is invalid. The message omits it, because it may have a password.
    """
    try:
        return psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        reason = str(error).partition(":")[0]
        raise ConfigError(
            f"not the URL of a database ({reason}); write 'postgresql://user@host:port/database'"
        ) from error


def place(found: Mapping[str, object]) -> str:
    """Returns the location of the database without a password, for messages."""
    user = f"{found['user']}@" if "user" in found else ""
    port = f":{found['port']}" if "port" in found else ""
    return f"postgresql://{user}{found.get('host', '')}{port}/{found.get('dbname', '')}"


def connect(found: Mapping[str, Any], silence: float) -> Connection:
    """Connects with the time limits of this file.

    Raises:
        StoreError: There is no server, or it rejects the connection or does not answer.
    """
    name = f"fedplug, process {os.getpid()} on {socket.gethostname()}"[:63]
    try:
        connection = Connection.connect(**{**_DEFAULTS, "application_name": name, **found}, autocommit=True)
    except psycopg.Error as error:
        raise StoreError(
            f"{place(found)} cannot be reached: {one_line(error)}; the URL says where the server is and who "
            "asks, PGPASSWORD or ~/.pgpass the password"
        ) from error
    connection.silence = silence
    try:
        with translated(place(found)):
            for setting, value in _SESSION.items():
                connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
            # A commit must return only when the round is on the server's disk, whatever the default is.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Translates psycopg's errors to `StoreError`."""
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise StoreError(
            f"{where}: {one_line(error)}; the role needs CREATE on the database, or on the schema and all "
            "rights on the tables in it"
        ) from error
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.DuplicateTable) as error:
        raise StoreError(
            f"{where}: {one_line(error)}: the schema is not one that fedplug made; name another with "
            "?schema=NAME"
        ) from error
    except (psycopg.OperationalError, TimeoutError) as error:
        raise StoreError(f"{where}: {one_line(error)}") from error
    except psycopg.Error as error:
        raise StoreError(f"{where} refuses: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Returns the server's message in one line, without the statement that it quotes."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((said or str(error)).split()) or type(error).__name__
