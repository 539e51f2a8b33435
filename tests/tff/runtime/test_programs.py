"""Tests that small programs in the manner of TFF's tutorials give the stock worker's results."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_gives_the_results_of_the_stock_runtime(
    same_on_both: Callable[..., Any], program: Path
) -> None:
    spec = importlib.util.spec_from_file_location(program.stem, program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    same_on_both(module.main, 1e-5)  # compiled math of the two TensorFlow builds may differ in the last bit
