"""Tests that a check that ends its process is a failure with a name."""

from __future__ import annotations

import ctypes
import os
import sys

import numpy as np
import pytest

from fedplug.testing.child import guarded, in_child
from fedplug.testing.expect import ConformanceError

MIB = 2**20


def read(address):
    return ctypes.string_at(address, 1)


def fails_with(check):
    with pytest.raises(ConformanceError) as caught:
        in_child(check)
    return str(caught.value)


def test_a_crash_is_named_by_what_was_tried():
    def check(say):
        say("a good payload")
        say("a bad payload")
        read(8)

    assert fails_with(check) == "a bad payload ends the process: Segmentation fault"


def test_an_exit_and_an_exception_are_failures_too():
    assert fails_with(lambda say: (say("x"), os._exit(3))) == "x ends the process: exit status 3"
    assert fails_with(lambda say: [][1]) == "IndexError: list index out of range"


def test_a_check_that_passes_leaves_nothing_behind():
    changed = []
    in_child(changed.append)
    assert not changed


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (5000,)])
def test_memory_before_and_behind_a_guarded_array_cannot_be_read(shape):
    array = np.ones(shape, np.float32)

    def check(say):
        for copy, where in guarded(array):
            assert copy.tobytes() == array.tobytes()
            assert copy.shape == shape
            say(where)
            read(copy.ctypes.data + (copy.nbytes if where == "before unreadable memory" else -1))

    message = fails_with(check)
    assert message == "before unreadable memory ends the process: Segmentation fault"
    behind = list(guarded(array))[1][0]
    assert "Segmentation" in fails_with(lambda say: read(behind.ctypes.data - 1))


MEASURE = """
import ctypes
from fedplug.testing import memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
for _ in range(2):  # also when the process had as much before
    print(memory.of_arrays(lambda: libc.free(libc.malloc(2**26))))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the address space is that of Linux")
def test_memory_that_a_kernel_allocates_is_counted(python):
    # In a new process: malloc serves the request from freed memory where a process has as much of it.
    first, second = map(int, python("-c", MEASURE).stdout.split())
    assert 64 * MIB <= first < 66 * MIB
    assert 64 * MIB <= second < 66 * MIB


PLUGIN = """
import ctypes
from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import ScheduleSpec

@hookimpl
def fedplug_schedules():
    return [ScheduleSpec(name="one", target="crash_part:one", summary="x")]
"""
PART = """
import ctypes
from fedplug.schedules import Constant

class one(Constant):
    name = "one"
    def __init__(self):
        super().__init__(0.5)
    def get_config(self):
        return {}
    def at(self, round_num):
        return float(ctypes.string_at(8, 1)[0])
"""


def test_the_command_names_a_check_that_crashes_after_those_before_it(tmp_path, install, python):
    metadata = "Summary: x\nRequires-Dist: fedplug\nRequires-Python: >=3.10\n"
    install("crash", PLUGIN, metadata=metadata)
    (tmp_path / "crash_part.py").write_text(PART)
    command = ("-m", "fedplug", "plugins", "check", "crash")
    done = python(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path), TF_CPP_MIN_LOG_LEVEL="3")
    assert done.returncode == 1, done.stderr
    crash = "every value is a finite number"
    assert done.stdout.count(f"  fail  {crash}\n        ends the process: Segmentation fault\n") == 1
    assert done.stdout.count("  ok  ") > 5
    last = f"checks: failed: schedule one: {crash}; the checks after it did not run"
    assert done.stdout.splitlines()[-1] == last


def test_handlers_of_grpc_do_not_run_beside_the_checks():
    """With them, a process that had run TFF's worker crashed within some hundred forks."""
    assert os.environ["GRPC_ENABLE_FORK_SUPPORT"] == "0"
