"""Tests `break_even` on TensorFlow models: the same bytes in both executions, and the requested lowering."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import fedplug
from fedplug.encoders import ModelEncoder, break_even
from fedplug.encoders.model.trials import normal_numbers
from fedplug.ops._tensorflow.reference import traced
from fedplug.ops.types import ArraySpec

SPECS = [tf.TensorSpec([1000], tf.float32, "kernel"), tf.TensorSpec([70], tf.bfloat16, "bias")]
ON_ARRAYS = [ArraySpec(spec.shape, np.dtype(spec.dtype.name), spec.name) for spec in SPECS]


@pytest.fixture
def graphs(monkeypatch):
    """Counts traced graphs, except those of references, which trace one function per op."""
    made, function = [], tf.function

    def counted(*args, **kwargs):
        if args[0].__module__ != traced.__name__:
            made.append(args)
        return function(*args, **kwargs)

    monkeypatch.setattr(tf, "function", counted)
    return made


@pytest.mark.parametrize("specs", [SPECS, ON_ARRAYS])
@pytest.mark.parametrize("lowering", [None, "fused", "reference"])
def test_a_lowering_is_of_graphs_and_the_bytes_are_the_same(graphs, specs, lowering):
    encoder = fedplug.encoder({"kernel": "topk(0.01)", "*": "qsgd(8)"})
    found = break_even(ModelEncoder(encoder, specs), 10, lowering=lowering)
    # One graph for the encoder, one for the uncompressed model.
    assert len(graphs) == (0 if lowering is None else 2)
    assert found.sent_bytes == break_even(ModelEncoder(encoder, ON_ARRAYS), 10).sent_bytes
    assert found.plain_bytes > 4 * 1000 + 2 * 70


def test_numbers_for_tensors_are_those_for_arrays():
    for tensor, array in zip(normal_numbers(SPECS), normal_numbers(ON_ARRAYS), strict=True):
        assert tensor.numpy().tobytes() == array.tobytes()
