"""How data sets come into a computation: as variant tensors that are quick to begin.

Whenever something begins to iterate over a data set, TensorFlow optimizes its graph, tunes its buffers, and
starts a thread for each processor, for what the data set does in parallel. That pays off over thousands of
elements. A client has few, its data set is begun anew in every round, and clients run side by side already.
What the caller chose stays.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff import structures
from fedplug.tff.runtime.tff_internals import make_data_set_from_elements

__all__ = ["ingest_sequence", "quick_to_begin"]

# The variants of data sets that are handed in round after round; neither changes. With the type they fit.
_taken_in: weakref.WeakKeyDictionary[tf.data.Dataset, tuple[tff.SequenceType, tf.Tensor]]
_taken_in = weakref.WeakKeyDictionary()


def ingest_sequence(value: Any, type_spec: tff.SequenceType) -> tf.Tensor:
    """Takes a data set in, or a list of elements.

    Raises:
        TypeError: Or whatever TFF raises for a value of another type.
    """
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
    """Whether TensorFlow flattens such elements as it does those of the types TFF makes of them."""
    if isinstance(spec, dict):
        return all(map(_flattens_alike, spec.values()))
    if type(spec) in (list, tuple):
        return all(map(_flattens_alike, spec))
    return isinstance(spec, tf.TypeSpec)


def _variant(dataset: tf.data.Dataset) -> tf.Tensor:
    """The variant of a data set, with the options that its caller left open."""
    chosen = dataset.options()
    optimizations = chosen.experimental_optimization.apply_default_optimizations is None
    autotune = chosen.autotune.enabled is None
    threads = chosen.threading.private_threadpool_size is None
    if optimizations or autotune or threads:
        dataset = dataset.with_options(
            quick_to_begin(optimizations=optimizations, autotune=autotune, threads=threads)
        )
    return tf.data.experimental.to_variant(dataset)


@functools.cache
def quick_to_begin(
    *, optimizations: bool = True, autotune: bool = True, threads: bool = True
) -> tf.data.Options:
    """Options by which TensorFlow begins to iterate over a data set without preparations.

    A data set that brings them need not be given them here.

    Args:
        optimizations: Whether to switch the optimizations of the graph off.
        autotune: Whether to switch the tuning of buffers off.
        threads: Whether what runs in parallel shares TensorFlow's threads, as operations do.
    """
    options = tf.data.Options()
    if optimizations:
        options.experimental_optimization.apply_default_optimizations = False
    if autotune:
        options.autotune.enabled = False
    if threads:
        options.threading.private_threadpool_size = -1  # none; 0, as by default, is one for each processor
    return options
