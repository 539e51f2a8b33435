"""EF21: client and server keep the same memory of the client, and the client sends differences from it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import fedplug.ops as ops
from fedplug.encoders.base import BodyParts, Encoder, Measured, Payload, State, body_parts
from fedplug.encoders.pipeline.pipeline import as_tensor_encoder, without_error_feedback
from fedplug.errors import CapabilityError
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.config import component_config
from fedplug.registry.specs import EXECUTIONS, Capabilities

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["EF21"]


class EF21(Encoder, Measured):
    """Encodes the difference from a memory: ``payload = C(x - g)``, ``g' = g + decode(payload)``.

    >>> import fedplug, numpy as np
    >>> codec = fedplug.codec("ef21('topk(0.5)')")
    >>> payload, state = codec.encode(np.float32([1, -5, 2, 4]))
    >>> payload, state = codec.encode(np.float32([1, -5, 2, 4]), state)
    >>> fedplug.decode(payload), state["memory"]
    (array([1., 0., 2., 0.], dtype=float32), array([ 1., -5.,  2.,  4.], dtype=float32))

    The decoded tensor is a difference, not an update. The aggregator `fedplug.tff.aggregators.MemoryMean`,
    ``memory_mean(clients)``, adds it to the mean of all clients' memories; a plain mean is refused. The state
    is ``{"memory": g}``, initially zeros, in float32 for a 16-bit tensor.

    Let C be contractive (``E ||C(x) - x||^2 <= (1 - a) ||x||^2``, as topk and sign are). With one local step
    per round and a small enough step, the squared norm of the gradient falls as 1 / rounds for any data, as
    without compression. Error feedback guarantees this to the power 2/3, and only for bounded gradients.
    Nothing is proved for several local steps.

    Sources: Richtárik, Sokolov, Fatkhullin, "EF21: A New, Simpler, Theoretically Better, and Practically
    Faster Error Feedback", NeurIPS 2021 (arXiv 2106.05203), algorithm 2. Fatkhullin et al., "EF21 with Bells
    & Whistles", 2021 (arXiv 2110.03294), algorithm 4 (partial participation).
    """

    name: ClassVar[str] = "ef21"

    def __init__(self, encoder: Encoder | str | Mapping[str, object]) -> None:
        """Makes the encoder.

        Args:
            encoder: C, a biased encoder or an expression for one. Its error feedback is switched off, because
                the memory replaces it.

        Raises:
            CapabilityError: The encoder is unbiased and lossy, or keeps a state that cannot be switched off.
            ConfigError: The encoder is one for a whole model.
        """
        self._encoder: Encoder = without_error_feedback(as_tensor_encoder(encoder, "the encoder in ef21"))
        inner = self._encoder.capabilities
        if inner.needs_client_state:
            raise CapabilityError(
                f"ef21 keeps a memory on the client, and {self._encoder!r} keeps a state of its own, so what "
                "is held back would count twice; use another encoder, such as topk(0.01)"
            )
        if inner.unbiased and not inner.lossless:
            raise CapabilityError(
                f"ef21 needs an encoder whose error is smaller than its input, and {self._encoder!r} is "
                "unbiased, so its error may be larger; use topk(0.01)"
            )

    @property
    def wire_id(self) -> str:  # type: ignore[override]  # a constant of most others
        """The wire id of the inner encoder."""
        return self._encoder.wire_id

    @property
    def capabilities(self) -> Capabilities:
        """The promises of the inner encoder that also hold for differences."""
        inner = self._encoder.capabilities
        return Capabilities(
            commutes_with_sum=inner.commutes_with_sum,
            needs_client_state=True,
            needs_seed=inner.needs_seed,
            secure_aggregation_safe=inner.secure_aggregation_safe,
            sends_every_entry=inner.sends_every_entry,
            sends_differences=True,
            compares_tensors=inner.compares_tensors,
            fixed_size=inner.fixed_size,
            decode_copies=inner.decode_copies,
            dtypes=inner.dtypes,
            executes_on=tuple(kind for kind in EXECUTIONS if kind in inner.executes_on),
            needs_op_library=inner.needs_op_library,
        )

    def init_state(self, spec: Spec) -> State:
        """See the class."""
        return {"memory": ops.zeros(ops.wide_spec(spec))}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Encodes one tensor by `grouped_encode`."""
        return self.grouped_encode([x], [state], round_num)[0]

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[tuple[Payload, State]]:
        """Encodes the differences of all tensors that share this encoder together."""
        differences = [
            self._difference(ops.widened(x), state["memory"], x) for x, state in zip(xs, states, strict=True)
        ]
        encoded = self._encoder.grouped_encode(differences, [{} for _ in xs], round_num)
        return [
            (payload, {"memory": self._moved(state["memory"], payload, x)})
            for x, state, (payload, _) in zip(xs, states, encoded, strict=True)
        ]

    def around(self, encoder: Encoder) -> Self:
        """Returns a copy around another encoder."""
        other = copy.copy(self)
        other._encoder = encoder
        return other

    def decode(self, payload: Payload, spec: Spec) -> Array:
        return self._encoder.decode(payload, spec)

    def accumulate(self, accumulator: Array, payload: Payload, weight: Array, spec: Spec) -> Array:
        return self._encoder.accumulate(accumulator, payload, weight, spec)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        return self._encoder.to_wire(payload, spec)

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        return self._encoder.from_wire(body, spec)

    def body_parts(self, body: Array, spec: Spec) -> BodyParts:
        return body_parts(self._encoder, body, spec)

    def get_config(self) -> dict[str, object]:
        return {"encoder": component_config(self._encoder)}

    def __repr__(self) -> str:
        return f"{self.name}({str(self._encoder)!r})"

    def _difference(self, wide: Array, memory: Array, x: Array) -> Array:
        """Returns the difference in the shape and dtype of x."""
        difference = ops.require_finite(wide - memory, "the difference that ef21 encodes")
        return ops.reshape(ops.narrowed(ops.reshape(difference, [-1]), x.dtype), x.shape)

    def _moved(self, memory: Array, payload: Payload, x: Array) -> Array:
        one = ops.asarray(1.0, like=memory)
        return ops.reshape(self._encoder.accumulate(memory, payload, one, ops.spec_of(x)), x.shape)
