"""Checks that an encoder computes the same wherever it runs: on any arrays, in a graph, fused, inside TFF."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import fedplug.codecs as codecs
import fedplug.ops as ops
from fedplug.encoders import containers
from fedplug.encoders.assignments.rules import Rule, Rules
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import NonFiniteError
from fedplug.ops.donation import donate_residuals
from fedplug.ops.lowering import available, resolve_lowering, use_lowering
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.resolve import catalog
from fedplug.registry.specs import EncoderSpec
from fedplug.testing import expect, tensors
from fedplug.testing.encoder_subject import EncoderSubject, round_trip
from fedplug.testing.suite import CannotRun, NotApplicable, after

__all__ = ["ExecutionChecks"]

_DETERMINISM = "test_equal_encoders_give_equal_bits"
_ARGUMENTS = "test_its_arguments_are_not_changed"
_STATE = "test_the_state_keeps_its_structure_shapes_and_dtypes"
_ROUND_TRIP = "test_sent_values_are_received"
_WIRE_ID = "test_its_wire_id_names_a_frozen_layout"
_KINDS = ("normal", "ties", "spike")
_SPARSE = "sparse/1"  # of every pipeline with a sparsifier
_GRAPH = "test_a_graph_equals_eager_execution"
_REFERENCES = "test_compiled_ops_and_their_references_give_the_same"


class ExecutionChecks(EncoderSubject):
    """The comparisons are bit for bit."""

    check_tff: ClassVar[bool] = True
    """Whether to run the encoder inside TFF too, which takes seconds to import."""

    @after(_DETERMINISM, _STATE, _ROUND_TRIP, _WIRE_ID)
    def test_numpy_arrays_and_tensors_give_the_same_bits(self) -> None:
        """The checks of values run on NumPy arrays alone. This check makes them hold for tensors, too."""
        others = self.other_executions()
        wanted = self._rounds()
        for other in others:
            self.on = other
            for what, got in self._rounds().items():
                expect.same_tensors(f"{what} on {other}, against NumPy arrays", got, wanted[what])

    @after(_DETERMINISM, _ARGUMENTS)
    def test_donated_residuals_give_the_same_bits(self) -> None:
        """Donates with `fedplug.ops.donation`: only the state and the accumulator may be overwritten."""
        self.require("numpy")
        encoder = self.make_encoder()
        for spec in self.few_specs():
            state: Mapping[str, Array] = _copied(encoder.init_state(spec))
            for number, step in enumerate(self.history(encoder, spec)):
                x, what = np.array(step.case.x), f"{step.case.what}, whose residual is donated"
                accumulator, weight = self.on.ones(spec), self.on.scalar(3, spec)
                total = encoder.accumulate(accumulator, step.payload, weight, spec)
                with donate_residuals():
                    payload, state = encoder.encode(x, state, number)
                    got = encoder.accumulate(accumulator, payload, weight, spec)
                expect.same_bits(f"the tensor after encoding {what}", x, step.case.x)
                expect.same_tensors(f"payload of {what}", payload, step.payload)
                expect.same_tensors(f"state of {what}", state, step.next_state)
                expect.same_bits(f"{what}, accumulated where that was donated", got, total)

    @after(_ROUND_TRIP, _WIRE_ID)
    def test_it_is_read_without_its_configuration(self) -> None:
        """Uses `fedplug.decode`, which finds the decoder by its wire id. See `Encoder.from_payload`."""
        self.require("numpy")
        encoder = self.make_encoder()
        declared = {entry.spec.wire_id for entry in catalog().entries if isinstance(entry.spec, EncoderSpec)}
        for part in encoder.wire_id.split("+"):
            if part not in {_SPARSE, *declared}:
                raise NotApplicable(f"no plugin declares what reads {part!r}")
        for step in self.first_steps():
            spec = step.case.spec
            payload = containers.frame(encoder.to_wire(step.payload, spec), encoder.wire_id, spec)
            want = encoder.decode(step.payload, spec)
            expect.same_bits(f"{step.case.what}, read by fedplug.decode", codecs.decode(payload), want)

    @after(_ARGUMENTS, _STATE)
    def test_no_array_is_sent_that_is_not_finite(self) -> None:
        """Uses `fedplug.codec`, which raises NonFiniteError. The state does not change, even if donated."""
        self.require("numpy")
        codec = codecs.Codec(self.make_encoder())
        for spec in self.few_specs():
            if not ops.num_elements(spec):
                continue
            x = np.array(self.on.tensor("normal", spec))
            _, state = codec.encode(x)
            before = _copied(state)
            for number in (np.nan, np.inf):
                x.reshape(-1)[-1] = number
                what = f"{tensors.name_of(spec)} with {number}"
                try:
                    codec.encode(x, state, 1, in_place=True)
                except NonFiniteError:
                    expect.same_tensors(f"the state after refusing {what}", state, before)
                else:
                    expect.that(False, f"{what} was encoded; refuse it, see fedplug.ops.require_finite")

    def _rounds(self) -> dict[str, Mapping[str, Array]]:
        """Returns all results of the first rounds, to compare two executions."""
        found: dict[str, Mapping[str, Array]] = {}
        for spec in self.specs():
            encoder = self.make_encoder()
            state: Mapping[str, Array] = encoder.init_state(spec)
            for number, kind in enumerate(tensors.KINDS):
                x, round_num = self.on.tensor(kind, spec), self.on.round_num(number)
                with np.errstate(over="ignore"):
                    computed = round_trip(self.on, encoder, x, state, round_num, spec)
                found[f"round {number} of {tensors.name_of(spec)} ({kind})"] = computed
                state = {key: computed[f"state {key!r}"] for key in state}
        return found

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
        return [self.on.tensor(kind, spec) for kind in _KINDS]

    def _graph(self, encoder: Encoder, spec: Spec) -> Any:
        import tensorflow as tf  # every check requires it

        def function(x: Array, round_num: Scalar) -> Mapping[str, Array]:
            return round_trip(self.on, encoder, x, encoder.init_state(spec), round_num, spec)

        signature = [spec, tf.TensorSpec([], tf.int32)]
        return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()


def _copied(state: Mapping[str, Array]) -> dict[str, Array]:
    return {key: np.array(value) for key, value in state.items()}


def _require_tff() -> None:
    if importlib.util.find_spec("tensorflow_federated") is None:
        raise CannotRun("TensorFlow Federated is not installed")


def _in_tff(model: ModelEncoder, update: list[Array]) -> Any:
    """Runs the client's part of an encoded aggregation in a runtime of its own."""
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
