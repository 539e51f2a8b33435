"""What the report of a failed test says, by the conftest.py of the root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[2] / "conftest.py"
TESTS = """
import subprocess, sys
import pytest

@pytest.fixture
def server():
    program = "import sys; print('no space'); sys.exit('left on device')"
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

def test_it(server): pass
"""


def test_a_program_that_a_test_starts_and_that_fails_is_shown_with_its_output(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    for said in ("\nno space\n", "\nleft on device\n"):
        assert said in done.stdout
