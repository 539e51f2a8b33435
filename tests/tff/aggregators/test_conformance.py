"""Runs the aggregator suite on the built-in aggregators."""

from __future__ import annotations

from fedplug.testing import AggregatorSuite
from fedplug.tff.aggregators import Mean, MemoryMean, Sum


class TestMean(AggregatorSuite):
    def make_aggregator(self):
        return Mean()


class TestUniformMean(AggregatorSuite):
    def make_aggregator(self):
        return Mean(weights="uniform")


class TestSum(AggregatorSuite):
    weights_are_relative = False

    def make_aggregator(self):
        return Sum()


class TestMemoryMean(AggregatorSuite):
    def make_aggregator(self):
        return MemoryMean(5)
