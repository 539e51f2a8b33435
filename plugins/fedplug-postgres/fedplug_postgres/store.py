"""``postgresql://user@host/database``: a store in a PostgreSQL database; a commit is one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qsl, quote, urlencode

import psycopg

from fedplug.errors import ConfigError
from fedplug.stores import StateStore, rules
from fedplug.stores.base import Json
from fedplug.stores.turns import in_turn, refuse_copies
from fedplug_postgres.connection import parameters
from fedplug_postgres.process import PostgresProcess
from fedplug_postgres.schema import digest
from fedplug_postgres.session import Session

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["PostgresStore"]

_SCHEME = "postgresql://"


class PostgresStore(StateStore):
    """A store in the tables of one schema of a database, which it creates."""

    name: ClassVar[str] = "postgresql"
    __reduce__ = refuse_copies

    def __init__(
        self,
        url: str,
        schema: str = "fedplug",
        keep_rounds: int = 1,
        timeout: float = 300.0,
        *,
        looking: bool = False,
    ) -> None:
        """Opens the store, and creates its tables if there are none.

        Args:
            url: The location of the server, in a form of libpq.
            schema: The schema of the database. Each schema is a store.
            keep_rounds: Number of rounds of each process to keep for `PostgresProcess.rewind`. It may differ
                at each opening. The next commit removes rounds beyond it.
            timeout: Seconds that the server may take to answer a statement. Dead machines and networks are
                detected sooner.
            looking: Whether to open a read-only snapshot, without creating tables or taking the lock. See
                `look_into`.

        Raises:
            ConfigError: An argument is invalid.
            StoreError: There is no server, it rejects the connection, or the schema has something else or a
                newer format.
            StoreInUseError: The store is open elsewhere.
        """
        if not isinstance(schema, str) or not 0 < len(schema.encode()) < 64 or "\0" in schema:
            raise ConfigError(f"schema is {schema!r}; it must be a name of 1 to 63 bytes")
        rules.check_keep_rounds(keep_rounds)
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigError(f"timeout is {timeout!r}; it must be a positive number of seconds")
        self._parameters = parameters(url)
        self._options = {"schema": schema, "keep_rounds": keep_rounds, "timeout": timeout}
        self._keep_rounds = keep_rounds
        self._session = Session(self._parameters, schema, timeout, looking=looking)
        self.turn = self._session.turn

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Opens ``postgresql://user@host:port/database?schema=fedplug&keep_rounds=1&timeout=300``.

        All parts except the scheme are optional. Other parameters of libpq (``sslmode``,
        ``host=/run/postgresql`` ...) are allowed in the query, too.
        """
        return cls(*_arguments(url))

    @classmethod
    def look_into(cls, url: str) -> Self:
        """Opens a read-only snapshot of the store, even while it is open elsewhere."""
        return cls(*_arguments(url), looking=True)

    def get_config(self) -> dict[str, Json]:
        """Returns the arguments without a password, which PGPASSWORD or ~/.pgpass must provide."""
        found = {name: value for name, value in self._parameters.items() if name != "password"}
        return {"url": psycopg.conninfo.make_conninfo("", **found), **self._options}

    @in_turn
    def open_process(self, process_id: str, signature: Mapping[str, object] | None = None) -> PostgresProcess:
        """Opens a process. See `StateStore.open_process`."""
        key = digest(rules.check_text("process id", process_id))
        query = "SELECT signature FROM process WHERE process = %s"
        kept = list(self._session.rows(query, key))
        if not kept and signature is None:
            raise rules.no_such_process(self._session.where, process_id, self.processes())
        if not kept:
            row = (key, process_id.encode(), rules.to_json("signature", signature))
            with self._session.transaction() as cursor:
                cursor.execute("INSERT INTO process VALUES (%s, %s, %s, NULL, 'null')", row)
        elif signature is not None:
            rules.check_signature(self._session.where, process_id, kept[0][0], signature)
        return PostgresProcess(process_id, self._session, self._keep_rounds)

    @in_turn
    def processes(self) -> list[str]:
        """Returns the ids of all processes. See `StateStore.processes`."""
        return sorted(name.decode() for (name,) in self._session.rows("SELECT name FROM process"))

    def close(self) -> None:
        """Releases the lock and the connection. See `StateStore.close`."""
        self._session.close()


def _arguments(url: str) -> tuple[str, str, int, float]:
    """Splits a URL into the first arguments of `PostgresStore`."""
    if not url.startswith(_SCHEME):
        raise ConfigError(f"the URL of a database begins with {_SCHEME!r}")
    place, _, options = url.partition("?")
    query = dict(parse_qsl(options, keep_blank_values=True))
    schema, rounds, timeout = (
        query.pop(name, default)
        for name, default in {"schema": "fedplug", "keep_rounds": "1", "timeout": "300"}.items()
    )
    try:
        numbers = int(rounds), float(timeout)
    except ValueError as error:
        raise ConfigError(f"keep_rounds={rounds} and timeout={timeout} must be numbers") from error
    return f"{place}?{urlencode(query, quote_via=quote)}", schema, *numbers
