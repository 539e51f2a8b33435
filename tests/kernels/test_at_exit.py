"""Programs that exit while daemon threads are inside kernels."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WITHOUT_A_KERNEL = "empty", "num_threads", "simd_level"

# One daemon thread for each function: when all have called theirs once, they call again and again, and the
# program ends. Threads that did not wait for each other would slow the start of those after them.
PROGRAM = f"""
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
symbols = kernels.encode_symbols(levels, levels.size, bits=8)
body = kernels.sparse_body(k, code, values.view(np.uint8))
container = wire.frame(body, "topk/1", "float32", [n])
matrix, right = x.reshape(100, 500), x[:2000].reshape(500, 4)
left = kernels.matrix_times(matrix, right)
old, new = x.view(np.uint8), (x * 1.001).view(np.uint8)
difference = kernels.encode_difference(old, new, 4, 23)
zeros = lambda: np.zeros_like(x)

class Exporter:
    def __dlpack__(self, **options):
        return x.__dlpack__()

    def __dlpack_device__(self):
        return x.__dlpack_device__()

calls = dict(
    all_finite=lambda: kernels.all_finite(x),
    check_values=lambda: kernels.check_values(levels, n, "qsgd"),
    chunked_topk_residual=lambda: kernels.chunked_topk_residual(x, zeros(), 2, chunk=16),
    count_nonfinite=lambda: kernels.count_nonfinite(x, x),
    crc32=lambda: kernels.crc32(x),
    decode_difference=lambda: kernels.decode_difference(difference, old, np.empty_like(old), 4, 23),
    decode_indices=lambda: kernels.decode_indices(code, k, n),
    decode_symbols=lambda: kernels.decode_symbols(symbols, levels.size, bits=8),
    decode_values=lambda: kernels.decode_values(levels, n, "qsgd"),
    draw_indices=lambda: kernels.draw_indices(1, k, n),
    encode_difference=lambda: kernels.encode_difference(old, new, 4, 23),
    encode_indices=lambda: kernels.encode_indices(indices, n),
    encode_symbols=lambda: kernels.encode_symbols(levels, levels.size, bits=8),
    encode_values=lambda: kernels.encode_values(x, "qsgd"),
    encode_values_of_each=lambda: kernels.encode_values_of_each([x, x], "qsgd"),
    finite_from_bytes=lambda: kernels.finite_from_bytes(x.view(np.uint8), x.dtype),
    frame=lambda: kernels.frame(body, header),
    frame_of_each=lambda: kernels.frame_of_each([body], [header]),
    frame_entries_of_each=lambda: kernels.frame_entries_of_each([indices], [n], [values], [header]),
    frame_symbols=lambda: kernels.frame_symbols(levels, 0, levels.size, header, bits=8),
    frame_values=lambda: kernels.frame_values(x, header, "qsgd"),
    from_dlpack=lambda: kernels.from_dlpack(Exporter()),
    grouped_topk_residual=lambda: kernels.grouped_topk_residual([x, x], [zeros(), zeros()], k),
    low_rank_matrix=lambda: kernels.low_rank_matrix(left, right),
    low_rank_residual=lambda: kernels.low_rank_residual(matrix, left, right),
    matrix_times=lambda: kernels.matrix_times(matrix, right),
    pack_symbols=lambda: kernels.pack_symbols(levels & 15, 4),
    random_uniform=lambda: kernels.random_uniform(n, 1, 2),
    random_words=lambda: kernels.random_words(n, 1, 2),
    read_entries=lambda: kernels.read_entries(body, n, x.dtype),
    scatter_decode=lambda: kernels.scatter_decode(values, indices, size=n),
    scatter_decode_add=lambda: kernels.scatter_decode_add(zeros(), values, indices),
    sparse_body=lambda: kernels.sparse_body(k, code, values.view(np.uint8)),
    split_sparse_body=lambda: kernels.split_sparse_body(body, n),
    gather=lambda: kernels.gather(x, indices),
    take_from_sum=lambda: kernels.take_from_sum(x, zeros(), indices),
    topk_residual=lambda: kernels.topk_residual(x, zeros(), k),
    unframe=lambda: kernels.unframe(container),
    unpack_symbols=lambda: kernels.unpack_symbols(levels, 2 * levels.size, 4),
)
assert calls.keys() == set(kernels.__all__) - {set(WITHOUT_A_KERNEL)}

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
    for call in [*calls.values(), refused]:
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
