"""The examples for trainers of other libraries train on two ranks, and resume with the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import rank_state_jobs

LENGTHS = {"lightning_digits": 3, "accelerate_digits": 11, "trainer_callback": 11, "peft_adapters": 11}
"""Epochs or steps of each example."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Returns the names of the files of examples that resumed with the same bits, and the errors."""
    folder = tmp_path_factory.mktemp("examples")
    torchrun = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"
    program = str(Path(__file__).with_name("resume_examples.py"))
    done = subprocess.run(
        [
            sys.executable,
            *torchrun,
            program,
            str(folder),
            *(f"{n}={length}" for n, length in LENGTHS.items()),
        ],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return {path.name for path in folder.glob("* on rank *")}, done.stderr


@pytest.mark.parametrize("example", LENGTHS)
def test_an_example_resumes_with_the_same_bits(example, finished):
    names, errors = finished
    assert {f"{example} on rank 0", f"{example} on rank 1"} <= names, errors[-5000:]


def test_the_states_of_all_ranks_are_one_dictionary(start):
    (saved, _), (empty, _) = start(2).run(rank_state_jobs.gathered)
    assert empty == {}
    assert {key.partition("/")[0] for key in saved} == {"rank 0", "rank 1"}
    for _, error in start(2).run(rank_state_jobs.gathered, saved):
        assert error is None
    for rank, (_, error) in enumerate(start(4).run(rank_state_jobs.gathered, saved)):
        refused = f"the state is of rank {rank} of 2" if rank < 2 else f"no state for rank {rank} of 4"
        assert error.startswith("StateError: ")
        assert refused in error


def test_ranks_without_a_part_join_outer_steps(start):
    (saved, _), _ = start(2).run(rank_state_jobs.gathered_outer_steps)
    for rank, (_, (outer_step, has_residuals)) in enumerate(
        start(4).run(rank_state_jobs.gathered_outer_steps, saved)
    ):
        assert outer_step == 2
        assert has_residuals == (rank < 2)
