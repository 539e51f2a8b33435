"""Over-sampling: a round asks more clients than it needs, and does not wait for the rest.

Bonawitz et al., "Towards Federated Learning at Scale: System Design" (MLSys 2019), ask 1.3 times as many, and
so does FedScale (Lai et al., ICML 2022). Both take the clients that finish first, which prefers fast clients
and is not reproducible. Here that is `first="done"`, which is not the default.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.runtime import Candidates
from fedplug.tff.structures import Structure

__all__ = ["OverSampling", "asked", "with_participation"]


@dataclass(frozen=True)
class OverSampling:
    """Asks more clients than a round needs.

    Clients that were asked but did not take part do not change the model, and their states, including
    residuals, stay the same.

    Attributes:
        extra: Additional clients as a fraction of the needed ones, rounded up.
        first: `"order"`: a round takes the clients that would be sampled without over-sampling. If their
            workers die or take too long (`client_timeout`, `retries`), it takes the next clients in a seeded
            order, so the bits depend only on which clients fail. `"done"`: a round takes the clients that
            finish first, so the bits depend on timing. The metrics of the round have the number of
            participants, and its metadata in the store has their ids.
    """

    extra: float = 0.3
    first: str = "order"

    def __post_init__(self) -> None:
        if not self.extra > 0:
            raise ConfigError(f"extra is {self.extra!r}; it must be above 0")
        if self.first not in ("done", "order"):
            raise ConfigError(f"first must be 'done' or 'order', found {self.first!r}")

    def reserve(self, needed: int) -> int:
        """Returns the number of additional clients."""
        return math.ceil(needed * self.extra)


def asked(data: list[tf.data.Dataset], needed: int, over_sampling: OverSampling) -> list[Structure]:
    """Returns the data of the asked clients; only of the needed ones if the runtime takes no candidates."""
    context = tff.framework.get_context_stack().current
    if not getattr(context, "takes_candidates", False):
        return data[:needed]
    return Candidates(data, needed, over_sampling.first)


def with_participation(
    metrics: Mapping[str, Structure], candidates: Candidates, ids: list[str]
) -> tuple[Mapping[str, Structure], dict[str, list[str]]]:
    """Adds the number of participants to the metrics, and returns which candidates took part."""
    positions = range(len(ids)) if candidates.took_part is None else candidates.took_part
    took_part = [ids[position] for position in positions]
    left_out = sorted({*ids} - {*took_part})
    participation = collections.OrderedDict(asked=np.int32(len(ids)), took_part=np.int32(len(took_part)))
    with_it = collections.OrderedDict(metrics, participation=participation)
    return with_it, {"took_part": took_part, "left_out": left_out}
