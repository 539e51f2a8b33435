"""Client-state stores: `base` is the contract, every other module one idea behind the built-in stores."""

from __future__ import annotations

from fedplug.errors import ConfigError
from fedplug.stores.base import ProcessState, StateStore

__all__ = ["ProcessState", "StateStore", "open_store"]


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
    from fedplug.registry.resolve import (
        resolve,  # looks at every installed plugin, so only when a store is opened
    )

    scheme, separator, _ = str(url).partition("://")
    if not isinstance(url, str) or not separator:
        raise ConfigError(f"{url!r} is not the URL of a store; write for instance 'sqlite:///{url}'")
    store: StateStore = resolve("store", scheme.partition("+")[0]).from_url(url)
    return store
