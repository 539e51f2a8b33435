"""The Python in docs/observe.md runs, in order, as one program, and needs no TensorFlow."""

from __future__ import annotations

import numpy as np
from pages import ROOT, blocks, printed

import fedplug
from fedplug.cli import _parser

PAGE = (ROOT / "docs" / "observe.md").read_text(encoding="utf-8")


def test_the_examples_run_one_after_the_other_without_tensorflow(tmp_path):
    program = blocks(PAGE, "python")
    assert len(program) == 2
    checks = ["assert 'dense/kernel/nmse' in numbers", "import sys", "assert 'tensorflow' not in sys.modules"]
    assert printed([*program, *checks], tmp_path).startswith("dense/kernel ")


def test_every_number_of_a_tensor_is_in_the_table():
    metrics = fedplug.TensorMetrics()
    fedplug.codec("topk(0.1)").encode_model({"x": np.ones(100)}, metrics=metrics)
    assert [key for key in metrics.value()["x"] if f"| `{key}` |" not in PAGE] == []


def test_every_option_of_watch_exists():
    arguments = _parser().parse_args(["watch", "--once", "runs/digits"])
    assert arguments.once
    assert "`--once`" in PAGE
