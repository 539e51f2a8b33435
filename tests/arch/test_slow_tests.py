"""Which runs leave out what is marked slow, as the conftest.py of the root says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[2] / "conftest.py"
TESTS = """
import pytest

def test_quick(): pass

@pytest.mark.slow
def test_slow(): pass
"""


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ([], ("1 slow tests left to `make test-thorough`", "1 passed")),
        (["--slow"], ("2 passed",)),
        (["test_both.py"], ("2 passed",)),
        (["test_both.py::test_slow"], ("1 passed",)),
    ],
    ids=["all", "--slow", "a file", "a test"],
)
def test_slow_tests_run_where_they_are_asked_for(tmp_path: Path, arguments, outcome) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_both.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(line in done.stdout for line in outcome)
    assert ("left to" in done.stdout) == (not arguments)
