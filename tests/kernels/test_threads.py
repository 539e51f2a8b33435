"""Threads and processes: the environment is read once, forks work, and results do not depend on threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Prints one checksum over the results of large calls, after the number of threads that made them.
CHECKSUM = """
import numpy as np
from fedplug import kernels

random = np.random.default_rng(0)
n = 300_001
crc = 0
for dtype in (np.float32, np.float64):
    levels = random.integers(-9, 10, n).astype(dtype)
    for delta in (random.standard_normal(n).astype(dtype), levels):
        residual = random.standard_normal(n).astype(dtype) if delta is not levels else np.zeros(n, dtype)
        values, indices = kernels.topk_residual(delta, residual, n // 3)
        sums = residual.copy()
        splits = np.int64([0, 10, len(values)])
        kernels.scatter_decode_add(sums, values, indices, splits, np.array([0.3, 1.7], dtype))
        crc = kernels.crc32(np.uint32([crc, *(kernels.crc32(a) for a in (values, indices, residual, sums))]))
print(kernels.num_threads(), crc)
"""


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_the_result_does_not_depend_on_the_number_of_threads():
    printed = [run(CHECKSUM, FEDPLUG_NUM_THREADS=threads).stdout.split() for threads in ("1", "2", "5")]
    assert [threads for threads, _ in printed] == ["1", "2", "5"]
    assert len({crc for _, crc in printed}) == 1


@pytest.mark.parametrize("value", ["0", "two", "3 ", "9999"])
def test_a_number_of_threads_that_is_none_is_an_error_that_names_the_variable(value):
    result = run("from fedplug import kernels; kernels.num_threads()", FEDPLUG_NUM_THREADS=value)
    assert (
        f"ConfigError: FEDPLUG_NUM_THREADS is '{value}'; it must be an integer from 1 to 1024"
        in result.stderr
    )


FORK = """
import os, signal, threading
import numpy as np
from fedplug import kernels

def select():
    delta = np.arange(600_000, dtype=np.float32)
    return kernels.topk_residual(delta, np.zeros_like(delta), 3)[1].tolist()

def threads():
    return len(os.listdir("/proc/self/task"))

expected = select()  # starts the threads
stop = threading.Event()

def go_on():
    while not stop.is_set():
        select()

others = [threading.Thread(target=go_on) for _ in range(2)]
for other in others:
    other.start()
statuses = set()
for _ in range(10):  # while the other threads are in kernels
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        alone = threads() == 1
        os._exit(0 if alone and select() == expected and threads() == 3 else 1)
    statuses.add(os.waitpid(child, 0)[1])
stop.set()
for other in others:
    other.join()
print(statuses)
"""


def test_a_forked_child_begins_threads_of_its_own_whatever_the_parent_was_at():
    result = run(FORK, FEDPLUG_NUM_THREADS="3")
    assert result.stdout == "{0}\n", result.stderr


def test_the_kernels_are_imported_without_tensorflow():
    program = "import sys, fedplug.kernels; print([m for m in sys.modules if m.startswith('tensorflow')])"
    assert run(program).stdout == "[]\n"


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
