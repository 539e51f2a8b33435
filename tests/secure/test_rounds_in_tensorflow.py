"""Clients and server in TensorFlow's graphs have the bits of NumPy, so both may take part in one round."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.secure.rounds import Rounds

tf = pytest.importorskip("tensorflow")

CONFIGURATIONS = [
    {},
    {"bits": 24},
    {"bits": 8},
    {"max_weight": 50.0},
    {"rank": 1},
    {"rank": 1, "bits": 8, "max_weight": 50.0},
]


def same_bits(ours, theirs):
    ours, theirs = np.asarray(ours), theirs.numpy()
    return ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_vectors_residuals_sums_and_states_are_those_of_numpy(configuration):
    encoder = fedplug.encoder("sharedk", fraction=0.1, clients=5, **configuration)
    rounds = Rounds(encoder, [(20, 30), (), (30,), (7, 9, 10)])
    encode, decode = (tf.function(f, autograph=False) for f in (rounds.encode, rounds.decode))
    rng, server = np.random.default_rng(1), rounds.init_server()
    residuals = [np.zeros(rounds.size, np.float32)] * 4
    for _ in range(6):
        message, total = server, 0
        for client, residual in enumerate(residuals):
            update = np.float32(rng.standard_t(2, rounds.size) * 10.0 ** rng.integers(-3, 3))
            arguments = update, residual, np.float32(rng.integers(1, 80)), message
            vector, residuals[client] = rounds.encode(*arguments)
            in_graph = encode(*tf.nest.map_structure(tf.constant, arguments))
            assert same_bits(vector, in_graph[0])
            assert same_bits(residuals[client], in_graph[1])
            total = total + vector
        summed, after = rounds.decode(total, server)
        in_graph = decode(*tf.nest.map_structure(tf.constant, (total, server)))
        assert all(map(same_bits, summed, in_graph[0]))
        assert all(same_bits(after[key], in_graph[1][key]) for key in after)
        server = after
