"""What tests/conftest.py does when processes share the tests and one of them dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"

DEADLY = """
import os

def test_before(): pass
def test_deadly(): os._exit(1)
def test_after(): pass
"""


@pytest.mark.slow
def test_a_test_that_ends_its_process_fails_and_all_others_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_deadly.py").write_text(DEADLY)
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text("def test(): pass")
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", "2"]
    done = subprocess.run(pytest, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert "1 failed, 4 passed" in done.stdout
