"""Tests running a suite with and without pytest."""

from __future__ import annotations

import re

import pytest

from fedplug.cli import main, plugins_check
from fedplug.testing import CannotRun, NotApplicable, Suite, run
from fedplug.testing.suite import after


class Base(Suite):
    def test_one_is_ok(self):
        pass


class Example(Base):
    def test_two_fails(self):
        raise AssertionError("one\nline")

    @after("test_two_fails")
    def test_three_waits_for_two(self):
        raise AssertionError("never run")

    @after("test_three_waits_for_two")
    def test_four_waits_for_three(self):
        raise AssertionError("never run")

    @after("test_one_is_ok")
    def test_five_breaks(self):
        return [][1]

    def test_six_does_not_apply(self):
        raise NotApplicable("not here")


def test_every_check_is_run_in_order_whatever_happens_in_another():
    results = {result.check: (result.status, result.reason) for result in run(Example)}
    status, reason = results["test_five_breaks"]
    assert re.fullmatch(r"IndexError: list index out of range \(.*test_suite\.py:\d+\)", reason)
    results["test_five_breaks"] = (status, "IndexError")
    assert list(results) == Example.checks()
    waits = "cannot be judged before this is mended: "
    assert list(results.values()) == [
        ("ok", ""),
        ("fail", "one line"),
        ("skip", waits + "two fails"),
        ("skip", waits + "three waits for two"),
        ("fail", "IndexError"),
        ("skip", "not here"),
    ]


def test_a_suite_that_cannot_be_made_fails_its_checks():
    class Unmade(Base):
        def __init__(self):
            raise OSError("no disk")

    (result,) = run(Unmade)
    assert (result.status, result.reason.startswith("OSError: no disk")) == ("fail", True)


def test_without_its_foundation_nothing_later_is_judged():
    class Unfounded(Example):
        foundation = "test_two_fails"

    statuses = [result.status for result in run(Unfounded)]
    assert statuses == ["ok", "fail", "skip", "skip", "skip", "skip"]


class Founded(Suite):
    foundation = "test_one"

    def test_one(self):
        raise AssertionError("no array")

    def test_two(self):
        pass

    def test_three(self):
        pass


class Elsewhere(Suite):
    def test_four(self):
        raise CannotRun("TensorFlow is not installed")

    def test_five(self):
        pass


def test_the_command_reports_waiting_tasks_in_one_line_and_counts_those_not_run(monkeypatch, capsys):
    suites = [("encoder a", Founded), ("encoder b", Elsewhere)]
    monkeypatch.setattr(
        plugins_check, "_checked", lambda *given: ((title, run(each)) for title, each in suites)
    )
    assert main(["plugins", "check", "a"]) == 1
    lines = [
        "encoder a",
        "  fail  one",
        "        no array",
        "  not run  2 checks that cannot run before this is fixed: one",
        "encoder b",
        "  not run  four",
        "        TensorFlow is not installed",
        "  ok    five",
        "",
        "checks: 1 passed, 3 did not run, 1 failed: encoder a: one (therefore these did not run: two, three)",
    ]
    assert capsys.readouterr().out.splitlines() == lines
    suites[:] = suites[1:]
    assert main(["plugins", "check", "b"]) == 0
    assert capsys.readouterr().out.endswith("\nchecks: 1 passed, 1 did not run\n")


def test_pytest_runs_the_checks_and_skips_those_that_do_not_apply(tmp_path, python):
    (tmp_path / "test_example.py").write_text(
        "from fedplug.testing import NotApplicable, Suite\n"
        "class TestExample(Suite):\n"
        "    def test_one(self): pass\n"
        "    def test_two(self): raise NotApplicable('not here')\n"
    )
    result = python("-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path, cwd=tmp_path)
    assert "1 passed, 1 skipped" in result.stdout


@pytest.mark.needs("fedplug.tff.aggregators")
def test_the_kit_needs_no_pytest_and_loads_only_requested_parts(python):
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import fedplug.testing\n"
        "assert not {'numpy', 'tensorflow'} & set(sys.modules)\n"
        "fedplug.testing.StateStoreSuite\n"
        "assert 'tensorflow' not in sys.modules\n"
        "fedplug.testing.EncoderSuite, fedplug.testing.AggregatorSuite, fedplug.testing.PluginPackageSuite\n"
        "assert 'tensorflow_federated' not in sys.modules\n"
    )
    assert python("-c", program).returncode == 0
