"""The Python in the README runs, in order, as one program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """
import numpy as np
import fedplug
kernel, bias = np.random.default_rng(0).normal(size=(300, 40)).astype(np.float32), np.ones(40, np.float32)
"""
README = Path(__file__).parents[2] / "README.md"


@pytest.mark.needs("tensorflow_federated")
def test_the_examples_run_one_after_the_other(tmp_path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5
    blocks[0] = f"{MODEL}\n{blocks[0]}"  # what all is about, of arrays that a reader has
    checks = ["process.next(process.initialize(), [client(0)])", "assert len(values) == 10_000"]
    program = "\n".join([*blocks, *checks])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "uplink_bytes" in done.stdout
