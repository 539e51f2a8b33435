"""Pipelines: ``sparsifier | quantizer | entropy coder | index coder`` as one encoder, the only composite."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.encoders.assignment import Adjustable, Adjustment, EncoderAssignment, adjustment_of
from fedplug.encoders.base import BodyParts, Encoder, Measured, Payload, State
from fedplug.encoders.coders import Rice
from fedplug.encoders.pipeline.stage_order import Stage, Stages, arrange
from fedplug.encoders.pipeline.value_coder import BodyForm, ValueCoder
from fedplug.encoders.quantizers import Sign
from fedplug.encoders.sparsifiers import TopK
from fedplug.encoders.stages import Quantizer, Selection, Sparsifier
from fedplug.errors import CapabilityError, ConfigError
from fedplug.ops.checks import sums_may_overflow
from fedplug.ops.types import Array, DType, Scalar, Spec
from fedplug.registry.config import as_component, component_config
from fedplug.registry.specs import EXECUTIONS, Capabilities
from fedplug.schedules import Schedule

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["STC", "Pipeline", "as_encoder", "as_tensor_encoder", "without_error_feedback"]


class Pipeline(Encoder, Measured, Adjustable):
    """Selects entries, quantizes their values, shortens the symbols, and writes the indices.

    >>> import fedplug, numpy as np
    >>> fedplug.encoder("topk(0.01) | qsgd(8) | rans | rice")
    topk(fraction=0.01, error_feedback=True) | qsgd(bits=8, block_size=512, seed=0) | rans | rice
    >>> fedplug.encoder("topk(0.01) | qsgd(8) | rans").wire_id
    'sparse/1+qsgd/1+rans/1'

    Every stage may be left out. Without a sparsifier all entries are sent, and there are no indices. Without
    a quantizer values are sent uncompressed. Indices use the sparsifier's own coder, or ``rice``. So
    ``topk(0.01)`` means ``topk(0.01) | identity | rice``, and ``qsgd(8)`` is a pipeline of one stage.

    With error feedback, the sparsifier's residual also takes the quantizer's error of the selected entries,
    so that ``decode(payload) + residual' == x + residual``: bit for bit if values are sent uncompressed, else
    up to the rounding of one subtraction. Without a sparsifier the pipeline keeps the error of a quantizer
    with error feedback in a residual.

    Residuals of 16-bit tensors are float32, and entries are selected from float32 sums. What is sent is
    rounded to the tensor's dtype, at most to its largest number, and the residual takes the rest.

    With a sparsifier the wire id is ``"sparse/1"`` and the wire ids of the stages that are not the defaults,
    such as ``"sparse/1+qsgd/1"``. Without one it names the stages: ``"qsgd/1+rans/1"``.

    Attributes:
        by_role: The stages by their roles, with defaults.
        values: The coder of the values.
    """

    name: ClassVar[str] = "pipeline"

    def __init__(self, stages: Sequence[Stage | str | Mapping[str, object]]) -> None:
        """Makes the encoder.

        Args:
            stages: A sparsifier, a quantizer, an entropy coder and an index coder, in this order, each at
                most once. Each the stage itself, an expression, or ``{"name": ..., "config": {...}}``.

        Raises:
            CapabilityError: The stages are not in this order, or a stage has nothing to do.
            ConfigError: A configuration cannot be read, or the wire id would be too long.
            UnknownNameError: There is no such stage.
        """
        if isinstance(stages, str | Mapping):
            raise ConfigError(f"the stages of a pipeline are {stages!r}; give a list of them")
        self._given = [as_component(stage) for stage in stages]
        self.by_role: Stages = arrange(self._given)
        self.values = ValueCoder(self.by_role.quantizer, self.by_role.entropy_coder)
        sparse = self.by_role.sparsifier is not None
        self._form = BodyForm(self.values, self.by_role.index_coder if sparse else None)
        self._executes_on()
        if len(self.wire_id) > wire.MAX_WIRE_ID:
            raise ConfigError(
                f"a wire id has at most {wire.MAX_WIRE_ID} characters, and that of {self!r} is longer: "
                f"{self.wire_id!r}; its stages need shorter ones"
            )

    @classmethod
    def compose(cls, components: Sequence[Any]) -> Encoder | EncoderAssignment:
        """Joins these components: returns a single encoder itself, or a pipeline of stages."""
        if len(components) == 1 and isinstance(components[0], Encoder | EncoderAssignment):
            return components[0]
        return cls(components)

    @functools.cached_property
    def wire_id(self) -> str:  # type: ignore[override]  # a constant of every other encoder
        """See the class."""
        return self._form.wire_id

    @property
    def capabilities(self) -> Capabilities:
        """The promises of the sparsifier, as far as the quantizer keeps them."""
        values = self.values.capabilities
        executes_on = self._executes_on()
        compiled = any(stage.capabilities.needs_op_library for stage in self.stages)
        fixed_size = all(stage.capabilities.fixed_size for stage in self.stages)
        if self.by_role.sparsifier is None:
            return dataclasses.replace(
                values, executes_on=executes_on, needs_op_library=compiled, fixed_size=fixed_size
            )
        kept = self.by_role.sparsifier.capabilities
        return Capabilities(
            unbiased=kept.unbiased and values.unbiased,
            commutes_with_sum=kept.commutes_with_sum and values.commutes_with_sum,
            needs_client_state=kept.needs_client_state,
            needs_seed=kept.needs_seed or values.needs_seed,
            secure_aggregation_safe=kept.secure_aggregation_safe and values.secure_aggregation_safe,
            bounded_sensitivity=kept.bounded_sensitivity and values.bounded_sensitivity,
            compares_tensors=kept.compares_tensors,
            fixed_size=fixed_size,
            dtypes=tuple(dtype for dtype in kept.dtypes if dtype in values.dtypes),
            executes_on=executes_on,
            needs_op_library=compiled,
        )

    @property
    def stages(self) -> list[Stage]:
        """The stages that run, including the defaults."""
        sparsifier, quantizer, entropy_coder, index_coder = self.by_role
        used: list[Stage | None] = [quantizer, entropy_coder]
        if sparsifier is not None:
            used += [sparsifier, index_coder]
        return [stage for stage in used if stage is not None]

    def _executes_on(self) -> tuple[str, ...]:
        sparsifier = self.by_role.sparsifier
        each = [stage.capabilities.executes_on for stage in self.stages]
        common = tuple(kind for kind in EXECUTIONS if all(kind in kinds for kinds in each))
        first: Stage = sparsifier or self.by_role.quantizer
        if "cuda" in first.capabilities.executes_on and "numpy" in common:
            common += ("cuda",)  # what it leaves there, the other stages are given on the host
        if self.by_role.entropy_coder is not None and self.values.is_wide:
            common = tuple(kind for kind in common if kind != "tensorflow")
        if not common:
            raise CapabilityError(
                f"the stages of {self!r} cannot be given the same arrays: one takes only NumPy arrays, "
                "another only TensorFlow's tensors"
            )
        return common

    def get_config(self) -> dict[str, object]:
        """Returns the given stages, by name and configuration."""
        return {"stages": [component_config(stage) for stage in self._given]}

    def init_state(self, spec: Spec) -> State:
        """Returns the sparsifier's state; without one the residual of a quantizer with error feedback."""
        if self.by_role.sparsifier is not None:
            return self.by_role.sparsifier.init_state(ops.wide_spec(spec))
        keeps_error = self.by_role.quantizer.error_feedback
        return {"residual": ops.zeros(ops.wide_spec(spec))} if keeps_error else {}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        if self.by_role.sparsifier is None:
            return self._encode_dense(x, state, round_num)
        chosen = self.by_role.sparsifier.select(ops.widened(x), state, round_num)
        return self._encode_sparse(x, chosen, round_num)

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[tuple[Payload, State]]:
        """Encodes the entries that the sparsifier selects from all tensors, each as a payload of its own."""
        if self.by_role.sparsifier is None:
            return super().grouped_encode(xs, states, round_num)
        selections = self.by_role.sparsifier.grouped_select([ops.widened(x) for x in xs], states, round_num)
        return [self._encode_sparse(x, chosen, round_num) for x, chosen in zip(xs, selections, strict=True)]

    def _encode_dense(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        if not self.by_role.quantizer.error_feedback:
            return self.values.payload(ops.reshape(x, [-1]), round_num, known=False), {}
        a = ops.reshape(ops.add_residual(ops.widened(x), state["residual"]), [-1])
        payload = self.values.payload(ops.narrowed(a, x.dtype), round_num, known=True)
        residual = ops.subtract(a, ops.widened(payload["values"]))
        return payload, {"residual": ops.reshape(residual, x.shape)}

    def _encode_sparse(self, x: Array, chosen: Selection, round_num: Scalar) -> tuple[Payload, State]:
        values, next_state = self._quantized(chosen, x.dtype, round_num)
        index_code = self.by_role.index_coder.encode(chosen.indices, ops.num_elements(x), round_num)
        return {**values, "indices": chosen.indices, "index_code": index_code}, next_state

    def _quantized(self, chosen: Selection, dtype: DType, round_num: Scalar) -> tuple[Payload, State]:
        """Quantizes the selected values in this dtype. Returns them, and the next state with the losses."""
        assert self.by_role.sparsifier is not None
        narrow = ops.narrowed(chosen.values, dtype)
        loses = bool(chosen.state) and not (self.values.lossless and narrow is chosen.values)
        values = self.values.payload(narrow, round_num, known=loses)
        if not loses:
            return values, chosen.state
        with sums_may_overflow():
            lost = chosen.values - ops.widened(values["values"])
        ops.require_finite(lost, f"the error of {self.values.wire_id}, which the residual would keep,")
        update = self.by_role.sparsifier.update_residuals
        return values, update([chosen.state], [lost], [chosen.indices])[0]

    def decode(self, payload: Payload, spec: Spec) -> Array:
        return self._form.decode(payload, spec)

    def accumulate(self, accumulator: Array, payload: Payload, weight: Array, spec: Spec) -> Array:
        """Touches only the payload's entries if there is a sparsifier."""
        if self.by_role.sparsifier is None:
            return super().accumulate(accumulator, payload, weight, spec)
        values = self.values.values_of(payload, ops.size(payload["indices"]), spec.dtype)
        values = ops.astype(values, accumulator.dtype)
        weights = ops.reshape(weight, [1])
        return ops.scatter_decode_add(accumulator, values, payload["indices"], weights=weights)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        del spec
        return self._form.to_wire(payload)

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        return self._form.from_wire(body, spec)

    def body_parts(self, body: Array, spec: Spec) -> BodyParts:
        return self._form.body_parts(body, spec)

    @property
    def entry_coder(self) -> ValueCoder | None:
        """The coder of the values if all entries are sent and each has a symbol of its own; else None."""
        return self.values if self.by_role.sparsifier is None and self.values.has_symbols else None

    def adjustment(self) -> Adjustment | None:
        """Returns itself if a sparsifier counts entries, or the result of a quantizer that stands alone."""
        sparsifier, quantizer, entropy_coder, _ = self.by_role
        if sparsifier is not None:
            return self if sparsifier.sparsity is not None else None
        return adjustment_of(quantizer) if entropy_coder is None else None

    @property
    def encoder(self) -> Encoder:
        return self

    @property
    def adjusts(self) -> Literal["entries"]:
        return "entries"

    def at_rate(self, rate: Scalar) -> Self:
        """Returns the pipeline whose sparsifier sends ``rate`` times as many entries; for one round."""
        sparsifier = copy.copy(self.by_role.sparsifier)
        assert sparsifier is not None
        assert sparsifier.sparsity is not None
        sparsifier.sparsity = sparsifier.sparsity.at_rate(rate)
        adjusted = copy.copy(self)
        adjusted.by_role = self.by_role._replace(sparsifier=sparsifier)
        return adjusted

    def min_bytes(self, spec: Spec) -> int:
        """Returns 0, which is a bound for every payload."""
        del spec
        return 0

    def __repr__(self) -> str:
        return " | ".join(map(repr, self._given))


class STC(Pipeline):
    """Selects the top k entries, and sends their signs and their mean magnitude, with error feedback.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("stc(0.5)").encode(np.float32([1, -5, 2, 4]))
    >>> fedplug.decode(payload)
    array([ 0. , -4.5,  0. ,  4.5], dtype=float32)

    The mean is over the selected entries: over all n it would shrink the update by the sparsity.

    Source: Sattler, Wiedemann, Müller, Samek, "Robust and Communication-Efficient Federated Learning from
    Non-IID Data", IEEE TNNLS 2019 (arXiv 1903.02891), algorithm 1, equations 8 to 10 and the Golomb code of
    algorithm 3.

    The wire form is that of ``topk(fraction) | sign | rice``: about ``log2(n / k) + 2.5`` bits per entry.
    At k/n = 1 % these are 0.011 bytes per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "stc"

    def __init__(
        self,
        fraction: float | Schedule | None = None,
        *,
        count: int | None = None,
        error_feedback: bool = True,
        scope: str = "tensor",
    ) -> None:
        """Makes the encoder. Arguments and errors as for `TopK`."""
        try:
            self._topk = TopK(fraction, count=count, error_feedback=error_feedback, scope=scope)
        except ConfigError as error:
            raise ConfigError(f"stc: {error}") from error
        super().__init__([self._topk, Sign(), Rice()])

    def get_config(self) -> dict[str, object]:
        return self._topk.get_config()

    def __repr__(self) -> str:
        return Encoder.__repr__(self)


def as_encoder(value: object) -> Any:
    """Returns the encoder or assignment that an argument describes. Other values are returned unchanged.

    Args:
        value: The argument, as for `fedplug.registry.config.as_component`; a sparsifier or quantizer becomes
            a pipeline of that stage.

    Raises:
        ConfigError: The argument cannot be read, or a component refuses its arguments.
        UnknownNameError: There is no such component or argument.
    """
    component = as_component(value)
    return Pipeline([component]) if isinstance(component, Sparsifier | Quantizer) else component


def as_tensor_encoder(value: object, what: str) -> Encoder:
    """Returns the encoder of one tensor that an argument describes.

    Args:
        value: The argument, as for `as_encoder`.
        what: The purpose for the error message, as in "the encoder of a rule".

    Raises:
        ConfigError: The argument is something else, or cannot be read.
        UnknownNameError: There is no such component.
    """
    encoder = as_encoder(value)
    if not isinstance(encoder, Encoder):
        raise ConfigError(f"{what} is {encoder!r}; it must be one for a tensor, such as 'topk(0.01)'")
    return encoder


def without_error_feedback(encoder: Any) -> Any:
    """Returns the same encoder or assignment with all error feedback switched off."""
    return encoder.from_config(_switched_off(encoder.get_config()))


def _switched_off(config: object) -> Any:
    """Returns a configuration with every ``error_feedback`` set to false."""
    if isinstance(config, Mapping):
        return {key: key != "error_feedback" and _switched_off(value) for key, value in config.items()}
    return [_switched_off(value) for value in config] if isinstance(config, list) else config
