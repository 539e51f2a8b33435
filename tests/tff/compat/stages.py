"""Stages of tfmot as their authors wrote them, correct and broken; `test_tfmot.py` runs them unchanged."""

from __future__ import annotations

import tensorflow as tf
from tensorflow_model_optimization.python.core.internal import tensor_encoding as te


@te.core.tf_style_encoding_stage
class KeepsTheHead(te.core.EncodingStageInterface):
    """Sends the first entries of a vector; it truly commutes with sums. Passes all checks."""

    def __init__(self, count=3):
        self.count = count

    @property
    def name(self):
        return "keeps_the_head"

    @property
    def compressible_tensors_keys(self):
        return ["head"]

    @property
    def commutes_with_sum(self):
        return True

    @property
    def decode_needs_input_shape(self):
        return True

    def get_params(self):
        return {}, {}

    def encode(self, x, encode_params):
        return {"head": tf.reshape(x, [-1])[: self.count]}

    def decode(self, encoded_tensors, decode_params, num_summands=None, shape=None):
        head = encoded_tensors["head"]
        size = tf.reduce_prod(shape)
        return tf.reshape(tf.concat([head, tf.zeros([size - tf.size(head)], head.dtype)], 0), shape)


@te.core.tf_style_adaptive_encoding_stage
class TopKWithError(te.core.AdaptiveEncodingStageInterface):
    """Top-k with the error kept in the state. Passes all checks.

    It takes the shape of its state in advance: a `TensorSpec`, as TFF's ``encoder_fn`` received it.
    """

    def __init__(self, spec, fraction=0.3):
        self._spec = spec
        self._fraction = fraction

    @property
    def name(self):
        return "topk_with_error"

    @property
    def compressible_tensors_keys(self):
        return ["values"]

    @property
    def commutes_with_sum(self):
        return False

    @property
    def decode_needs_input_shape(self):
        return True

    @property
    def state_update_aggregation_modes(self):
        return {"residual": te.core.StateAggregationMode.SUM}

    def initial_state(self):
        return {"residual": tf.zeros(self._spec.shape, self._spec.dtype)}

    def update_state(self, state, state_update_tensors):
        return {"residual": state_update_tensors["residual"]}

    def get_params(self, state):
        return {"residual": state["residual"]}, {}

    def encode(self, x, encode_params):
        total = tf.reshape(x + encode_params["residual"], [-1])
        size = total.shape.num_elements()
        _, indices = tf.math.top_k(tf.abs(total), min(size, max(1, round(self._fraction * size))))
        values = tf.gather(total, indices)
        sent = tf.scatter_nd(indices[:, tf.newaxis], values, [size])
        return {"values": values, "indices": indices}, {"residual": tf.reshape(total - sent, x.shape)}

    def decode(self, encoded_tensors, decode_params, num_summands=None, shape=None):
        indices = encoded_tensors["indices"][:, tf.newaxis]
        dense = tf.scatter_nd(indices, encoded_tensors["values"], [tf.reduce_prod(shape)])
        return tf.reshape(dense, shape)


class ScalesByAState(te.core.AdaptiveEncodingStageInterface):
    """Has no decorator; uses several aggregation modes, state for decoding, and data-dependent sizes."""

    name = "scales_by_a_state"
    compressible_tensors_keys = ()
    commutes_with_sum = True
    decode_needs_input_shape = True
    state_update_aggregation_modes = {  # noqa: RUF012
        "calls": te.core.StateAggregationMode.SUM,
        "largest": te.core.StateAggregationMode.MAX,
        "all": te.core.StateAggregationMode.STACK,
    }

    def initial_state(self):
        return {"calls": 0.0, "scale": tf.constant(1.0)}

    def update_state(self, state, state_update_tensors):
        seen = tf.reduce_mean(state_update_tensors["all"])  # over clients and elements
        return {
            "calls": state["calls"] + state_update_tensors["calls"],
            "scale": state_update_tensors["largest"] + 0 * seen + 1,
        }

    def get_params(self, state):
        return {"scale": state["scale"]}, {"scale": state["scale"], "sign": 1}

    def encode(self, x, encode_params):
        flat = tf.reshape(x, [-1]) / encode_params["scale"]
        where = tf.reshape(tf.where(flat != 0), [-1])
        update = {"calls": tf.constant(1.0), "largest": tf.reduce_max(tf.abs(x)), "all": x}
        return {"where": where, "what": tf.gather(flat, where)}, update

    def decode(self, encoded_tensors, decode_params, num_summands=None, shape=None):
        what = encoded_tensors["what"] * decode_params["scale"] * decode_params["sign"]
        size = tf.cast(tf.reduce_prod(shape), tf.int64)
        return tf.reshape(tf.scatter_nd(encoded_tensors["where"][:, tf.newaxis], what, [size]), shape)


class KeepsAVariable(ScalesByAState):
    """Keeps its state in a variable, which tfmot allows."""

    name = "keeps_a_variable"

    def encode(self, x, encode_params):
        with tf.init_scope():
            counter = tf.Variable(0.0)
        counter.assign_add(1.0)
        encoded, update = super().encode(x, encode_params)
        return {**encoded, "what": encoded["what"] + 0 * counter}, update


def not_a_stage():
    """Returns an object that is not a stage."""
    return object()
