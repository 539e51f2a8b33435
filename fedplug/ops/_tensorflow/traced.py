"""Traces the graph of each reference once.

A reference has hundreds of nodes, and a graph calls the same ones many times: for every tensor, and to
encode, decode and measure it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from fedplug.ops.lowering import use_lowering

_R = TypeVar("_R")


def traced_once(reference: Callable[..., _R]) -> Callable[..., _R]:
    """Makes calls of a reference in a graph share one function. Each call is one node.

    Arguments that are not tensors, and the static shapes of those that are, belong to the function. Vectors
    of bytes and indices may have any length. TensorFlow does not inline the function, or it would optimize
    each copy. Ops that a reference calls use their references, too.
    """
    functions: dict[Any, Callable[..., _R]] = {}

    def with_references(*args: object) -> _R:
        with use_lowering("reference"):
            return reference(*args)

    @functools.wraps(reference)
    def call(*args: object) -> _R:
        if tf.executing_eagerly():
            return with_references(*args)
        leaves = tf.nest.flatten(args)
        kinds = [_kind(leaf) for leaf in leaves]
        key = (*kinds, *(len(arg) if isinstance(arg, list | tuple) else None for arg in args))
        if key not in functions:
            functions[key] = _traced(with_references, args, kinds)
        return functions[key](*(leaf for leaf in leaves if tf.is_tensor(leaf)))

    return call


def _kind(leaf: Any) -> Any:
    """The part of an argument that calls must have in common to share a function."""
    if not tf.is_tensor(leaf):
        return type(leaf), leaf
    counted = leaf.dtype in (tf.uint8, tf.int32) and leaf.shape.rank == 1
    return tf.TensorSpec([None] if counted else leaf.shape, leaf.dtype)


def _traced(function: Callable[..., _R], args: Any, kinds: list[Any]) -> Callable[..., _R]:
    """The function of the tensors in ``args``, in their order. The other arguments are constants.

    It is a concrete function: a `tf.function` that is called twice is traced twice.
    """
    others = [None if isinstance(kind, tf.TensorSpec) else kind[1] for kind in kinds]

    def of_tensors(*tensors: object) -> _R:
        left = iter(tensors)
        leaves = [
            next(left) if isinstance(kind, tf.TensorSpec) else other
            for kind, other in zip(kinds, others, strict=True)
        ]
        return function(*tf.nest.pack_sequence_as(args, leaves))

    concrete: Callable[..., _R] = tf.function(
        of_tensors,
        input_signature=[kind for kind in kinds if isinstance(kind, tf.TensorSpec)],
        autograph=False,
        experimental_attributes={"_noinline": True},
    ).get_concrete_function()
    return concrete
