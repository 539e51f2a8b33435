"""Aggregators: how the server turns the clients' payloads into one update. The contract is in `base`."""

from __future__ import annotations

from fedplug.aggregators.base import Aggregator, Update
from fedplug.aggregators.mean import Mean
from fedplug.aggregators.memory_mean import MemoryMean
from fedplug.aggregators.sum import Sum

__all__ = ["Aggregator", "Mean", "MemoryMean", "Sum", "Update"]
