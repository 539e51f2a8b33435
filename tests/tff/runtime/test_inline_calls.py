"""Tests functions that run in their caller's thread: results, release of kernels, one thread each."""

from __future__ import annotations

import gc
import os
import resource
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.eager import cancellation
from tensorflow.python.eager import context as eager_context

from fedplug.tff.runtime.graphs import inline_calls, registered_function, tensorflow_graphs
from fedplug.tff.runtime.graphs.inline_calls import InlineFunction, call_inline, can_call_inline
from fedplug.tff.runtime.inprocess.invocation import ClientPool, Invocation

pytestmark = pytest.mark.skipif(not can_call_inline(), reason="there is a GPU, or no op library")

_F32 = tf.TensorSpec([], tf.float32)

_PROCESSORS = len(os.sched_getaffinity(0))


def _made(function: Any, *specs: tf.TensorSpec) -> tuple[Any, InlineFunction]:
    """Returns the function, which must be kept alive, and a callable for it."""
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    signature = concrete.function_def.signature
    inputs, outputs = ([arg.type for arg in args] for args in (signature.input_arg, signature.output_arg))
    return concrete, InlineFunction(signature.name, inputs, outputs)


def _call(function: InlineFunction, *inputs: Any) -> list[tf.Tensor]:
    return call_inline(
        function, [tf.constant(one) for one in inputs], False, cancellation.CancellationManager()
    )


def _kernels() -> list[str]:
    return [name for name in eager_context.context().list_function_names() if "Fedplug>CallInline" in name]


def test_a_long_loop_of_calls_that_end_at_once_does_not_exhaust_the_stack():
    @tf.function(autograph=False, experimental_attributes={"_noinline": True})
    def add_one(x):
        return x + 1

    def count(n):
        return tf.while_loop(lambda i: i < n, lambda i: [add_one(i)], [tf.constant(0)])[0]

    _kept, function = _made(count, tf.TensorSpec([], tf.int32))
    assert _call(function, 100_000)[0].numpy() == 100_000


def test_a_computation_takes_its_kernels_with_it(on_inprocess):
    def use() -> str:
        computation = tff.tensorflow.computation(lambda x: tuple(x + i for i in range(11)), np.float32)
        assert computation(1.0)[10] == 11.0
        return "__wrapped__Fedplug>CallInline_Tin_1_Tout_11_"

    kernels = use()
    gc.collect()
    assert tff.tensorflow.computation(lambda x: x + 1, np.float32)(1.0) == 2.0
    assert not any(name.startswith(kernels) for name in _kernels())


def test_a_computation_has_the_same_bits_by_name(monkeypatch, on_inprocess):
    def norms() -> Any:
        @tff.tensorflow.computation(tff.SequenceType(np.float32))
        def norm(numbers):
            return numbers.map(tf.exp).reduce(np.float32(0), lambda total, x: tf.sqrt(total + x))

        return norm([0.1, 0.7, -3.0])

    inline = norms()
    monkeypatch.setattr(tensorflow_graphs, "can_call_inline", lambda: False)
    tensorflow_graphs._loaded.clear()
    assert norms().tobytes() == inline.tobytes()


def test_large_tensors_lie_where_earlier_ones_lay(fresh_pages):
    size = 12_000_000  # malloc returns blocks of this size to the system as soon as they are free

    def total(x):
        return tf.reduce_sum(tf.fill([size], x) + tf.range(float(size)))

    concrete, function = _made(total, _F32)
    pages = size * 4 / resource.getpagesize()
    # With oneDNN, TensorFlow keeps memory itself; and some systems do not count page faults.
    by_name = fresh_pages(lambda: concrete(tf.constant(1.0)))
    assert fresh_pages(lambda: _call(function, 1.0)) < max(pages / 100, by_name / 50)
    assert _call(function, 1.0)[0].numpy().tobytes() == concrete(tf.constant(1.0)).numpy().tobytes()


def test_where_there_is_a_gpu_functions_are_called_inline_on_the_cpu_only(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["one"])
    assert not inline_calls.can_call_inline()  # TensorFlow chooses the device
    with tf.device("/CPU:0"):
        assert inline_calls.can_call_inline()


def test_data_sets_are_read_in_the_calling_thread(monkeypatch, on_inprocess):
    adding, calling = [], []

    def note(number: Any) -> Any:
        adding.append(threading.get_ident())
        return number

    def call(*args: Any) -> list[tf.Tensor]:
        calling.append(threading.get_ident())
        return call_inline(*args)

    @tff.tensorflow.computation(tff.SequenceType(np.float32))
    def total(numbers):
        def add(so_far, number):
            return so_far + tf.ensure_shape(tf.numpy_function(note, [number], tf.float32), [])

        return numbers.reduce(np.float32(0), add)

    monkeypatch.setattr(registered_function, "call_inline", call)
    assert total([1.0, 2.0]) == 3.0
    assert len(adding) == 2
    assert set(adding) <= set(calling)


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
