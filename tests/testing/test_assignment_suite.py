"""Tests that each assignment check fails for the assignment made to break it, and for no other."""

from __future__ import annotations

import pytest

import fedplug
from fedplug.testing import AssignmentSuite, components

BAD_PLUGINS = "assignments"


def suite_of(make):
    class Suite(AssignmentSuite):
        def make_assignment(self):
            return make()

    return Suite


def test_a_good_one_passes_every_check(good, failures):
    assert not failures(suite_of(good))


def test_a_bad_one_fails_exactly_the_check_it_was_made_for(check, bad, failures):
    failed = failures(suite_of(bad))
    assert set(failed) == {check}, failed
    assert all(failed.values())


def test_there_is_a_bad_one_for_every_check(bad_plugins):
    assert {check for check, _ in bad_plugins(BAD_PLUGINS).BAD} == set(AssignmentSuite.checks())


@pytest.mark.parametrize(
    "text",
    [
        "rules({'*/bias': 'identity', 'dense/*': 'topk(0.1)', '*': 'qsgd(4) '})",
        "rules([{'dtype': 'bfloat16', 'encoder': 'topk(0.1)'}, {'encoder': 'identity'}])",
        "budget('stc(0.1)', 2000)",
        "budget('qsgd(4)', 2000)",
        'budget(\'rules({"*": "randomk(0.1)"})\', nmse=0.5)',
    ],
)
def test_those_that_come_with_fedplug_pass_every_check(text, failures):
    assert not failures(suite_of(lambda: fedplug.encoder(text)))


@pytest.mark.parametrize("text", ["rules({'*': 'topk(0.3)'})", "budget('topk(0.3)', 2000)"])
def test_the_check_command_finds_their_suite(text):
    assert issubclass(components.suite("encoder", text), AssignmentSuite)
