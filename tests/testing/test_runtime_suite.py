"""Tests that each runtime check fails for the runtime made to break it, and for no other."""

from __future__ import annotations

from fedplug.testing import RuntimeSuite
from fedplug.tff.runtime import create_sync_execution_context
from fedplug.tff.runtime.native.context import create_native_execution_context

BAD_PLUGINS = "runtimes"


class TestInProcess(RuntimeSuite):
    def make_runtime(self):
        return create_sync_execution_context()


class TestNative(RuntimeSuite):
    def make_runtime(self):
        return create_native_execution_context()


def suite_of(runtime):
    class Suite(RuntimeSuite):
        def make_runtime(self):
            return runtime()

    return Suite


def test_a_bad_runtime_fails_exactly_the_check_it_was_made_for(check, bad, failures):
    failed = failures(suite_of(bad))
    assert set(failed) == {check}, failed
    assert all(failed.values())


def test_there_is_a_bad_runtime_for_every_check(bad_plugins):
    assert {check for check, _ in bad_plugins(BAD_PLUGINS).BAD} == set(RuntimeSuite.checks())
