"""Parses component expressions such as ``"topk(linear(0.1, 0.01, 20)) | qsgd(bits=8)"``; evaluates nothing.

The grammar is a subset of Python's, so Python's own parser does the work. Stages are joined by ``|``; each is
a name or a call of a name. An argument is a literal, or a call with literal arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from fedplug.errors import ConfigError

__all__ = ["Stage", "parse"]

_LONGEST = 4096
_CONSTANTS = ("True", "False", "None")
_FORM = "write name, name(value, key=value) or several of them joined by |"


@dataclass(frozen=True)
class Stage:
    """One stage: a name and its arguments, which are literals or `Stage`s with literals only."""

    name: str
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)


def parse(text: str) -> tuple[Stage, ...]:
    """Returns the stages of an expression, at least one, from left to right.

    Raises:
        ConfigError: The text is not a valid expression. The message names the offending part.
    """
    if not isinstance(text, str):
        raise ConfigError(f"a component expression is a string, not {type(text).__name__} {text!r}; {_FORM}")
    if len(text) > _LONGEST:
        raise ConfigError(f"a component expression of {len(text)} characters is too long; at most {_LONGEST}")
    text = text.strip()
    try:
        nodes = _split(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ConfigError(f"cannot read {text!r}: {error.msg}{_place(text, error)}; {_FORM}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"cannot read {text!r}: {error}; {_FORM}") from error
    return tuple(_stage(node, text) for node in nodes)


def _place(text: str, error: SyntaxError) -> str:
    """Returns the part that Python's parser did not understand, unless that is the whole text."""
    offset = error.offset or 0
    return f" at {text[offset - 1 :]!r}" if error.lineno == 1 and 1 < offset <= len(text) else ""


def _split(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _split(node.left) + _split(node.right)
    return [node]


def _stage(node: ast.expr, text: str) -> Stage:
    if isinstance(node, ast.Name):
        return Stage(node.id)
    if not _is_call(node):
        raise ConfigError(f"{_piece(text, node)} is neither a name nor a call of a name; {_FORM}")
    return _call(node, text, _argument)


def _argument(node: ast.expr, text: str) -> object:
    return _call(node, text, _literal) if _is_call(node) else _literal(node, text)


def _is_call(node: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _call(node: ast.Call, text: str, read: Callable[[ast.expr, str], object]) -> Stage:
    assert isinstance(node.func, ast.Name)
    kwargs: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in kwargs:
            wrong = "** is not allowed" if keyword.arg is None else f"{keyword.arg!r} is given twice"
            raise ConfigError(f"cannot read {text!r}: {wrong}; {_FORM}")
        kwargs[keyword.arg] = read(keyword.value, text)
    return Stage(node.func.id, tuple(read(value, text) for value in node.args), kwargs)


def _literal(node: ast.expr, text: str) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        remedy = _remedy(node.id) if isinstance(node, ast.Name) else ""
        raise ConfigError(
            f"{_piece(text, node)} is not a plain value (number, string, True, False, None, list){remedy}"
        ) from error


def _remedy(name: str) -> str:
    """Returns advice on how to write a value that was written as a name."""
    if name.capitalize() in _CONSTANTS:
        return f"; write {name.capitalize()}"
    return f"; write text in quotes: '{name}'"


def _piece(text: str, node: ast.expr) -> str:
    """Returns a node's text, and the whole text if that is longer."""
    piece = ast.get_source_segment(text, node) or text
    return repr(piece) if piece == text else f"{piece!r} in {text!r}"
