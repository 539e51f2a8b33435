"""Over-sampling: a round asks more clients than it needs, and does not wait for the rest.

Bonawitz et al., "Towards Federated Learning at Scale: System Design" (MLSys 2019), ask 1.3 times as many, as
does FedScale (Lai et al., ICML 2022). Both take whoever is done first, which prefers fast clients, and gives
other results every time; here that is `first="done"`, and not the default.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.runtime import Candidates

__all__ = ["OverSampling", "asked", "with_participation"]


@dataclass(frozen=True)
class OverSampling:
    """Asks more clients than a round needs.

    Clients that were asked and did not take part are as if they had not been sampled: nothing of them is in
    the model, and their states, residuals included, stay what they were.

    Attributes:
        extra: How many more are asked, as a fraction of those needed, rounded up.
        first: `"order"`: a round takes the clients that would be sampled without over-sampling; where their
            workers died or took too long (`slice_timeout`, `retries`), it takes the next ones in a seeded
            order. If none fails, training has the bits of one without over-sampling; if some do, the bits
            follow from which. `"done"`: a round takes those that are done first. Bits depend on timing; the
            metrics of the round say how many took part, its metadata in the store who.
    """

    extra: float = 0.3
    first: str = "order"

    def __post_init__(self) -> None:
        if not self.extra > 0:
            raise ConfigError(f"extra is {self.extra!r}; it must be above 0")
        if self.first not in ("done", "order"):
            raise ConfigError(f"first must be 'done' or 'order', found {self.first!r}")

    def reserve(self, needed: int) -> int:
        """How many more clients are asked."""
        return math.ceil(needed * self.extra)


def asked(data: list[Any], needed: int, over_sampling: OverSampling) -> list[Any]:
    """The data of the clients that are asked: of the needed ones only, where the runtime takes no others."""
    context = tff.framework.get_context_stack().current
    if not getattr(context, "takes_candidates", False):
        return data[:needed]
    return Candidates(data, needed, over_sampling.first)


def with_participation(
    metrics: Mapping[str, Any], candidates: Candidates, ids: list[str]
) -> tuple[Mapping[str, Any], dict[str, list[str]]]:
    """The metrics of a round with how many of the candidates took part; and which did, and which did not."""
    positions = range(len(ids)) if candidates.took_part is None else candidates.took_part
    took_part = [ids[position] for position in positions]
    left_out = sorted({*ids} - {*took_part})
    participation = collections.OrderedDict(asked=np.int32(len(ids)), took_part=np.int32(len(took_part)))
    with_it = collections.OrderedDict(metrics, participation=participation)
    return with_it, {"took_part": took_part, "left_out": left_out}
