"""The plugin's declaration of its store, which is imported on first use."""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import StoreSpec

__all__: list[str] = []


@hookimpl
def fedplug_stores() -> list[StoreSpec]:
    """Declares the store in a database."""
    return [
        StoreSpec(
            name="postgresql",
            target="fedplug_postgres.store:PostgresStore",
            summary="a PostgreSQL database; each commit is one transaction",
            examples=("postgresql:///?schema={folder}",),  # on the server named by PGHOST and so on
        )
    ]
