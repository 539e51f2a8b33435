"""More clients than a round needs, so that it need not wait for the slowest, or for one that died."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Candidate", "Candidates", "Request"]


@dataclass
class Request:
    """What is asked of a round: how many clients it needs, which first, and then which took part."""

    needed: int
    first: str
    took_part: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One client's argument."""

    value: Any
    request: Request


class Candidates(list[Any]):
    """One argument per client, given to a computation like any list: more clients than it needs.

    For runtimes that can end a computation when enough clients are done (`takes_candidates` of the context).
    To the computation, and in its results with one value per client, the others did not take part.

    Args:
        values: One per client, in order of preference.
        needed: How many clients are needed.
        first: `"order"`: the first `needed` in their order, but for those whose workers died or took too
            long; in their place come the following. The result depends on who failed, not on timing.
            `"done"`: those that are done first. The result depends on timing.
    """

    def __init__(self, values: Iterable[Any], needed: int | None = None, first: str = "order") -> None:
        if needed is None:  # TFF makes the lists of an argument anew, of their elements alone
            super().__init__(values)
            self.request: Request = self[0].request
        else:
            self.request = Request(needed, first)
            super().__init__(Candidate(value, self.request) for value in values)

    @property
    def took_part(self) -> list[int] | None:
        """After the computation, the positions of the clients that took part; before, None."""
        return self.request.took_part
