"""Finds conversions of arguments to NumPy arrays in the source of an encoder."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

__all__ = ["conversions"]

_METHODS = ("encode", "decode", "select", "accumulate", "to_wire", "from_wire")
_FUNCTIONS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "copy")


def conversions(part: type) -> Iterator[str]:
    """Yields ``file:line: np.asarray(x)`` for every conversion of an argument of a method.

    Args:
        part: The class of an encoder or a stage. Fedplug's own bases are not read.
    """
    for base in part.__mro__:
        if base is object or base.__module__.partition(".")[0] == "fedplug":
            continue
        for name in _METHODS:
            if name in vars(base):
                yield from _in_function(vars(base)[name])


def _in_function(function: object) -> Iterator[str]:
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(function))  # type: ignore[arg-type]
    except (OSError, TypeError):  # its source is not there
        return
    [tree] = ast.parse(textwrap.dedent("".join(lines))).body
    imported = {name for name, value in function.__globals__.items() if _is_numpy(value)}  # type: ignore[attr-defined]
    given = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} - {"self"}
    given |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _is_stored(node)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in imported
            and node.func.attr in _FUNCTIONS
            and node.args
            and given & {each.id for each in ast.walk(node.args[0]) if isinstance(each, ast.Name)}
        ):
            place = f"{inspect.getsourcefile(function)}:{first + node.lineno - 1}"  # type: ignore[arg-type]
            yield f"{place}: {ast.unparse(node)}"


def _is_numpy(value: object) -> bool:
    return inspect.ismodule(value) and value.__name__ == "numpy"


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
