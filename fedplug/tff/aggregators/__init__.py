"""Aggregators: how the server turns the clients' payloads into one update. The contract is in `base`."""

from __future__ import annotations

from fedplug.tff.aggregators.base import Aggregator, Update
from fedplug.tff.aggregators.mean import Mean
from fedplug.tff.aggregators.memory_mean import MemoryMean
from fedplug.tff.aggregators.sum import Sum

__all__ = ["Aggregator", "Mean", "MemoryMean", "Sum", "Update"]
