"""Flattening in TFF's order, which is not that of `tf.nest`."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.process import structures

F = tff.TensorType(np.float32)
NESTED = tff.to_type(collections.OrderedDict([("b", F), ("a", [F, ()]), ("c", (F, F))]))


def test_the_order_is_that_of_the_type_and_not_of_the_names() -> None:
    assert structures.paths(NESTED) == ["b", "a/0", "c/0", "c/1"]
    assert structures.paths(tff.to_type(collections.OrderedDict(outer=NESTED)))[0] == "outer/b"


def test_a_value_comes_back_with_its_containers() -> None:
    value = collections.OrderedDict([("b", 1.0), ("a", [2.0, ()]), ("c", (3.0, 4.0))])
    leaves = structures.flatten(value, NESTED)
    assert leaves == [1.0, 2.0, 3.0, 4.0]
    assert structures.unflatten(leaves, NESTED) == value


def test_a_single_tensor_is_its_own_leaf() -> None:
    assert structures.paths(F) == [""]
    assert structures.unflatten(structures.flatten(5.0, F), F) == 5.0


def test_anything_but_tensors_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match="at data/1"):
        structures.paths(tff.to_type(collections.OrderedDict(data=(F, tff.SequenceType(np.float32)))))
