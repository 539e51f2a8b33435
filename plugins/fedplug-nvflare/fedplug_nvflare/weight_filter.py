"""The base of the filters: one set of weights in a message, and a place among the other filters of a task."""

from __future__ import annotations

from collections.abc import Iterator

from nvflare.apis.analytix import AnalyticsDataType
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FilterKey, FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.utils.analytix_utils import create_analytic_dxo, send_analytic_dxo

__all__ = ["COLLECTION", "WeightFilter", "leaves"]

COLLECTION = (
    "it is a collection of {}, as of SCAFFOLD with control variates, and fedplug keeps one residual and one "
    "model for each client; send the weights alone and the others in the meta, like NVFlare's ScaffoldRecipe"
)
"""The reason why a message is refused, with the number and kind of its parts."""


class WeightFilter(DXOFilter):
    """A filter of messages with one DXO of its kinds; a collection of several is refused.

    Filters that make payloads must be the last of a chain, and filters that read them the first: a filter of
    NVFlare on the wrong side would compute with bytes.
    """

    must_be = "last"
    """The place of the filter among those of a task: "first" or "last"."""

    def __init__(self, *kinds: str) -> None:
        """Takes the kinds of data to filter."""
        super().__init__(supported_data_kinds=list(kinds), data_kinds_to_filter=list(kinds))

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Filters a message.

        Raises:
            ValueError: It has several DXOs to filter.
        """
        found = [leaf.data_kind for leaf in leaves(shareable) if leaf.data_kind in self.data_kinds]
        if len(found) > 1:
            raise ValueError(COLLECTION.format(f"{len(found)} DXOs ({', '.join(map(str, found))})"))
        filtered: Shareable = super().process(shareable, fl_ctx)
        return filtered

    def track_bytes(self, direction: str, sent: int, round_num: int, fl_ctx: FLContext) -> None:
        """Sends the bytes of a round to NVFlare's experiment tracking, as a scalar of fedplug.

        Args:
            direction: "uplink" or "downlink", for the scalar ``fedplug/uplink_bytes`` or the other one.
            sent: Number of bytes.
            round_num: Number of the round.
            fl_ctx: The context of the filter.
        """
        name = f"fedplug/{direction}_bytes"
        scalar = create_analytic_dxo(name, sent, AnalyticsDataType.SCALAR, global_step=round_num)
        send_analytic_dxo(self, scalar, fl_ctx)

    def chains(self, fl_ctx: FLContext) -> Iterator[tuple[str, list[Filter]]]:
        """Yields the names of the tasks that have this filter, and all filters of each in their order."""
        runner = fl_ctx.get_prop(FLContextKey.RUNNER)
        config = getattr(runner, "config", runner)
        for table in ("task_data_filters", "task_result_filters"):
            for key, chain in (getattr(config, table, None) or {}).items():
                if any(one is self for one in chain):
                    yield key.partition(FilterKey.DELIMITER)[0], chain

    def misplaced(self, fl_ctx: FLContext) -> str | None:
        """Returns the reason why this filter cannot work where it is. None if it can."""
        for task, chain in self.chains(fl_ctx):
            place = next(i for i, one in enumerate(chain) if one is self)
            others = chain[:place] if self.must_be == "first" else chain[place + 1 :]
            names = [type(one).__name__ for one in others if self._has_its_kinds(one)]
            if names:
                return (
                    f"{type(self).__name__} must be the {self.must_be} filter of task {task!r}, and "
                    f"{', '.join(names)} would get its payloads in place of arrays; change the order in "
                    "which the recipe adds them"
                )
        return None

    def _has_its_kinds(self, other: object) -> bool:
        kinds = other.data_kinds if isinstance(other, DXOFilter) else self.data_kinds
        is_of_weights = not kinds or bool(set(kinds) & set(self.data_kinds))
        return isinstance(other, DXOFilter) and is_of_weights


def leaves(message: object) -> list[DXO]:
    """Returns the DXOs in a message. None if it has none, whatever it is."""
    try:
        return list(_leaves(from_shareable(message)))
    except Exception:  # untrusted content of any form, which NVFlare's filters pass on
        return []


def _leaves(dxo: object) -> Iterator[DXO]:
    if isinstance(dxo, DXO) and dxo.data_kind == DataKind.COLLECTION:
        for inner in dxo.data.values():
            yield from _leaves(inner)
    elif isinstance(dxo, DXO):
        yield dxo
