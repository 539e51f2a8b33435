"""Checks that an encoder computes the same wherever it runs: eagerly, in a graph, fused, inside TFF."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, ClassVar

from fedplug.encoders.assignments.rules import Rule, Rules
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.ops.lowering import available, resolve_lowering, use_lowering
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.testing import expect, tensors
from fedplug.testing.encoder_subject import EncoderSubject, round_trip
from fedplug.testing.suite import CannotRun, NotApplicable, after

__all__ = ["GraphChecks"]

_DETERMINISM = "test_equal_encoders_give_equal_bits"
_STATE = "test_the_state_keeps_its_structure_shapes_and_dtypes"
_WIRE_ID = "test_its_wire_id_names_a_frozen_layout"
_ROUND_TRIP = "test_sent_values_are_received"
_GRAPH = "test_a_graph_equals_eager_execution"
_REFERENCES = "test_compiled_ops_and_their_references_give_the_same"


class GraphChecks(EncoderSubject):
    """The comparisons are bit for bit."""

    check_tff: ClassVar[bool] = True
    """Whether to run the encoder inside TFF too, which takes seconds to import."""

    @after(_DETERMINISM, _ROUND_TRIP, _WIRE_ID)
    def test_a_graph_equals_eager_execution(self) -> None:
        self.require("tensorflow")
        for spec in self.few_specs():
            graph = self._graph(self.make_encoder(), spec)
            for number, x in enumerate(self._inputs(spec)):
                want = self._eagerly(x, number, spec)
                got = graph(x, self.on.round_num(number))
                expect.same_tensors(f"{tensors.name_of(spec)} in a graph", got, want)

    @after(_DETERMINISM, _ROUND_TRIP, _WIRE_ID, _GRAPH)
    def test_compiled_ops_and_their_references_give_the_same(self) -> None:
        """Runs only the references in a graph; a check above covers the compiled ops."""
        self.require("tensorflow")
        if self.make_encoder().capabilities.needs_op_library:
            raise NotApplicable("it declares that it needs the op library")
        if not available():
            raise CannotRun("the compiled ops cannot be loaded here, see `fedplug doctor`")
        from fedplug.testing.on_tensorflow import unoptimized  # installed, as the check requires it

        for spec in self.few_specs():
            with use_lowering("reference"):
                reference = self._graph(self.make_encoder(), spec)
            for number, x in enumerate(self._inputs(spec)):
                with use_lowering("fused"):
                    got = self._eagerly(x, number, spec)
                with unoptimized():
                    want = reference(x, self.on.round_num(number))
                expect.same_tensors(
                    f"{tensors.name_of(spec)} with compiled ops, against the references", got, want
                )

    @after(_DETERMINISM, _ROUND_TRIP, _WIRE_ID, _GRAPH, _REFERENCES, _STATE)
    def test_a_tff_process_sends_the_bytes_of_eager_execution(self) -> None:
        if not self.check_tff:
            raise CannotRun("check_tff of the suite is False")
        self.require("tensorflow")
        _require_tff()
        specs = self.few_specs(largest=100)
        update = [self.on.tensor("normal", spec) for spec in specs]
        model = self._model_encoder(specs)
        want, state = model.encode(update, model.init_state(), self.on.round_num(3))
        with use_lowering("auto"):
            got = _in_tff(self._model_encoder(specs), update)
        for position, spec in enumerate(specs):
            what = f"{tensors.name_of(spec)} inside TFF"
            expect.same_bits(
                f"bytes on the wire of {what}", got["message"]["buffers"][position], want[position]
            )
            expect.same_tensors(f"state of {what}", dict(got["state"][position]), state[position])

    def _eagerly(self, x: Array, number: int, spec: Spec) -> Mapping[str, Array]:
        encoder = self.make_encoder()
        return round_trip(self.on, encoder, x, encoder.init_state(spec), self.on.round_num(number), spec)

    def _model_encoder(self, specs: list[Spec]) -> ModelEncoder:
        # An encoder for each dtype: one that encodes tensors together may refuse others.
        dtypes = dict.fromkeys(spec.dtype.name for spec in specs)
        rules = Rules([Rule(self.make_encoder(), dtype=dtype) for dtype in dtypes])
        return ModelEncoder(rules, specs, min_size=0)

    def _inputs(self, spec: Spec) -> list[Array]:
        return [self.on.tensor(kind, spec) for kind in ("normal", "ties", "spike")]

    def _graph(self, encoder: Encoder, spec: Spec) -> Any:
        import tensorflow as tf  # every check requires it

        def function(x: Array, round_num: Scalar) -> Mapping[str, Array]:
            return round_trip(self.on, encoder, x, encoder.init_state(spec), round_num, spec)

        signature = [spec, tf.TensorSpec([], tf.int32)]
        return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()


def _require_tff() -> None:
    if importlib.util.find_spec("tensorflow_federated") is None:
        raise CannotRun("TensorFlow Federated is not installed")


def _in_tff(model: ModelEncoder, update: list[Array]) -> Any:
    """Runs the client's part of an encoded aggregation in a runtime of its own."""
    import numpy as np
    import tensorflow_federated as tff

    from fedplug.tff import runtime
    from fedplug.tff.aggregators.sums import Mean
    from fedplug.tff.process.aggregation.encoded_aggregation import EncodedAggregation

    lowering = resolve_lowering()
    value_type = tff.to_type([(np.dtype(spec.dtype.name), tuple(spec.shape)) for spec in model.specs])
    with tff.framework.get_context_stack().install(runtime.create_sync_execution_context()):
        aggregation = EncodedAggregation(value_type, model, Mean(), lowering)
        values = [np.asarray(x) for x in update]
        server_message = aggregation.server_message(aggregation.init_server())
        server_message = {**server_message, "round_num": np.int32(3)}
        return aggregation.encode(values, np.float32(1), aggregation.init_client(), server_message)
