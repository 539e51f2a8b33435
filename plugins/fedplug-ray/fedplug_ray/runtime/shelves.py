"""Clients' values that a coordinator holds for the driver: their names, lookup and release.

The driver has one `Shelf` for a block of clients, instead of a Ray reference for every client's value.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import ray

__all__ = ["OnShelf", "Place", "Shelf", "find", "let_go", "lost"]


class Shelf:
    """The values of one task that a coordinator holds until the driver's `Shelf` is collected.

    Copies of a `Shelf` in other processes do not keep the values.

    Args:
        actor: The coordinator.
        number: The number of the task.
        gone: A function that is called with actor and number when the values are no longer needed.
    """

    def __init__(
        self, actor: Any, number: int, gone: Callable[[tuple[Any, int]], None] | None = None
    ) -> None:
        self.actor = actor
        self.number = number
        if gone is not None:
            weakref.finalize(self, gone, (actor, number)).atexit = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Shelf, (self.actor, self.number)


class OnShelf(NamedTuple):
    """The place of one value."""

    shelf: Shelf
    position: int


Place: TypeAlias = "ray.ObjectRef[Any] | OnShelf"


def find(
    places: Sequence[Place], mine: Callable[[int, int], ray.ObjectRef[Any] | None] | None = None
) -> list[ray.ObjectRef[Any]]:
    """Returns references to values; asks each coordinator once.

    Args:
        places: Places of the values.
        mine: A function that looks up values in this process, by task number and position.

    Raises:
        ObjectLostError: A coordinator that held some of the values is gone.
    """
    found: list[Any] = list(places)
    asked: dict[Any, dict[int, tuple[int, int]]] = collections.defaultdict(dict)
    for index, place in enumerate(places):
        if isinstance(place, OnShelf):
            number = place.shelf.number
            found[index] = mine and mine(number, place.position)
            if found[index] is None:
                asked[place.shelf.actor][index] = number, place.position
    answers = [(those, actor.lend.remote(list(those.values()))) for actor, those in asked.items()]
    try:
        for those, answer in answers:
            for index, reference in zip(those, ray.get(answer), strict=True):
                found[index] = reference
    except ray.exceptions.RayActorError as error:
        raise lost() from error
    return found


def lost() -> BaseException:
    """Returns Ray's error for a lost value."""
    return ray.exceptions.ObjectLostError("", None, "")  # type: ignore[no-untyped-call]


def let_go(gone: Iterable[tuple[Any, int]]) -> None:
    """Tells coordinators which of their shelves are no longer needed."""
    numbers: dict[Any, list[int]] = collections.defaultdict(list)
    for actor, number in gone:
        numbers[actor].append(number)
    for actor, those in numbers.items():
        actor.let_go.remote(those)
