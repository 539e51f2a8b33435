"""Runs examples on the ranks of torchrun: at once, and again with a checkpoint in the middle.

``torchrun --nproc-per-node 2 resume_examples.py FOLDER NAME=LENGTH ...`` leaves a file in the folder for each
rank and example that ends with the same bits. One process runs them all, because imports take seconds.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def require_same_bits(train, length, folder):
    whole = train(length, folder / "whole")
    train(length // 2 + 1, folder / "interrupted")
    resumed = train(length, folder / "interrupted")
    for one, other in zip(whole, resumed, strict=True):  # the model, and the state of its compression
        left, right = one.state_dict(), other.state_dict()
        assert left.keys() == right.keys()
        for key in left:
            assert torch.equal(left[key], right[key]), key
    assert 0 < whole[1].bytes_sent < whole[1].dense_bytes / 3


def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    for argument in sys.argv[2:]:
        name, _, length = argument.partition("=")
        try:
            require_same_bits(importlib.import_module(name).train, int(length), folder / name)
            (folder / f"{name} on rank {os.environ['RANK']}").touch()
        except Exception:
            traceback.print_exc()


if __name__ == "__main__":
    main()
