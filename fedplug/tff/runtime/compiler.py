"""Compiles computations for both runtimes: TFF's compiler, with other optimizations of the graphs."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.tff_internals import replace_intrinsics_with_bodies

__all__ = ["compile_block"]


def compile_block(
    block: tff.framework.ComputationBuildingBlock, *, inline_functions: bool
) -> tff.framework.ConcreteComputation:
    """Compiles like `tff.backends.native.desugar_and_transform_to_native`, with fewer optimizations.

    TFF optimizes each graph twice, which takes most of the first round, and lets it compute values again
    instead of keeping them in memory. Without both, rounds have the same bits and take no longer, but
    need more memory.

    Args:
        block: The building block of a computation. If the compiler cannot normalize it, the result is the
            same computation.
        inline_functions: Whether each call of a function becomes a copy of its operations. A graph of
            reference ops then becomes ten times as large.
    """
    bodies, _ = replace_intrinsics_with_bodies(block)
    return tff.backends.native.transform_to_native_form(
        tff.framework.ConcreteComputation.from_building_block(bodies),
        grappler_config=_optimizations(inline_functions),
    )


def _optimizations(inline_functions: bool) -> tf.compat.v1.ConfigProto:
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    options.meta_optimizer_iterations = options.ONE
    options.memory_optimization = options.NO_MEM_OPT
    options.constant_folding = options.AGGRESSIVE
    options.arithmetic_optimization = options.AGGRESSIVE
    options.loop_optimization = options.AGGRESSIVE
    options.function_optimization = options.AGGRESSIVE if inline_functions else options.OFF
    return config
