"""Candidates: more clients than a round needs, so that it need not wait for slow or dead ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Candidate", "Candidates", "Request"]


@dataclass
class Request:
    """A round's request: the number of clients it needs, the preference, and later who took part."""

    needed: int
    first: str
    took_part: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One client's argument."""

    value: Any
    request: Request


class Candidates(list[Any]):
    """A list argument of a computation, with one value per client and more clients than it needs.

    The runtime must have `Runtime.takes_candidates`. It ends the computation when enough clients are done.
    For the computation and its results, the other clients did not take part.

    Args:
        values: One value per client, in order of preference.
        needed: Number of clients that the round needs.
        first: `"order"`: takes the first `needed` clients. The next ones replace clients whose workers died
            or took too long. The result depends on which clients failed, not on timing. `"done"`: takes the
            clients that are done first. The result depends on timing.
    """

    def __init__(self, values: Iterable[Any], needed: int | None = None, first: str = "order") -> None:
        if needed is None:  # TFF copies the list of an argument, with its elements alone
            super().__init__(values)
            self.request: Request = self[0].request
        else:
            self.request = Request(needed, first)
            super().__init__(Candidate(value, self.request) for value in values)

    @property
    def took_part(self) -> list[int] | None:
        """The positions of the clients that took part. None before the computation."""
        return self.request.took_part
