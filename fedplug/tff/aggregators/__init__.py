"""Aggregators: how the server turns the clients' payloads into one update. The contract is in `base`."""

from __future__ import annotations

from fedplug.tff.aggregators.base import Aggregator, Update
from fedplug.tff.aggregators.sums import Mean, MemoryMean, Sum

__all__ = ["Aggregator", "Mean", "MemoryMean", "Sum", "Update"]
