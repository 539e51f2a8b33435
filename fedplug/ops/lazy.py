"""Packages whose modules are imported when they are first used."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from types import ModuleType

__all__ = ["imported_on_first_use"]


def imported_on_first_use(package: str) -> Callable[[str], ModuleType]:
    """Returns a ``__getattr__`` that imports the modules of a package when they are first used.

    Imports under ``if TYPE_CHECKING:`` beside it tell readers and type checkers the names of the modules.
    """

    @functools.cache  # every call of an op asks
    def module(name: str) -> ModuleType:
        full_name = f"{package}.{name}"
        if importlib.util.find_spec(full_name) is None:
            raise AttributeError(f"{package} has no module {name}")
        return importlib.import_module(full_name)

    return module
