"""Tests that each aggregator check fails for the aggregator made to break it, and for no other."""

from __future__ import annotations

from fedplug.testing import AggregatorSuite

BAD_PLUGINS = "aggregators"


def suite_of(aggregator):
    class Suite(AggregatorSuite):
        def make_aggregator(self):
            return aggregator()

    return Suite


def test_a_good_aggregator_passes_every_check(good, failures):
    assert not failures(suite_of(good))


def test_a_bad_aggregator_fails_exactly_the_check_it_was_made_for(check, bad, failures):
    failed = failures(suite_of(bad))
    assert set(failed) == {check}, failed
    assert all(failed.values())


def test_there_is_a_bad_aggregator_for_every_check(bad_plugins):
    assert {check for check, _ in bad_plugins(BAD_PLUGINS).BAD} == set(AggregatorSuite.checks())
