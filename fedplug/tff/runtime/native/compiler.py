"""Computations as TFF's stock worker takes them. Must not know how it is started or spoken to."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.tff_internals import replace_intrinsics_with_bodies

__all__ = ["compiled_for_worker"]


def compiled_for_worker(computation: tff.framework.ConcreteComputation) -> tff.framework.ConcreteComputation:
    """What `tff.backends.native.desugar_and_transform_to_native` does, but what is a function remains one.

    That one puts the nodes of every function in place of every call, for the sake of GPUs, which this worker
    has none of, and then optimizes all of it: a graph of references becomes ten times as large, and to
    optimize it takes most of the first round.
    """
    bodies, _ = replace_intrinsics_with_bodies(computation.to_building_block())
    return tff.backends.native.transform_to_native_form(
        tff.framework.ConcreteComputation.from_building_block(bodies), grappler_config=_optimizations()
    )


def _optimizations() -> tf.compat.v1.ConfigProto:
    """TFF's, but that functions stay what they are."""
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    options.memory_optimization = options.AGGRESSIVE
    options.constant_folding = options.AGGRESSIVE
    options.arithmetic_optimization = options.AGGRESSIVE
    options.loop_optimization = options.AGGRESSIVE
    options.function_optimization = options.OFF
    return config
