"""What the two files conftest.py make of a run of the tests: which tests run, and what a failure says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW = """
import pytest

def test_quick(): pass

@pytest.mark.slow
def test_slow(): pass

class TestSuite:
    costly_checks_are_slow = True
    def test_hostile_bytes_do_not_take_memory(self): pass
    def test_another_check(self): pass
"""
FAILING = """
import subprocess, sys
import pytest

@pytest.fixture
def server():
    program = "import sys; print('no space'); sys.exit('left on device')"
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

def test_it(server): pass
"""
DEADLY = """
import os

def test_before(): pass
def test_deadly(): os._exit(1)
def test_after(): pass
"""
NEEDS = """
import pytest

JINJA2 = pytest.param("jinja2", marks=pytest.mark.needs("jinja2"))

@pytest.mark.parametrize("execution", ["numpy", JINJA2])
def test_on(execution): pass

def test_skipped(): pytest.skip("not here")

@pytest.mark.slow
def test_slow(): pass
"""

SUITE = """
from fedplug.testing.execution import NumPy
from fedplug.testing.executions import on_each_execution

class TestIt:
    def executions(self): return [NumPy()]

    @on_each_execution
    def test_on_each(self): pass

    def test_of_values(self): pass
"""


def run(folder: Path, conftest: Path, *arguments: str, missing: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(conftest.read_text())
    options = ["-p", "no:cacheprovider", *arguments]
    program = f"import sys, pytest; sys.modules[{missing!r}] = None; sys.exit(pytest.main({options}))"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return dict(re.findall(r"^\S+::(\S+) ([A-Z]+)", done.stdout, re.MULTILINE))


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ([], ("2 slow tests left to `make test-thorough`", "2 passed")),
        (["--slow"], ("4 passed",)),
        (["test_both.py"], ("4 passed",)),
        (["test_both.py::test_slow"], ("1 passed",)),
    ],
    ids=["all", "--slow", "a file", "a test"],
)
def test_slow_tests_run_where_they_are_asked_for(tmp_path, arguments, outcome):
    (tmp_path / "test_both.py").write_text(SLOW)
    done = run(tmp_path, ROOT / "conftest.py", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(line in done.stdout for line in outcome)
    assert ("left to" in done.stdout) == (not arguments)


def test_the_two_runs_of_make_test_run_every_test_and_only_those_twice_that_try_more(tmp_path):
    (tmp_path / "test_needs.py").write_text(NEEDS)
    (tmp_path / "test_other.py").write_text("import jinja2\ndef test_imported(): pass")
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "test_command.py").write_text('def test_command(): assert ["fedplug", "doctor"]')
    without = run(tmp_path, ROOT / "conftest.py", "-v", "--slow", "--save-passed", "p", missing="jinja2")
    with_it = run(tmp_path, ROOT / "conftest.py", "-v", "--omit-passed", "p")
    assert outcomes(without) == {
        "test_on[numpy]": "PASSED",
        "test_slow": "PASSED",
        "test_skipped": "SKIPPED",
        "test_on_each": "PASSED",
        "test_of_values": "PASSED",
        "test_command": "PASSED",
    }
    assert outcomes(with_it) == {
        "test_on[jinja2]": "PASSED",
        "test_imported": "PASSED",
        "test_on_each": "PASSED",
        "test_command": "PASSED",
        "test_skipped": "SKIPPED",
    }


def test_a_program_that_a_test_starts_and_that_fails_is_shown_with_its_output(tmp_path):
    (tmp_path / "test_it.py").write_text(FAILING)
    done = run(tmp_path, ROOT / "conftest.py")
    assert done.returncode == 1
    for said in ("\nno space\n", "\nleft on device\n"):
        assert said in done.stdout


@pytest.mark.slow
def test_a_test_that_ends_its_process_fails_and_all_others_run(tmp_path):
    (tmp_path / "test_deadly.py").write_text(DEADLY)
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text("def test(): pass")
    done = run(tmp_path, ROOT / "tests" / "conftest.py", "--numprocesses", "2")
    assert "1 failed, 4 passed" in done.stdout
