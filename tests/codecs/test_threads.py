"""Tests one codec in many threads. test_copies.py has other processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fedplug


@pytest.mark.parametrize(
    "expression", ["topk(0.05)", "topk(0.1) | qsgd(4) | rans", "sign", "qsgd(2)", "randomk(0.1)"]
)
def test_threads_that_share_a_codec_get_the_bits_of_one(expression):
    codec = fedplug.codec(expression)

    def rounds_of(client):
        state, payloads = None, []
        for round_num in range(4):
            x = np.random.default_rng([client, round_num]).standard_normal(3000 + client % 3)
            payload, state = codec.encode(x, state, round_num, in_place=client % 2 == 1)
            payloads.append((payload, fedplug.decode(payload, out=np.empty_like(x)).tobytes()))
        return payloads

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(rounds_of, range(8)))
    assert together == list(map(rounds_of, range(8)))
