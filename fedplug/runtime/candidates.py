"""More clients than a round needs, so that it need not wait for the slowest, or for one that died."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Candidates"]


class Candidates(list[Any]):
    """One argument per client, given to a computation like any list: more clients than it needs.

    A runtime that can (`takes_candidates` of its context) ends the computation when enough clients are done;
    to the computation, and in its results with one value per client, the others did not take part. Other
    runtimes take them all.

    Args:
        values: One per client, in order of preference.
        needed: How many clients are needed.
        first: `"order"`: the first `needed` in their order, but for those whose workers died or took too
            long; in their place come the following. The result depends on who failed, not on timing.
            `"done"`: those that are done first. The result depends on timing.

    Attributes:
        took_part: After the computation, the positions of the clients that took part; None: all.
    """

    def __init__(self, values: Iterable[Any], needed: int, first: str = "order") -> None:
        super().__init__(values)
        self.needed = needed
        self.first = first
        self.took_part: list[int] | None = None
