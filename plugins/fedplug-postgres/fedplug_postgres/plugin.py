"""What fedplug finds: the store, named, and imported when it is asked for."""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import StoreSpec

__all__: list[str] = []


@hookimpl
def fedplug_stores() -> list[StoreSpec]:
    """The store in a database."""
    return [
        StoreSpec(
            name="postgresql",
            target="fedplug_postgres.store:PostgresStore",
            summary="a PostgreSQL database; each commit is one transaction",
            examples=("postgresql:///?schema={folder}",),  # of the server that PGHOST and the like name
        )
    ]
