"""Converts data sets into values over which iteration starts fast.

At the start of an iteration, TensorFlow optimizes the data set's graph, tunes its buffers, and starts a
thread per processor for parallel steps. That pays off over thousands of elements. A client has few elements,
its iteration starts anew in every round, and clients run in parallel. The caller's options are kept.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff import structures
from fedplug.tff.runtime.graphs.datasets_with_state import DatasetWithState, with_state_apart
from fedplug.tff.runtime.graphs.devices import for_data_sets
from fedplug.tff.runtime.tff_internals import make_data_set_from_elements

__all__ = ["ingest_sequence", "quick_to_begin"]

# The values, with their types, of data sets that are passed round after round. Neither ever changes.
_taken_in: weakref.WeakKeyDictionary[tf.data.Dataset, tuple[tff.SequenceType, tf.Tensor | DatasetWithState]]
_taken_in = weakref.WeakKeyDictionary()


def ingest_sequence(value: Any, type_spec: tff.SequenceType) -> tf.Tensor | DatasetWithState:
    """Converts a data set, or a list of elements.

    Raises:
        TypeError: The value has another type. TFF may raise another error for it.
    """
    with for_data_sets():
        if isinstance(value, list):
            value = make_data_set_from_elements(None, value, type_spec.element)
        if not isinstance(value, tf.data.Dataset):
            return _variant(_by_tff(value, type_spec))
        known = _taken_in.get(value)
        if known is None or known[0] is not type_spec:
            _taken_in[value] = known = type_spec, _variant(_checked(value, type_spec))
        return known[1]


def _checked(value: tf.data.Dataset, type_spec: tff.SequenceType) -> tf.data.Dataset:
    if not _flattens_alike(value.element_spec):
        return _by_tff(value, type_spec)
    if not type_spec.element.is_assignable_from(structures.element_type(value.element_spec)):
        tff.framework.serialize_value(value, type_spec)  # raises
    return value


def _by_tff(value: Any, type_spec: tff.SequenceType) -> tf.data.Dataset:
    """Converts or raises, by TFF's rules."""
    proto, _ = tff.framework.serialize_value(value, type_spec)
    dataset, _ = tff.framework.deserialize_value(proto, type_spec)
    return dataset


def _flattens_alike(spec: Any) -> bool:
    """Returns whether TensorFlow flattens these elements in the order of their TFF type."""
    if isinstance(spec, dict):
        return all(map(_flattens_alike, spec.values()))
    if type(spec) in (list, tuple):
        return all(map(_flattens_alike, spec))
    return isinstance(spec, tf.TypeSpec)


def _variant(dataset: tf.data.Dataset) -> tf.Tensor | DatasetWithState:
    """Returns the value of a data set, with fast options where the caller set none."""
    chosen = dataset.options()
    optimizations = chosen.experimental_optimization.apply_default_optimizations is None
    autotune = chosen.autotune.enabled is None
    threads = chosen.threading.private_threadpool_size is None
    if optimizations or autotune or threads:
        dataset = dataset.with_options(
            quick_to_begin(optimizations=optimizations, autotune=autotune, threads=threads)
        )
    fused = optimizations and chosen.experimental_optimization.shuffle_and_repeat_fusion is not False
    return with_state_apart(tf.data.experimental.to_variant(dataset), fused=fused)


@functools.cache
def quick_to_begin(
    *, optimizations: bool = True, autotune: bool = True, threads: bool = True
) -> tf.data.Options:
    """Returns the options with which an iteration over a data set starts without preparations.

    A data set that has them already needs no change.

    Args:
        optimizations: Whether to disable graph optimizations.
        autotune: Whether to disable the tuning of buffers.
        threads: Whether parallel steps share TensorFlow's threads.
    """
    options = tf.data.Options()
    if optimizations:
        options.experimental_optimization.apply_default_optimizations = False
    if autotune:
        options.autotune.enabled = False
    if threads:
        options.threading.private_threadpool_size = -1  # no threads; the default 0 means one per processor
    return options
