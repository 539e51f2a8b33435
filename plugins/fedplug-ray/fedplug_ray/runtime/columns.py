"""Packs clients' values for a coordinator: parts that neighbouring clients share are sent once.

Ray's pickler calls Python for every object that is not built in, and a block has hundreds of clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from fedplug_ray.runtime.messages import Given, OnWorker
from fedplug_ray.runtime.shelves import OnShelf, Place

__all__ = ["Column", "pack", "unpack"]

Value: TypeAlias = "Given | OnWorker | Place"


class _Run(NamedTuple):
    """Neighbours of one kind. `kind(common, own)` makes a value; if `kind` is None, `own` is the value."""

    kind: type[OnWorker] | type[OnShelf] | None
    common: Any
    own: list[Any]


Column: TypeAlias = list[_Run]


def pack(values: Sequence[Value]) -> Column:
    """Packs the values of a block's clients; the inverse of `unpack`."""
    column: Column = []
    for value in values:
        kind, common, own = _parts(value)
        if not column or kind is not column[-1].kind or common is not column[-1].common:
            column.append(_Run(kind, common, []))
        column[-1].own.append(own)
    return column


def unpack(column: Column) -> list[Value]:
    """Returns the values that `pack` packed."""
    return [own if kind is None else kind(common, own) for kind, common, owns in column for own in owns]


def _parts(value: Value) -> tuple[type[OnWorker] | type[OnShelf] | None, Any, Any]:
    if isinstance(value, OnWorker):
        return OnWorker, value.function, value.arguments
    if isinstance(value, OnShelf):
        return OnShelf, value.shelf, value.position
    return None, None, value
