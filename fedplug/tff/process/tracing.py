"""Traces TensorFlow functions as TFF computations, with the fused custom ops or their TensorFlow references.

Both lowerings give the same bits. The fused ops are faster, but only runtimes whose context has
``runs_custom_ops = True`` can load them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import LoweringError
from fedplug.ops.lowering import resolve_lowering, use_lowering
from fedplug.tff import structures
from fedplug.tff.structures import Structure

__all__ = ["choose_lowering", "trace"]


def choose_lowering(requested: str) -> str:
    """Resolves ``"auto"``, ``"fused"`` or ``"reference"`` for the current TFF context.

    Returns:
        ``"fused"`` or ``"reference"``.

    Raises:
        LoweringError: ``"fused"`` was asked for and the current context cannot run custom ops.
        OpLibraryError: ``"fused"`` was asked for and the op library cannot be loaded.
        ConfigError: The name is none of the three.
    """
    context = tff.framework.get_context_stack().current
    if isinstance(context, tff.program.NativeFederatedContext):
        context = context._context  # TFF has no public way to what runs its programs
    runs_custom_ops = getattr(context, "runs_custom_ops", False)
    if requested == "fused" and not runs_custom_ops:
        raise LoweringError(
            f"lowering 'fused' needs a runtime that can load custom ops, and the current one "
            f"({type(context).__name__}) cannot; call fedplug.use_runtime('inprocess') before building the "
            "process, or build it with lowering='reference'"
        )
    return resolve_lowering(requested if runs_custom_ops or requested != "auto" else "reference")


def trace(lowering: str, function: Callable[..., Structure], *types: tff.Type) -> tff.Computation:
    """Returns a `tff.tensorflow.computation` with the ops in that lowering.

    The body is first traced as a TensorFlow 2 function: in the graphs of TFF, ``==`` between tensors compares
    Python objects.
    """
    specs = [
        tf.TensorSpec(t.shape, t.dtype) for type_spec in types for t in structures.tensor_types(type_spec)
    ]

    @tf.function(autograph=False, input_signature=specs)
    def on_leaves(*leaves: tf.Tensor) -> Structure:
        remaining = iter(leaves)
        args = [structures.unflatten([next(remaining) for _ in structures.tensor_types(t)], t) for t in types]
        with use_lowering(lowering):
            return function(*args)

    concrete = on_leaves.get_concrete_function()
    signature = inspect.signature(function)

    @functools.wraps(function)  # TFF reads the signature to know how to unpack its argument
    def traced(*args: Structure, **kwargs: Structure) -> Structure:
        values = signature.bind(*args, **kwargs).args
        return concrete(
            *[leaf for v, t in zip(values, types, strict=True) for leaf in structures.flatten(v, t)]
        )

    return tff.tensorflow.computation(traced, *types)
