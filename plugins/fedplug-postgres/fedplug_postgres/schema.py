"""The tables of a store, in a schema of the database that holds nothing else.

A state is cut into parts of at most 4 MiB. No statement is then as large as a state, and PostgreSQL's limit
of 1 GB for a value does not apply. Rows are found by digests of ids, because ids have any length and may
contain characters that PostgreSQL's text cannot hold.
"""

from __future__ import annotations

import hashlib

from psycopg import sql

from fedplug.errors import StoreError
from fedplug_postgres.connection import Connection

__all__ = ["VERSION", "check_version", "create", "digest", "exists", "select"]

VERSION = 1

_TABLES = """
CREATE TABLE fedplug_store (version int NOT NULL, opened bigint NOT NULL);
CREATE TABLE process (
    process bytea PRIMARY KEY, name bytea NOT NULL, signature text NOT NULL,
    round bigint, metadata text NOT NULL
);
CREATE TABLE round (
    process bytea NOT NULL, round bigint NOT NULL, metadata text NOT NULL, PRIMARY KEY (process, round)
);
CREATE TABLE state (
    process bytea NOT NULL, owner bytea NOT NULL, round bigint NOT NULL,
    part int NOT NULL, parts int NOT NULL,
    name bytea NOT NULL, checksum bigint NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (process, owner, round, part)
);
CREATE INDEX state_by_round ON state (process, round);
ALTER TABLE state ALTER COLUMN data SET STORAGE EXTERNAL; -- no compression: it does not shrink floats
INSERT INTO fedplug_store VALUES (%d, 0);
"""


def digest(name: str) -> bytes:
    """Returns the digest of an id for the keys."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def select(connection: Connection, schema: str) -> None:
    """Makes unqualified table names refer to this schema for the rest of the connection."""
    connection.execute(sql.SQL("SET search_path = {}, pg_temp").format(sql.Identifier(schema)))


def exists(connection: Connection, schema: str) -> bool:
    """Returns whether there is a store in the schema."""
    found = connection.execute(
        "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'fedplug_store'", (schema,)
    )
    return found.fetchone() is not None


def create(connection: Connection, schema: str) -> None:
    """Creates the tables atomically, and the schema if there is none."""
    with connection.transaction():
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,))
        if found.fetchone() is None:  # IF NOT EXISTS would require an additional privilege
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        connection.execute(_TABLES % VERSION)


def check_version(connection: Connection, where: str) -> None:
    """Raises `StoreError` unless the tables have this release's format."""
    (version,) = connection.execute("SELECT version FROM fedplug_store").fetchone() or (None,)
    if version != VERSION:
        raise StoreError(
            f"{where} has format version {version}, and this release of fedplug-postgres reads version "
            f"{VERSION}; use the release that wrote it, or a newer one"
        )
