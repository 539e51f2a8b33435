"""Finds and calls functions that a configuration names as ``"package.module:function"``.

Modules beside the configuration file come first, as for a script in that folder.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from fedplug.errors import ConfigError, FedplugError, UnknownNameError
from fedplug.tff.structures import Structure

__all__ = ["call", "function", "look_beside"]


def look_beside(folder: Path) -> None:
    """Puts a folder first in Python's module search path."""
    path = str(folder.resolve())
    if path in sys.path:
        sys.path.remove(path)
    sys.path.insert(0, path)


def function(name: str, key: str, folder: Path) -> Callable[..., Structure]:
    """Returns the function with a name such as ``"package.module:function"``.

    Args:
        name: The name in the configuration.
        key: The key in the configuration, for example ``"[model] build"``.
        folder: The folder of the configuration file.

    Raises:
        ConfigError: The name has another form, the module cannot be imported, or it has no such function.
    """
    where = f"{key} is {name!r}"
    module_name, colon, attribute = name.partition(":")
    parts = [*module_name.split("."), attribute]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ConfigError(f"{where}; it must have the form 'package.module:function'")
    look_beside(folder)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except FedplugError as error:
        raise ConfigError(f"{where}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # for example a script that calls sys.exit()
        missing = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
        if missing:
            raise ConfigError(
                f"{where}; there is no module {module_name!r} in {folder.resolve()}, and none is installed"
            ) from error
        raise ConfigError(f"{where}; importing it failed: {_line(error)}") from error
    _check_is_beside(module, module_name, folder, where)
    found = getattr(module, attribute, None)
    if found is None:
        names = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise UnknownNameError("function", attribute, names, where=f"{module_name} ({key})")
    if not callable(found):
        raise ConfigError(f"{where}; this is a {type(found).__name__}, but it must be a function")
    made: Callable[..., Structure] = found
    return made


def call(
    made: Callable[..., Structure], where: str, arguments: Mapping[str, object], offered: Mapping[str, object]
) -> Structure:
    """Calls a user's function with ``arguments`` and the values of ``offered`` for which it has parameters.

    Raises:
        ConfigError: The arguments do not fit, or the function raised an error, which the message quotes.
    """
    try:
        signature = inspect.signature(made)
    except ValueError:  # functions written in C may have no signature
        return made(**arguments)
    parameters = signature.parameters
    given = {**{key: value for key, value in offered.items() if key in parameters}, **arguments}
    try:
        signature.bind(**given)
    except TypeError as error:
        offers = ", ".join(sorted({*offered, *arguments}))
        raise ConfigError(
            f"{where} cannot be called: {error}; available are {offers}, and the table of arguments"
        ) from error
    try:
        return made(**given)
    except FedplugError:
        raise
    except Exception as error:
        raise ConfigError(f"{where} failed: {_line(error)}") from error


def _check_is_beside(module: ModuleType, name: str, folder: Path, where: str) -> None:
    """Raises if a module of the same name was already imported for another configuration."""
    base = folder.resolve().joinpath(*name.split("."))
    here = [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]
    loaded = getattr(module, "__file__", None)
    if here and loaded and Path(loaded).resolve() != here[0]:
        raise ConfigError(
            f"{where}; {loaded} has the same name and is already imported instead of {here[0]}: rename "
            "one of them, or run the configurations one by one"
        )


def _line(error: BaseException) -> str:
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
