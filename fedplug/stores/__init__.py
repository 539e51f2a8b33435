"""Client-state stores: `base` is the contract, every other module one idea behind the built-in stores."""

from __future__ import annotations

from fedplug.errors import ConfigError
from fedplug.stores.base import ProcessState, StateStore

__all__ = ["ProcessState", "StateStore", "look_into", "open_store"]


def open_store(url: str) -> StateStore:
    """Opens the store that a URL names; its scheme is the store's name in the registry.

    Of a scheme of two parts, as ``ray+sqlite``, the first is the name.

    Args:
        url: For instance ``"memory://"``, ``"sqlite:///runs/state"`` or ``"sqlite:////absolute/path"``.

    Raises:
        ConfigError: Not a URL, or not of the form that this store takes.
        UnknownNameError: No store of that name is installed; the message lists the nearest.
        StoreError: The store cannot be opened.
    """
    return _named_by(url).from_url(url)


def look_into(url: str) -> StateStore:
    """Opens it for whoever only reads: `StateStore.look_into`.

    Raises:
        ConfigError: As `open_store`.
        UnknownNameError: As `open_store`.
        StoreError: As `open_store`.
    """
    return _named_by(url).look_into(url)


def _named_by(url: str) -> type[StateStore]:
    from fedplug.registry.resolve import (
        resolve,  # looks at every installed plugin, so only when a store is opened
    )

    scheme, separator, _ = str(url).partition("://")
    if not isinstance(url, str) or not separator:
        raise ConfigError(f"{url!r} is not the URL of a store; write for instance 'sqlite:///{url}'")
    store: type[StateStore] = resolve("store", scheme.partition("+")[0])
    return store
