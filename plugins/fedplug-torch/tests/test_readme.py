"""The programs of the README and the examples run as documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import character_model
import pytest
from standard_library import plot, read_text

PACKAGE = Path(__file__).parents[1]
# Printed if a Gloo thread still holds a tensor when the interpreter exits: one or two of 70 runs
# (pytorch/pytorch#179291, #190489).
ABORTED_AT_EXIT = "terminate called without an active exception"
TORCHRUN = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"


def blocks():
    found = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 5
    return found


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """Makes this process the only rank, as if torchrun had started it."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("place", [0, 1], ids=["tensors", "versions"])
def test_the_program_runs(place):
    exec(blocks()[place], {})


@pytest.mark.parametrize("block", [2, 3], ids=["DDP", "FSDP"])
def test_the_program_for_hooks_runs_with_torchrun(tmp_path, block):
    (tmp_path / "train.py").write_text(blocks()[block], encoding="utf-8")
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, *TORCHRUN, "train.py"],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if ABORTED_AT_EXIT not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    # Two processes write to one pipe, so lines may be mixed.
    assert sorted(re.findall(r"rank \d(?= sent )", done.stdout)) == ["rank 0", "rank 1"]


def test_the_program_for_outer_steps_runs(alone, capfd):
    exec(blocks()[4], {})
    assert "rank 0: exchange 5, " in capfd.readouterr().out


def test_the_character_model_learns_with_every_method(monkeypatch):
    monkeypatch.setattr(character_model, "EVALUATE_EVERY", 12)
    text = read_text(2)
    curves = {name: character_model.run(method, text, 12) for name, method in character_model.METHODS.items()}
    for name, (before, after) in curves.items():
        assert after.loss < before.loss - 0.05, name
        assert after.bytes_sent > 0
    rows = character_model.table(curves).splitlines()
    assert len([row for row in rows if row.startswith("| ")]) == 2 + len(curves)
    again = character_model.run(character_model.METHODS["SparseLoCo-like"], text, 12)
    assert again == curves["SparseLoCo-like"]


def test_curves_become_a_picture(tmp_path):
    plot({"dense": [(1e3, 3.0), (2e3, 2.0)], "few": [(10, 3.1)]}, {"dense"}, "bytes", tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").startswith("<?xml")
