"""Client-state stores. `base` defines the contract. The other modules implement the built-in stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.errors import ConfigError
from fedplug.registry.first_use import imported_on_first_use
from fedplug.stores.base import ProcessState, StateStore

if TYPE_CHECKING:
    from fedplug.stores import blob, rules
    from fedplug.stores.forks import Connection

__all__ = ["Connection", "ProcessState", "StateStore", "blob", "look_into", "open_store", "rules"]

if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__, {"Connection": "fedplug.stores.forks"})


def open_store(url: str) -> StateStore:
    """Opens the store at a URL. The scheme selects the store by its name in the registry.

    >>> with open_store("memory://") as store:
    ...     process = store.open_process("digits", {"encoder": "topk(0.01)"})
    ...     process.commit(0, client_states={"client-7": {}}, server_state={})
    ...     process.client_ids()
    ['client-7']

    Args:
        url: URL such as ``"memory://"``, ``"sqlite:///runs/state"`` or ``"sqlite:////absolute/path"``.

    Raises:
        ConfigError: The argument is not a URL, or does not have the form that this store requires.
        MissingDependencyError: An extra of fedplug provides the store, and is not installed.
        UnknownNameError: No store of that name is installed. The message lists the nearest names.
        StoreError: The store cannot be opened.
    """
    return _named_by(url).from_url(url)


def look_into(url: str) -> StateStore:
    """Opens the store at a URL for reading only. See `StateStore.look_into`.

    Raises:
        ConfigError: See `open_store`.
        UnknownNameError: See `open_store`.
        StoreError: See `open_store`.
    """
    return _named_by(url).look_into(url)


def _named_by(url: str) -> type[StateStore]:
    from fedplug.registry.resolve import resolve  # deferred: it examines every installed plugin

    scheme, separator, _ = str(url).partition("://")
    if not isinstance(url, str) or not separator:
        raise ConfigError(f"{url!r} is not the URL of a store; write, for example, 'sqlite:///{url}'")
    store: type[StateStore] = resolve("store", scheme)
    return store
