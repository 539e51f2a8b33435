"""The plugin meets fedplug's expectations of every plugin, and of every aggregator."""

from __future__ import annotations

import pytest
from fedplug_robust.krum import Krum
from fedplug_robust.order_statistics import Median, TrimmedMean

import fedplug
from fedplug.errors import ConfigError
from fedplug.testing import AggregatorSuite, PluginPackageSuite


class TestPackage(PluginPackageSuite):
    distribution = "fedplug-robust"


class TestMedian(AggregatorSuite):
    merge_tolerance = 0

    def make_aggregator(self):
        return Median(max_clients=6)


class TestTrimmedMean(AggregatorSuite):
    merge_tolerance = 0

    def make_aggregator(self):
        return TrimmedMean(0.2, max_clients=6)


class TestKrum(AggregatorSuite):
    merge_tolerance = 0

    def make_aggregator(self):
        return Krum(1, max_clients=6)


class TestMultiKrum(AggregatorSuite):
    merge_tolerance = 0

    def make_aggregator(self):
        return Krum(1, selected=3, max_clients=6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("median(max_clients=0)", "median max_clients is 0; it must be a whole number of at least 1"),
        ("trimmed_mean(0.5)", "trimmed_mean fraction is 0.5; it must be a number of at least 0 and below"),
        ("krum(-1)", "krum byzantine is -1; it must be a whole number of at least 0"),
        ("krum(1, selected=0)", "krum selected is 0; it must be a whole number of at least 1"),
    ],
)
def test_arguments_out_of_range_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        fedplug.aggregator(text)
