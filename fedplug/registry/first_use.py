"""Imports a package's public names on first use, so that importing the package loads little."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["imported_on_first_use"]


def imported_on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of a package. It also finds modules, such as ``fedplug.errors``.

    Args:
        package: The name of the package.
        homes: The module that defines each public name, or that is the name itself, by name.
    """

    def find(name: str) -> object:
        own = f"{package}.{name}"
        missing = AttributeError(f"module {package!r} has no attribute {name!r}")
        if name not in homes and name.startswith("_"):
            raise missing
        try:
            home = importlib.import_module(homes.get(name, own))
        except ModuleNotFoundError as error:
            if name in homes or error.name != own:
                raise
            raise missing from None
        value = home if homes.get(name, own) == own else getattr(home, name)
        setattr(sys.modules[package], name, value)  # later accesses find it directly
        return value

    return find
