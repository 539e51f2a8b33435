"""EF21: the client and the server keep the same memory of the client, and the client sends what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_number
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.feedback.around import Around
from fedplug.encoders.pipeline.as_encoder import without_error_feedback
from fedplug.errors import CapabilityError
from fedplug.ops.types import Array, Spec
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["EF21"]


class EF21(Around):
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

    With ``momentum`` the memory follows ``v' = momentum v + (1 - momentum) x`` instead of x, and v starts as
    the first x: EF21-SGDM, for stochastic gradients. Its state is
    ``{"memory": g, "momentum": v, "rounds": int32[1]}``.

    Let C be contractive (``E ||C(x) - x||^2 <= (1 - a) ||x||^2``, as topk and sign are). With one local step
    per round and a small enough step, the squared norm of the gradient falls as 1 / rounds for any data, as
    without compression. Error feedback guarantees this to the power 2/3, and only for bounded gradients. With
    momentum it falls as 1 / sqrt(clients * rounds) for stochastic gradients of any batch size. Nothing is
    proved for several local steps.

    Sources: Richtárik, Sokolov, Fatkhullin, "EF21: A New, Simpler, Theoretically Better, and Practically
    Faster Error Feedback", NeurIPS 2021 (arXiv 2106.05203), algorithm 2; Fatkhullin et al., "EF21 with Bells
    & Whistles", 2021 (arXiv 2110.03294), algorithm 4 (partial participation); Fatkhullin, Tyurin, Richtárik,
    "Momentum Provably Improves Error Feedback!", NeurIPS 2023 (arXiv 2305.15155), algorithm 1.
    """

    name: ClassVar[str] = "ef21"

    def __init__(self, encoder: Encoder | str | Mapping[str, Any], *, momentum: float = 0.0) -> None:
        """Makes the encoder.

        Args:
            encoder: C, a biased encoder or an expression for one. Its error feedback is switched off, because
                the memory replaces it.
            momentum: The weight of the old v, at least 0 and below 1; the paper's ``1 - eta``.

        Raises:
            CapabilityError: The encoder is unbiased and lossy, or keeps a state that cannot be switched off.
            ConfigError: An argument is out of range, or the encoder is one for a whole model.
        """
        super().__init__(encoder)
        self._encoder = without_error_feedback(self._encoder)
        check_number("ef21 momentum", momentum, lambda part: 0 <= part < 1, "of at least 0 and below 1")
        self._momentum = momentum
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

    def arguments(self) -> dict[str, Any]:
        return {"momentum": self._momentum} if self._momentum else {}

    def init_state(self, spec: Spec) -> State:
        """See the class."""
        memory = ops.zeros(ops.wide_spec(spec))
        if not self._momentum:
            return {"memory": memory}
        rounds = ops.astype(ops.reshape(ops.asarray(0, like=memory), [1]), "int32")
        return {"memory": memory, "momentum": ops.zeros(ops.wide_spec(spec)), "rounds": rounds}

    def adjustment(self) -> None:
        """Returns None: the bytes and the error of a difference do not show what the update would need."""

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Array
    ) -> list[tuple[Payload, State]]:
        """Encodes the differences of all tensors that share this encoder together."""
        followed = [self._target(ops.widened(x), state) for x, state in zip(xs, states, strict=True)]
        differences = [
            self._difference(target, state["memory"], x)
            for x, (target, _), state in zip(xs, followed, states, strict=True)
        ]
        encoded = self._encoder.grouped_encode(differences, [{} for _ in xs], round_num)
        return [
            (payload, {"memory": self._moved(state["memory"], payload, x), **kept})
            for x, state, (_, kept), (payload, _) in zip(xs, states, followed, encoded, strict=True)
        ]

    def _target(self, x: Array, state: State) -> tuple[Array, State]:
        """Returns what the memory follows, x or v, and the next state without the memory."""
        if not self._momentum:
            return x, {}
        stays, comes = (
            ops.astype(ops.table_lookup(table, state["rounds"][0], "float32"), x.dtype)
            for table in ([0.0, self._momentum], [1.0, 1 - self._momentum])
        )
        mean = ops.reshape(ops.multiply(stays, state["momentum"]) + ops.multiply(comes, x), x.shape)
        return mean, {"momentum": mean, "rounds": state["rounds"] + 1}

    def _difference(self, target: Array, memory: Array, x: Array) -> Array:
        """Returns the difference in the shape and dtype of x."""
        difference = ops.require_finite(target - memory, "the difference that ef21 encodes")
        return ops.reshape(ops.narrowed(ops.reshape(difference, [-1]), x.dtype), x.shape)

    def _moved(self, memory: Array, payload: Payload, x: Array) -> Array:
        one = ops.asarray(1.0, like=memory)
        return ops.reshape(self._encoder.accumulate(memory, payload, one, ops.spec_of(x)), x.shape)
