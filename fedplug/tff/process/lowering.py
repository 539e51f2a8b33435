"""Chooses between the fused custom ops and their TensorFlow references when a process is built.

Both give the same bits. The fused ops are faster, but only runtimes whose context has
``runs_custom_ops = True`` can load them.
"""

from __future__ import annotations

import tensorflow_federated as tff

from fedplug.errors import LoweringError
from fedplug.ops.lowering import resolve_lowering

__all__ = ["choose_lowering"]


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
