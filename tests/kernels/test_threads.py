"""Threads and processes: the environment is checked, and forks work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True
    )


@pytest.mark.parametrize("value", ["0", "two", "3 ", "9999"])
def test_a_number_of_threads_that_is_none_is_an_error_that_names_the_variable(value):
    result = run("from fedplug import kernels; kernels.num_threads()", FEDPLUG_NUM_THREADS=value)
    assert (
        f"ConfigError: FEDPLUG_NUM_THREADS is '{value}'; it must be an integer from 1 to 1024"
        in result.stderr
    )


def test_an_unknown_simd_level_is_an_error_on_first_use_that_names_the_known_ones():
    program = "import numpy as np; from fedplug import kernels as k; k.topk_residual(*np.zeros((2, 9)), 1)"
    message = "ConfigError: FEDPLUG_SIMD is 'sse9', which is no level; this processor has"
    assert message in run(program, FEDPLUG_SIMD="sse9").stderr


WITHOUT_MODULE = """
import sys
sys.modules["fedplug._kernels"] = None
import fedplug.kernels
"""


def test_a_missing_compiled_module_is_an_error_that_says_how_to_build_it():
    said = run(WITHOUT_MODULE).stderr
    assert said.startswith("fedplug.errors.OpLibraryError: fedplug was imported from the sources in ")
    assert "make setup" in said
    assert len(said.splitlines()) == 1
