"""Programs that exit while daemon threads are inside kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "csrc" / "python"

# One daemon thread for each call: when all have called theirs once, they call again and again, and the
# program ends. Threads that did not wait for each other would slow the start of those after them.
PROGRAM = """
import os, signal, threading, time
import numpy as np
from fedplug import kernels, wire

n, k = 50_000, 5_000
x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
nan = np.full(n, np.nan, np.float32)
header = wire.header("topk/1", "float32", [n])
values, indices = kernels.topk_residual(x, None, k, residual_out=np.empty_like(x))
code = kernels.encode_indices(indices, n)
levels = kernels.encode_values(x, "qsgd")
body = kernels.sparse_body(k, code, values.view(np.uint8))
container = wire.frame(body, "topk/1", "float32", [n])
matrix, right = x.reshape(100, 500), x[:2000].reshape(500, 4)
old, new = x.view(np.uint8), (x * 1.001).view(np.uint8)
zeros = lambda: np.zeros_like(x)

# One or two of each source in csrc/python.
calls = [
    lambda: kernels.count_nonfinite(x, x),
    lambda: kernels.crc32(x),
    lambda: kernels.encode_difference(old, new, 4, 23),
    lambda: kernels.decode_indices(code, k, n),
    lambda: kernels.draw_indices(1, k, n),
    lambda: kernels.encode_symbols(levels, levels.size, bits=8),
    lambda: kernels.decode_values(levels, n, "qsgd"),
    lambda: kernels.encode_values_of_each([x, x], "qsgd"),
    lambda: kernels.finite_from_bytes(x.view(np.uint8), x.dtype),
    lambda: kernels.frame_entries_of_each([indices], [n], [values], [header]),
    lambda: kernels.frame_values(x, header, "qsgd"),
    lambda: kernels.grouped_topk_residual([x, x], [zeros(), zeros()], k),
    lambda: kernels.matrix_times(matrix, right),
    lambda: kernels.random_words(n, 1, 2),
    lambda: kernels.read_entries(body, n, x.dtype),
    lambda: kernels.scatter_decode(values, indices, size=n),
    lambda: kernels.take_from_sum(x, zeros(), indices),
    lambda: kernels.unframe(container),
]

def refused():
    try:
        kernels.topk_residual(nan, zeros(), k)
    except ValueError:
        pass

def again_and_again(call, done, go):
    call()
    done.set()
    go.wait()
    while True:
        call()

def leave_threads_in_kernels():
    done, go = [], threading.Event()
    for call in [*calls, refused]:
        done.append(threading.Event())
        threading.Thread(target=again_and_again, args=(call, done[-1], go), daemon=True).start()
    assert all(each.wait(60) for each in done)
    go.set()
    time.sleep(0.3)  # they are inside kernels

"""
IN_A_CHILD = """
leave_threads_in_kernels()
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
else:
    signal.alarm(60)
    leave_threads_in_kernels()
"""


@pytest.mark.parametrize(
    ("threads", "ending"), [("1", "leave_threads_in_kernels()"), ("3", IN_A_CHILD)], ids=["alone", "forked"]
)
def test_daemon_threads_inside_kernels_do_not_abort_a_program_that_ends(threads, ending):
    environment = {**os.environ, "FEDPLUG_NUM_THREADS": threads, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", PROGRAM + ending]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stderr) == (0, "")


def test_every_kernel_leaves_the_interpreter_by_the_same_class():
    """It waits forever at the end of a program, where pybind11's would abort."""
    assert not [path.name for path in SOURCES.iterdir() if "gil_scoped" in path.read_text(encoding="utf-8")]
