"""Compiles computations for TFF's stock worker."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.tff_internals import replace_intrinsics_with_bodies

__all__ = ["compiled_for_worker"]


def compiled_for_worker(computation: tff.framework.ConcreteComputation) -> tff.framework.ConcreteComputation:
    """Compiles like `tff.backends.native.desugar_and_transform_to_native`, without inlining functions.

    TFF inlines every function call for GPUs, which this worker does not use, and optimizes the result. A
    graph of reference ops becomes ten times as large, and its optimization takes most of the first round.
    """
    bodies, _ = replace_intrinsics_with_bodies(computation.to_building_block())
    return tff.backends.native.transform_to_native_form(
        tff.framework.ConcreteComputation.from_building_block(bodies), grappler_config=_optimizations()
    )


def _optimizations() -> tf.compat.v1.ConfigProto:
    """Returns TFF's optimizations, without function inlining."""
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    options.memory_optimization = options.AGGRESSIVE
    options.constant_folding = options.AGGRESSIVE
    options.arithmetic_optimization = options.AGGRESSIVE
    options.loop_optimization = options.AGGRESSIVE
    options.function_optimization = options.OFF
    return config
