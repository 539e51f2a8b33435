"""Tests how the runtime converts the datasets of clients."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.tff.runtime.inprocess.values import dataset_from_variant, dataset_of_elements, ingest

ELEMENT = tff.TensorType(np.float32)


def options_inside(dataset: tf.data.Dataset) -> tf.data.Options:
    return dataset_from_variant(ingest(dataset, tff.SequenceType(ELEMENT)), ELEMENT).options()


def test_a_dataset_is_not_rewritten_whenever_it_is_begun() -> None:
    made = dataset_from_variant(dataset_of_elements([tf.constant(1.0), tf.constant(2.0)], ELEMENT), ELEMENT)
    for options in (options_inside(tf.data.Dataset.from_tensors(np.float32(1))), made.options()):
        assert options.experimental_optimization.apply_default_optimizations is False
        assert options.autotune.enabled is False
    assert options.threading.private_threadpool_size == -1
    assert [float(element) for element in made] == [1, 2]


def test_beginning_a_dataset_starts_no_threads() -> None:
    dataset = tf.data.Dataset.from_tensors(np.float32(1))
    inside = dataset_from_variant(ingest(dataset, tff.SequenceType(ELEMENT)), ELEMENT)

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    next(iter(inside))
    before = threads()
    begun = [iter(inside) for _ in range(10)]
    assert [float(next(one)) for one in begun] == [1] * 10
    assert threads() == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="TensorFlow has one thread for one processor")
@pytest.mark.parametrize("clients", [1, 4])
def test_parallel_datasets_stay_parallel(clients: int) -> None:
    meeting = threading.Barrier(2, timeout=60)

    def meet(element: tf.Tensor) -> tf.Tensor:
        meeting.wait()  # would wait forever if elements came one at a time
        return element

    def to_float(number: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.py_function(meet, [tf.cast(number, tf.float32)], tf.float32), [])

    dataset = tf.data.Dataset.range(4).map(to_float, num_parallel_calls=2)

    @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
    def total(sequence: tf.data.Dataset) -> tf.Tensor:
        return sequence.reduce(np.float32(0), lambda a, b: a + b)

    @tff.federated_computation(tff.FederatedType(tff.SequenceType(ELEMENT), tff.CLIENTS))
    def totals(sequences: tff.Value) -> tff.Value:
        return tff.federated_map(total, sequences)

    with fedplug.use_runtime("inprocess"):
        assert totals([dataset] * clients) == [6] * clients


def test_datasets_that_read_each_other_do_not_wait_for_each_others_threads() -> None:
    @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
    def total(sequence: tf.data.Dataset) -> tf.Tensor:
        def plus_first(element: tf.Tensor) -> tf.Tensor:
            return element + next(iter(sequence))

        sums = sequence.map(plus_first, num_parallel_calls=4)
        return sums.reduce(np.float32(0), lambda so_far, element: so_far + element)

    dataset = tf.data.Dataset.range(8).map(lambda n: tf.cast(n, tf.float32) + 1, num_parallel_calls=4)
    totals: list[float] = []

    def many_times() -> None:
        with fedplug.use_runtime("inprocess"):
            totals.extend(total(dataset) for _ in range(20))

    reading = threading.Thread(target=many_times, daemon=True)  # would never end on failure
    reading.start()
    reading.join(timeout=120)
    assert totals == [36 + 8] * 20


def test_the_callers_choice_is_kept() -> None:
    chosen = tf.data.Options()
    chosen.experimental_optimization.apply_default_optimizations = True
    chosen.autotune.enabled = True
    chosen.threading.private_threadpool_size = 3
    chosen.deterministic = False
    options = options_inside(tf.data.Dataset.from_tensors(np.float32(1)).with_options(chosen))
    assert options.experimental_optimization.apply_default_optimizations is True
    assert options.autotune.enabled is True
    assert options.threading.private_threadpool_size == 3
    assert options.deterministic is False


def test_a_dataset_handed_in_again_is_the_same_and_still_checked() -> None:
    dataset = tf.data.Dataset.from_tensors(np.float32(1))
    assert ingest(dataset, tff.SequenceType(ELEMENT)) is ingest(dataset, tff.SequenceType(ELEMENT))
    with pytest.raises(TypeError):
        ingest(dataset, tff.SequenceType(np.int32))


def test_a_shuffled_dataset_handed_in_again_is_shuffled_again() -> None:
    dataset = tf.data.Dataset.range(100, output_type=tf.float32).shuffle(100)
    orders = [
        [float(x) for x in dataset_from_variant(ingest(dataset, tff.SequenceType(ELEMENT)), ELEMENT)]
        for _ in range(2)
    ]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
