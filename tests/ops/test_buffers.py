"""Where TensorFlow lets an op write into the buffer of an argument, no new one is allocated."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from fedplug import ops

N = 100_000


def bytes_allocated_by(op_type, build):
    """Runs ``build(x)`` once and returns the bytes that the op of this type asked its device for."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [N])
        fetch = tf.reduce_sum(build(x))
        (name,) = (op.name for op in graph.get_operations() if op.type == op_type)
        trace = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        session.run(fetch, {x: np.ones(N, np.float32)}, options=options, run_metadata=trace)
    nodes = [node for device in trace.step_stats.dev_stats for node in device.node_stats]
    (stats,) = (node for node in nodes if node.node_name == name)
    return sum(memory.total_bytes for memory in stats.memory)


def test_the_residual_is_written_into_the_buffer_of_the_old_one():
    def build(x):
        return ops.topk_residual(x, x * 2.0, 10, lowering="fused").residual

    assert bytes_allocated_by("Fedplug>TopKResidual", build) < N


def test_the_sum_is_written_into_the_buffer_of_the_accumulator():
    def build(x):
        return ops.scatter_decode_add(x * 2.0, x[:1], [0], [0, 1], lowering="fused")

    assert bytes_allocated_by("Fedplug>ScatterDecodeAdd", build) < N


def test_an_argument_that_is_still_needed_is_copied_instead():
    def build(x):
        accumulator = x * 2.0
        return ops.scatter_decode_add(accumulator, x[:1], [0], [0, 1], lowering="fused") + accumulator

    assert bytes_allocated_by("Fedplug>ScatterDecodeAdd", build) >= 4 * N
