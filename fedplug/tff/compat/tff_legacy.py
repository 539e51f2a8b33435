"""Functions for names that TFF removed or reduced, on top of fedplug.

| was | is |
| --- | --- |
| `tff.learning.framework.build_encoded_broadcast_process` | `build_encoded_broadcast_process` |
| `tff.learning.framework.build_encoded_mean_process` | `build_encoded_mean_process` |
| `tff.utils.build_encoded_sum_process` | `build_encoded_sum_process` |
| `tff.learning.compression_aggregator`, with 8 bits for good | `compression_aggregator`, with any encoder |
| `tff.framework.sizing_executor_factory` and its `SizeInfo` | `size_info` |

Encoders are fedplug's; for those of `tensorflow_model_optimization` see `fedplug.tff.compat.tfmot`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff

from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE
from fedplug.errors import ConfigError
from fedplug.tff.process import build_aggregation_factory, build_encoded_distributor, build_sum_factory

__all__ = [
    "SizeInfo",
    "build_encoded_broadcast_process",
    "build_encoded_mean_process",
    "build_encoded_sum_process",
    "compression_aggregator",
    "size_info",
]


def build_encoded_broadcast_process(
    value_type: Any, encoder: Encoder | str, *, min_size: int = DEFAULT_MIN_SIZE
) -> Any:
    """Returns a `tff.learning.templates.DistributionProcess`, see `build_encoded_distributor`.

    TFF's process sent the whole encoded value in every round. This one counts only the changed entries if
    they are shorter.
    """
    return build_encoded_distributor(value_type, encoder, min_size=min_size)


def build_encoded_mean_process(
    value_type: Any, encoder: Encoder | str, *, min_size: int = DEFAULT_MIN_SIZE
) -> Any:
    """Returns a `tff.templates.AggregationProcess` for the mean of encoded values with float32 weights.

    ``next`` has the type ``(<S@SERVER,{V}@CLIENTS,{float32}@CLIENTS> -> <state=...,result=V@SERVER,
    measurements=...>)``. Raises as `fedplug.tff.process.build_aggregation_factory`.
    """
    factory = build_aggregation_factory(encoder, min_size=min_size)
    return factory.create(value_type, tff.TensorType(np.float32))


def build_encoded_sum_process(
    value_type: Any, encoder: Encoder | str, *, min_size: int = DEFAULT_MIN_SIZE
) -> Any:
    """Returns a `tff.templates.AggregationProcess` for the sum of encoded values.

    ``next`` has the type ``(<S@SERVER,{V}@CLIENTS> -> <state=...,result=V@SERVER,measurements=...>)``. Raises
    as `fedplug.tff.process.build_sum_factory`.
    """
    return build_sum_factory(encoder, min_size=min_size).create(value_type)


def compression_aggregator(
    encoder: Encoder | str = "qsgd(8)",
    *,
    zeroing: bool = True,
    clipping: bool = True,
    weighted: bool = True,
    min_size: int = DEFAULT_MIN_SIZE,
) -> Any:
    """Returns `tff.learning.compression_aggregator` with any encoder, for ``model_aggregator=``.

    The aggregator zeroes extremely large updates, clips large ones to an adaptive norm, applies weights,
    encodes and sums. The estimates begin and move as in TFF.

    Args:
        encoder: An encoder without client state. Its input is the update times its weight.
        zeroing: Whether to zero updates with an entry above twice the 0.98 quantile plus 1.
        clipping: Whether to clip updates to about the 0.8 quantile of the earlier norms.
        weighted: Whether the mean is weighted.
        min_size: Tensors with fewer elements are sent uncompressed.

    Raises:
        CapabilityError: The encoder needs client state.
        ConfigError: The expression is not valid.
    """
    follow = tff.aggregators.PrivateQuantileEstimationProcess.no_noise
    total = build_sum_factory(encoder, min_size=min_size)
    mean = tff.aggregators.MeanFactory if weighted else tff.aggregators.UnweightedMeanFactory
    factory = mean(value_sum_factory=total)
    if clipping:
        norm = follow(initial_estimate=1.0, target_quantile=0.8, learning_rate=0.2)
        factory = tff.aggregators.clipping_factory(norm, factory)
    if zeroing:
        norm = follow(
            initial_estimate=10.0,
            target_quantile=0.98,
            learning_rate=math.log(10.0),
            multiplier=2.0,
            increment=1.0,
        )
        factory = tff.aggregators.zeroing_factory(norm, factory)
    return factory


class SizeInfo(NamedTuple):
    """The traffic of each round, summed over the clients, in bits as in TFF.

    Attributes:
        broadcast_bits: Bits from the server to the clients; 0 if the process does not count them.
        aggregated_bits: Bits from the clients to the server.
    """

    broadcast_bits: list[int]
    aggregated_bits: list[int]

    def __str__(self) -> str:
        """Returns one line for people."""
        down, up = (sum(bits) / 8 for bits in self)
        rounds = max(len(self.broadcast_bits), 1)
        return (
            f"{len(self.broadcast_bits)} rounds: {down:,.0f} bytes down, {up:,.0f} bytes up; "
            f"{(down + up) / rounds:,.0f} bytes a round"
        )


def size_info(metrics: Iterable[Mapping[str, Any]]) -> SizeInfo:
    """Counts the bits of rounds from their metrics, however deep the aggregators are nested.

    TFF's sizing executor measured every value to or from a client. fedplug's aggregators and distributors
    count their own bytes, ``uplink_bytes`` and ``downlink_bytes``.

    Args:
        metrics: The metrics (or measurements) of ``next``, one for each round.

    Raises:
        ConfigError: A round's metrics hold neither.
    """
    down, up = [], []
    for number, of_round in enumerate(metrics):
        found = {key: list(_find(of_round, key)) for key in ("downlink_bytes", "uplink_bytes")}
        if not any(found.values()):
            raise ConfigError(
                f"the metrics of round {number} count no bytes: use an aggregator or a distributor of "
                "fedplug.tff.process, for instance build_aggregation_factory or build_distributor"
            )
        down.append(8 * sum(found["downlink_bytes"]))
        up.append(8 * sum(found["uplink_bytes"]))
    return SizeInfo(down, up)


def _find(value: Any, key: str) -> Iterable[int]:
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from [int(np.asarray(member))] if name == key else _find(member, key)
