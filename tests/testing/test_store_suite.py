"""Tests that each store check fails for the store made to break it, and for no other."""

from __future__ import annotations

from fedplug.testing import StateStoreSuite

BAD_PLUGINS = "stores"


def suite_of(store):
    class Suite(StateStoreSuite):
        def make_store(self, folder):
            return store(folder)

    return Suite


def test_a_good_store_passes_every_check(good, failures):
    assert not failures(suite_of(good))


def test_a_bad_store_fails_exactly_the_check_it_was_made_for(check, bad, failures):
    failed = failures(suite_of(bad))
    assert set(failed) == {check}, failed
    assert all(failed.values())


def test_there_is_a_bad_store_for_every_check(bad_plugins):
    assert {check for check, _ in bad_plugins(BAD_PLUGINS).BAD} == set(StateStoreSuite.checks())
