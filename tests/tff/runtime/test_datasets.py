"""Tests how the runtime converts the datasets of clients."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.errors import ArgumentError
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
    meeting = threading.Barrier(2, timeout=600)

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
    reading.join(timeout=600)
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


# Data sets that keep state: a call must neither see the state of another call nor leave any.

Dataset = tf.data.Dataset
NUMBERS = tff.SequenceType(np.int64)


def numbers(size: int = 8) -> tf.data.Dataset:
    return Dataset.range(size)


def counted_by_a_variable() -> tf.data.Dataset:
    count = tf.Variable(0, dtype=tf.int64)
    return numbers().map(lambda number: number + count.assign_add(10))


def counted_by_a_table() -> tf.data.Dataset:
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)

    def count(number: tf.Tensor) -> tf.Tensor:
        seen = tf.ensure_shape(table.lookup(np.int64(0)), [])
        table.insert(np.int64(0), seen + 1)
        return number + 10 * seen

    return numbers().map(count)


def one_part_twice() -> tf.data.Dataset:
    part = numbers().shuffle(8, seed=1)
    return part.concatenate(part)


NOT_FUSED = tf.data.Options()
NOT_FUSED.experimental_optimization.shuffle_and_repeat_fusion = False

KEEPING_STATE = {
    "shuffle and repeat": lambda: numbers().shuffle(8, seed=1).repeat(2),
    "not fused": lambda: numbers().shuffle(8, seed=1).repeat(2).with_options(NOT_FUSED),
    "cache of a shuffle": lambda: numbers().shuffle(8, seed=1).cache().repeat(2),
    "one part twice": one_part_twice,
    "random operations": lambda: numbers().map(lambda i: i + tf.random.uniform([], 0, 99, tf.int64, seed=3)),
    "variable": counted_by_a_variable,
    "table": counted_by_a_table,
}


def all_of(sequence: tf.data.Dataset) -> tf.Tensor:
    return sequence.batch(200).reduce(tf.zeros([0], tf.int64), lambda _, batch: batch)


elements = tff.tensorflow.computation(all_of, NUMBERS)


@tff.tensorflow.computation(NUMBERS)
def elements_of_two_epochs(sequence: tf.data.Dataset) -> tuple[tf.Tensor, tf.Tensor]:
    first = all_of(sequence)
    with tf.control_dependencies([first]):
        return first, all_of(sequence)


@tff.tensorflow.computation(NUMBERS)
def doubled(sequence: tf.data.Dataset) -> tf.data.Dataset:
    return sequence.map(lambda number: 2 * number)


@tff.federated_computation(tff.FederatedType(NUMBERS, tff.CLIENTS))
def readings(sequences: tff.Value) -> Any:
    """Reads a client's data set in several functions, and also one that a function made."""
    made = tff.federated_map(doubled, sequences)
    return (
        tff.federated_map(elements, sequences),
        tff.federated_map(elements_of_two_epochs, sequences),
        tff.federated_map(elements, made),
        tff.federated_map(elements, made),
    )


@pytest.mark.parametrize("make", KEEPING_STATE.values(), ids=KEEPING_STATE)
def test_every_function_reads_a_dataset_from_its_beginning(
    same_on_both: Callable[..., Any], make: Callable[[], tf.data.Dataset]
) -> None:
    tf.random.set_seed(7)  # the same seeds in every data set of this test

    def rounds() -> list[Any]:
        dataset = make()
        return [readings([dataset] * 2) for _ in range(2)]

    same_on_both(rounds)


@pytest.mark.usefixtures("on_inprocess")
def test_clients_that_share_a_dataset_do_not_depend_on_each_other() -> None:
    @tff.federated_computation(tff.FederatedType(NUMBERS, tff.CLIENTS))
    def orders(sequences: tff.Value) -> tff.Value:
        return tff.federated_map(elements, sequences)

    dataset = numbers().shuffle(8, seed=1)
    list(dataset)  # the caller's own reading does not matter either
    seen = {tuple(order) for _ in range(10) for order in orders([dataset] * 16)}
    assert len(seen) == 1


def test_a_returned_dataset_begins_anew_in_every_call(same_on_both: Callable[..., Any]) -> None:
    def program() -> list[Any]:
        made = doubled(numbers().shuffle(8, seed=1).repeat(2))
        return [
            list(made.as_numpy_iterator()),
            list(made.as_numpy_iterator()),
            elements(made),
            elements(made),
        ]

    same_on_both(program)


def test_a_function_reads_the_present_value_of_a_captured_variable(same_on_both: Callable[..., Any]) -> None:
    def program() -> list[Any]:
        variable = tf.Variable(0, dtype=tf.int64)
        dataset = numbers(2).map(lambda number: number + variable.assign_add(10))
        seen = []
        for value in (1, 2):
            variable.assign(value)
            seen += [elements(dataset), elements(dataset), variable.numpy()]
        return seen

    assert [list(value) for value in same_on_both(program)[:2]] == [[11, 22], [11, 22]]


@pytest.mark.usefixtures("on_inprocess")
def test_a_captured_iterator_is_refused() -> None:
    """Its position would depend on which client reads first; the stock worker does not find it."""
    position = iter(numbers())
    with pytest.raises(ArgumentError, match=r"IteratorResource.*cannot be copied"):
        elements(numbers().map(lambda number: number + next(position)))
