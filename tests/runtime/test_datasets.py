"""What the runtime does to the datasets of clients on the way in."""

from __future__ import annotations

import numpy as np
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
