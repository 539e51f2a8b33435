"""The parts fedplug ships, declared through the same hooks as everybody's.

Must import nothing but specs: the classes are named by strings.
"""

from __future__ import annotations

from fedplug.hookspecs import hookimpl
from fedplug.spec import AggregatorSpec, EncoderSpec, StoreSpec

__all__ = ["fedplug_aggregators", "fedplug_encoders", "fedplug_stores"]


@hookimpl
def fedplug_encoders() -> list[EncoderSpec]:
    """The built-in encoders."""
    return [
        EncoderSpec(
            name="identity",
            target="fedplug.encoders.identity:Identity",
            summary="the tensor as it is, lossless",
        ),
        EncoderSpec(
            name="topk",
            target="fedplug.encoders.topk:TopK",
            summary="the k entries of largest magnitude, with error feedback",
        ),
    ]


@hookimpl
def fedplug_aggregators() -> list[AggregatorSpec]:
    """The built-in aggregators."""
    return [
        AggregatorSpec(
            name="mean",
            target="fedplug.aggregators.mean:Mean",
            summary="the weighted mean of the clients' updates",
        ),
    ]


@hookimpl
def fedplug_stores() -> list[StoreSpec]:
    """The built-in client-state stores."""
    return [
        StoreSpec(
            name="memory",
            target="fedplug.stores.memory:MemoryStore",
            summary="in this process, gone when it ends",
        ),
        StoreSpec(
            name="sqlite",
            target="fedplug.stores.sqlite:SqliteStore",
            summary="a folder on disk, survives restarts, checksummed",
        ),
    ]
