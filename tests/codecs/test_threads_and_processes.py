"""Tests one codec in many threads, and in forked and spawned processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import fedplug


@pytest.mark.parametrize(
    "expression", ["topk(0.05)", "topk(0.1) | qsgd(4) | rans", "sign", "qsgd(2)", "randomk(0.1)"]
)
def test_threads_that_share_a_codec_get_the_bits_of_one(expression):
    codec = fedplug.codec(expression)

    def rounds_of(client, results):
        state, payloads = None, []
        for round_num in range(4):
            x = np.random.default_rng([client, round_num]).standard_normal(3000 + client % 3)
            payload, state = codec.encode(x, state, round_num, in_place=client % 2 == 1)
            payloads.append((payload, fedplug.decode(payload, out=np.empty_like(x)).tobytes()))
        results[client] = payloads

    together: dict = {}
    threads = [threading.Thread(target=rounds_of, args=[client, together]) for client in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone: dict = {}
    for client in range(8):
        rounds_of(client, alone)
    assert together == alone


# The array is large enough for kernels to use several threads.
PROGRAM = """
import multiprocessing, zlib
import numpy as np
import fedplug

def checksum(seed):
    x = np.random.default_rng(seed).standard_normal(10_000_000, np.float32)
    payload, state = fedplug.codec("topk(0.001)").encode(x)
    return zlib.crc32(state["residual"], zlib.crc32(payload))

if __name__ == "__main__":
    expected = checksum(0)  # begins the threads of this process
    results = []
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            results += pool.map_async(checksum, [0, 0]).get(timeout=600)
    print(set(results) == {expected}, len(results))
"""


def test_processes_that_are_forked_or_spawned_get_the_same_bits(tmp_path):
    """Runs in a new process, because this one may hold threads that do not survive a fork."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env={**os.environ, "FEDPLUG_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert result.stdout == "True 4\n", result.stderr
