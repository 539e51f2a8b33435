"""The programs of the README run, each as it says; and the examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import character_model
import pytest
from standard_library import read_text

PACKAGE = Path(__file__).parents[1]
TORCHRUN = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"


def run(*command, cwd, **environment):
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("number", "launcher", "says"),
    [(0, (), ""), (1, TORCHRUN, "rank 1 sent "), (2, TORCHRUN, "rank 1: exchange 5, ")],
    ids=["tensors", "DDP", "outer steps"],
)
def test_a_program_of_the_readme_runs(tmp_path, number, launcher, says):
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "train.py").write_text(blocks[number], encoding="utf-8")
    assert says in run(*launcher, "train.py", cwd=tmp_path)


def test_the_example_for_ddp_goes_on_from_its_checkpoint(tmp_path):
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    command = PACKAGE / "examples/ddp_digits.py", "--checkpoint", "saved", "--steps"
    first = run(*command, "20", cwd=tmp_path, **alone)
    again = run(*command, "20", cwd=tmp_path, **alone)
    assert first == again  # no step was left to take
    assert first.startswith("rank 0: ")


def test_the_character_model_learns_with_every_method(tmp_path, monkeypatch):
    monkeypatch.setattr(character_model, "EVALUATE_EVERY", 12)
    text = read_text(2)
    curves = {name: character_model.run(method, text, 12) for name, method in character_model.METHODS.items()}
    for name, (before, after) in curves.items():
        assert after.loss < before.loss - 0.05, name
        assert after.bytes_sent > 0
    rows = character_model.table(curves).splitlines()
    assert len([row for row in rows if row.startswith("| ")]) == 2 + len(curves)
    character_model.plot(curves, tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_the_character_model_has_the_same_numbers_every_time():
    text = read_text(2)
    method = character_model.METHODS["SparseLoCo-like"]
    assert character_model.run(method, text, 24) == character_model.run(method, text, 24)
