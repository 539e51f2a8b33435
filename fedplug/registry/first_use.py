"""Imports a package's public names on first use, so that importing the package loads little."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["imported_on_first_use"]


def imported_on_first_use(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of a package. It also finds modules, such as ``fedplug.errors``.

    Args:
        package: The name of the package.
        homes: The module that defines each public name.
    """
    homes = homes or {}

    def find(name: str) -> object:
        if name in homes:
            value: object = getattr(importlib.import_module(homes[name]), name)
        else:
            value = _module(package, name)
        setattr(sys.modules[package], name, value)  # later accesses find it directly
        return value

    return find


def _module(package: str, name: str) -> object:
    own = f"{package}.{name}"
    if not name.startswith("_"):
        try:
            return importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name != own:
                raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
