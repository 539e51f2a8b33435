"""Tests that each client uses one thread if clients fill the processors, with the bits of one thread."""

from __future__ import annotations

import functools
import inspect
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.graphs.inline_calls import can_call_inline
from fedplug.tff.runtime.inprocess.clients import ClientPool
from fedplug.tff.runtime.inprocess.invocation import Invocation

_PROCESSORS = len(os.sched_getaffinity(0))


def product(client: Any) -> tf.Tensor:
    """Multiplies float64 matrices, whose sums TensorFlow divides among its threads."""
    numbers = tf.random.stateless_normal([4, 200_000], [0, client], dtype=tf.float64)
    return tf.matmul(numbers, numbers, transpose_b=True)


def product_in_a_loop(client: Any) -> tf.Tensor:
    """Multiplies the last of two elements of a dataset."""
    clients = tf.data.Dataset.from_tensors(client).repeat(2)
    return clients.reduce(tf.zeros([4, 4], tf.float64), lambda _, one: product(one))


_ALONE = f"""
import sys
from typing import Any
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
{inspect.getsource(product)}
sys.stdout.buffer.write(product(0).numpy().tobytes())
"""


@pytest.mark.skipif(not can_call_inline(), reason="there is a GPU, or no op library")
def test_clients_that_fill_the_processors_have_the_bits_of_one_thread(on_inprocess):
    alone = subprocess.run([sys.executable, "-c", _ALONE], check=True, stdout=subprocess.PIPE).stdout
    for work in (product, product_in_a_loop):
        on_client = tff.tensorflow.computation(work, np.int32)
        products = tff.federated_computation(
            functools.partial(tff.federated_map, on_client), tff.FederatedType(np.int32, tff.CLIENTS)
        )
        for found in products([0] * _PROCESSORS):
            assert found.tobytes() == alone, work.__name__


@pytest.mark.parametrize(
    ("clients", "width", "one_thread"),
    [
        (_PROCESSORS, None, True),
        (_PROCESSORS + 5, _PROCESSORS + 1, True),
        (_PROCESSORS - 1, None, False),
        (_PROCESSORS, _PROCESSORS - 1 or 1, _PROCESSORS == 1),
    ],
)
def test_threads_are_left_to_other_clients_where_these_fill_the_processors(clients, width, one_thread):
    whole = Invocation("a round", clients, ClientPool(width))
    assert whole.one_thread is False  # the server's work before and after uses all threads
    assert whole.of(0).one_thread is one_thread
    assert whole.of(None).one_thread is one_thread
