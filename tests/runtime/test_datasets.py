"""What the runtime does to the datasets of clients on the way in."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.runtime.inprocess.values import dataset_from_variant, ingest

ELEMENT = tff.TensorType(np.float32)


def options_inside(dataset: tf.data.Dataset) -> tf.data.Options:
    return dataset_from_variant(ingest(dataset, tff.SequenceType(ELEMENT)), ELEMENT).options()


def test_a_dataset_is_not_rewritten_whenever_it_is_begun() -> None:
    options = options_inside(tf.data.Dataset.from_tensors(np.float32(1)))
    assert options.experimental_optimization.apply_default_optimizations is False
    assert options.autotune.enabled is False


def test_what_the_caller_chose_stays() -> None:
    chosen = tf.data.Options()
    chosen.experimental_optimization.apply_default_optimizations = True
    chosen.autotune.enabled = True
    chosen.deterministic = False
    options = options_inside(tf.data.Dataset.from_tensors(np.float32(1)).with_options(chosen))
    assert options.experimental_optimization.apply_default_optimizations is True
    assert options.autotune.enabled is True
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
