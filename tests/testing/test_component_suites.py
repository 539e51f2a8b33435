"""Tests that each check of a suite fails for the component made to break it, and for no other."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

import fedplug.testing
from fedplug.testing import AssignmentSuite, components

SUITES = {
    "assignments": ("AssignmentSuite", "make_assignment"),
    "schedules": ("ScheduleSuite", "make_schedule"),
    "stores": ("StateStoreSuite", "make_store"),
}
if find_spec("tensorflow_federated"):
    SUITES["aggregators"] = ("AggregatorSuite", "make_aggregator")
    SUITES["runtimes"] = ("RuntimeSuite", "make_runtime")

BAD_PLUGINS = tuple(SUITES)


def suite_of(kind, component):
    name, make = SUITES[kind]
    members = {make: lambda self, *folder: component(*folder)}
    return type("Suite", (getattr(fedplug.testing, name),), members)


@pytest.fixture(autouse=True)
def same_context_afterwards():
    """Restores TFF's default context, which bad runtimes leave closed."""
    tff = sys.modules.get("tensorflow_federated")  # an import would leave this file out without TFF
    before = tff and tff.framework.get_context_stack().current
    yield
    if tff:
        tff.framework.set_default_context(before)


def test_a_good_component_passes_every_check(kind, good, failures):
    assert not failures(suite_of(kind, good))


def test_a_bad_component_fails_exactly_the_check_it_was_made_for(kind, check, bad, failures):
    if kind == "schedules":
        pytest.importorskip("tensorflow")  # one check traces graphs
    failed = failures(suite_of(kind, bad))
    assert set(failed) == {check}, failed
    assert all(failed.values())


@pytest.mark.parametrize("kind", SUITES)
def test_there_is_a_bad_component_for_every_check(kind, bad_plugins):
    suite = getattr(fedplug.testing, SUITES[kind][0])
    assert {check for check, _ in bad_plugins(kind).BAD} == set(suite.checks())


@pytest.mark.parametrize(
    "example",
    [
        "constant(0.01)",
        "step([0.1, 0.03, 0.01], [10, 20])",
        "linear(0.1, 0.01, 20)",
        "exponential(0.25, 0.001, 4)",
        "cosine(0.1, 0.01, 20)",
    ],
)
def test_a_built_in_schedule_passes_every_check(example, failures):
    assert not failures(components.suite("schedule", example))


@pytest.mark.parametrize(
    "example",
    [
        "rules({'*/bias': 'identity', 'dense/*': 'topk(0.1)', '*': 'qsgd(4) '})",
        "rules([{'dtype': 'bfloat16', 'encoder': 'topk(0.1)'}, {'encoder': 'identity'}])",
        "budget('stc(0.1)', 2000)",
        "budget('qsgd(4)', 2000)",
        'budget(\'rules({"*": "randomk(0.1)"})\', nmse=0.5)',
    ],
)
def test_a_built_in_assignment_passes_every_check(example, failures):
    suite = components.suite("encoder", example)
    assert issubclass(suite, AssignmentSuite)
    assert not failures(suite)
