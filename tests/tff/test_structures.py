"""Tests flattening in TFF's order, which differs from that of `tf.nest`."""

from __future__ import annotations

import collections
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tree

from fedplug.errors import ConfigError
from fedplug.tff import structures

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


Pair = collections.namedtuple("Pair", ["left", "right"])


@attrs.define
class Point:
    x: Any
    y: Any


CONTAINERS = [
    (),
    [1.0],
    (1.0, 2.0),
    {"b": 1.0, "a": (2.0, 3.0)},
    collections.OrderedDict([("b", 1.0), ("a", [2.0])]),
    Pair(1.0, {"z": 2.0}),
    Point(1.0, (2.0, Pair(3.0, 4.0))),
]


@pytest.mark.parametrize("value", CONTAINERS, ids=lambda value: type(value).__name__)
def test_containers_are_read_and_made_as_by_tff(value: Any) -> None:
    type_spec = tff.to_type(tree.map_structure(lambda leaf: np.float32, value))
    by_tff = tff.structure.from_container(value)
    members = structures.members(value)
    assert list(members) == [member for _, member in tff.structure.iter_elements(by_tff)]
    made = structures.contain(members, type_spec)
    assert made == tff.types.type_to_py_container(by_tff, type_spec) == value
    assert type(made) is type(value)


def test_a_structure_without_a_container_gets_the_one_that_tff_takes() -> None:
    for type_spec in (tff.StructType([np.float32]), tff.StructType([("a", np.float32)])):
        struct = tff.structure.Struct([(None, 1.0)])
        made = structures.contain([1.0], type_spec)
        assert made == tff.types.type_to_py_container(struct, type_spec)
        assert type(made) is type(tff.types.type_to_py_container(struct, type_spec))


def test_an_invalid_container_is_refused() -> None:
    with pytest.raises(ValueError, match="mix of named and unnamed"):
        structures.contain([1.0, 2.0], tff.StructType([("a", np.float32), np.float32]))
    with pytest.raises(TypeError, match="Unable to convert"):
        structures.members(1.0)


def test_a_single_tensor_is_its_own_leaf() -> None:
    assert structures.paths(F) == [""]
    assert structures.unflatten(structures.flatten(5.0, F), F) == 5.0


def test_anything_but_tensors_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match="at data/1"):
        structures.paths(tff.to_type(collections.OrderedDict(data=(F, tff.SequenceType(np.float32)))))


def test_element_types_are_those_of_tff_and_distinguish_the_order_of_names() -> None:
    x, y = tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32)
    for spec in ((x, y), {"x": x, "y": y}, {"y": y, "x": x}, collections.OrderedDict(y=y, x=x), [x, (y,)], x):
        wanted = tff.types.tensorflow_to_type(spec)
        found = [structures.element_type(spec) for _ in range(2)]
        assert [repr(each) for each in found] == [repr(wanted)] * 2
