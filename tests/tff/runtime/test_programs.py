"""Tests that small programs in the manner of TFF's tutorials give the stock worker's results.

`make test-programs` runs all of them, and `make test` those that take few seconds.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
FAST = {"custom_process", "federated_analytics", "personalization", "shuffled_data"}


def marked(program: Path) -> Any:
    marks = [] if program.stem in FAST else [pytest.mark.slow]
    return pytest.param(program, id=program.stem, marks=marks)


@pytest.mark.parametrize("program", [marked(program) for program in PROGRAMS])
def test_a_program_gives_the_results_of_the_stock_runtime(
    same_on_both: Callable[..., Any], tmp_path: Path, program: Path
) -> None:
    folders = iter([tmp_path / "ours", tmp_path / "stock"])
    spec = importlib.util.spec_from_file_location(program.stem, program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # The compiled math of the two TensorFlow builds may differ in the last bit.
    same_on_both(lambda: module.main(next(folders)), 1e-5)
