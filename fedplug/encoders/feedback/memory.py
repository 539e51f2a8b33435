"""Encoders of differences: client and server remember what the client last said, and it sends the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_number, check_share
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.feedback.around import Around
from fedplug.encoders.pipeline.as_encoder import without_error_feedback
from fedplug.errors import CapabilityError
from fedplug.ops.types import Array, Spec
from fedplug.registry.specs import Capabilities

__all__ = ["EF21", "Artemis", "Differences"]


class Differences(Around):
    """Encodes ``x - memory``; then ``memory' = memory + rate * decode(payload)``, as on the server.

    What is decoded is a difference and no update: the server adds it to the mean of all clients' memories,
    which the aggregator `fedplug.tff.aggregators.MemoryMean` keeps. A mean of what is decoded is wrong, and
    refused. The state is ``{"memory": like the tensor}``, zeros at first, as the server knows them; float32
    for a 16-bit tensor.
    """

    rate: float

    def __init__(self, encoder: Encoder | str | Mapping[str, Any]) -> None:
        """Takes an encoder, whose error feedback is switched off: the memory is in its place.

        Raises:
            CapabilityError: The encoder keeps a state that cannot be switched off.
            ConfigError: It is none, or one for a whole model.
        """
        super().__init__(encoder)
        self._encoder = without_error_feedback(self._encoder)
        if self._encoder.capabilities.needs_client_state:
            raise CapabilityError(
                f"{self.name} keeps a memory on the client, and {self._encoder!r} a state of its own, which "
                "would count twice what it holds back; use another encoder, such as topk(0.01)"
            )

    @property
    def capabilities(self) -> Capabilities:
        """Of what the encoder promises of ``x``, what is as true of a difference."""
        inner = self._encoder.capabilities
        return Capabilities(
            commutes_with_sum=inner.commutes_with_sum,
            needs_client_state=True,
            needs_seed=inner.needs_seed,
            secure_aggregation_safe=inner.secure_aggregation_safe,
            sends_every_entry=inner.sends_every_entry,
            memory_rate=self.rate,
            dtypes=inner.dtypes,
            executes_on=inner.executes_on,
            needs_op_library=inner.needs_op_library,
        )

    def init_state(self, spec: Spec) -> State:
        return {"memory": ops.zeros(ops.wide_spec(spec))}

    def adjustable(self) -> None:
        """Nothing: of a difference neither bytes nor error say what the update would need."""

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Array
    ) -> list[tuple[Payload, State]]:
        """The differences of all tensors that share this encoder, encoded together."""
        followed = [self.follow(ops.widened(x), state) for x, state in zip(xs, states, strict=True)]
        differences = [
            self._difference(target, state["memory"], x)
            for x, (target, _), state in zip(xs, followed, states, strict=True)
        ]
        encoded = self._encoder.grouped_encode(differences, [{} for _ in xs], round_num)
        return [
            (payload, {"memory": self._moved(state["memory"], payload, x), **kept})
            for x, state, (_, kept), (payload, _) in zip(xs, states, followed, encoded, strict=True)
        ]

    def follow(self, x: Array, state: State) -> tuple[Array, State]:
        """What the memory follows, ``x`` itself, and what of the next state is beside the memory."""
        del state
        return x, {}

    def _difference(self, target: Array, memory: Array, x: Array) -> Array:
        """The difference, which the encoder takes in shape and dtype of ``x``."""
        difference = ops.require_finite(target - memory, f"the difference that {self.name} encodes")
        return ops.reshape(ops.narrowed(ops.reshape(difference, [-1]), x.dtype), x.shape)

    def _moved(self, memory: Array, payload: Payload, x: Array) -> Array:
        rate = ops.asarray(self.rate, like=memory)
        return ops.reshape(self._encoder.accumulate(memory, payload, rate, ops.spec_of(x)), x.shape)


class EF21(Differences):
    """The memory follows the update: ``payload = C(x - g)``, ``g' = g + decode(payload)``.

    With ``momentum`` it follows ``v' = momentum v + (1 - momentum) x`` instead, which begins as the first x:
    EF21-SGDM, for stochastic gradients. Its state is ``{"memory": g, "momentum": v, "rounds": int32[1]}``.

    The aggregator is ``memory_mean(clients)``. With C contractive (``E ||C(x) - x||^2 <= (1 - a) ||x||^2``,
    as topk and sign are), one local step a round and a step that is small enough, the gradient's squared norm
    falls as 1 / rounds, like without compression, whatever the clients' data; error feedback promises that
    to the power 2/3, and only where gradients are bounded. With momentum gradients may be stochastic, of any
    number of samples: it falls as 1 / sqrt(clients * rounds) in the long run, like without compression. With
    several local steps these are updates, of which nothing is proved.

    Sources: Richtárik, Sokolov, Fatkhullin, "EF21: A New, Simpler, Theoretically Better, and Practically
    Faster Error Feedback", NeurIPS 2021 (arXiv 2106.05203), algorithm 2; Fatkhullin et al., "EF21 with Bells
    & Whistles", 2021 (arXiv 2110.03294), algorithm 4 (partial participation); Fatkhullin, Tyurin, Richtárik,
    "Momentum Provably Improves Error Feedback!", NeurIPS 2023 (arXiv 2305.15155), algorithm 1.
    """

    name: ClassVar[str] = "ef21"
    rate = 1.0

    def __init__(self, encoder: Encoder | str | Mapping[str, Any], *, momentum: float = 0.0) -> None:
        """Makes the encoder.

        Args:
            encoder: C, an encoder or expression; biased, as an unbiased one need not be contractive. Its
                error feedback is switched off.
            momentum: The share of v that stays, at least 0 and below 1; the paper's ``1 - eta``.

        Raises:
            CapabilityError: The encoder is unbiased and loses something, or keeps a state of its own.
            ConfigError: An argument is out of range.
        """
        super().__init__(encoder)
        check_number("ef21 momentum", momentum, lambda part: 0 <= part < 1, "of at least 0 and below 1")
        self._momentum = momentum
        if (inner := self._encoder.capabilities).unbiased and not inner.lossless:
            raise CapabilityError(
                f"ef21 needs an encoder whose error is smaller than its input, and {self._encoder!r} is "
                "unbiased, at the price of an error that may be larger; use "
                f"artemis({str(self._encoder)!r}), or topk(0.01)"
            )

    def arguments(self) -> dict[str, Any]:
        return {"momentum": self._momentum} if self._momentum else {}

    def init_state(self, spec: Spec) -> State:
        """See the class."""
        state = super().init_state(spec)
        if not self._momentum:
            return state
        rounds = ops.astype(ops.reshape(ops.asarray(0, like=state["memory"]), [1]), "int32")
        return {**state, "momentum": ops.zeros(ops.wide_spec(spec)), "rounds": rounds}

    def follow(self, x: Array, state: State) -> tuple[Array, State]:
        """``x``, or the mean with momentum."""
        if not self._momentum:
            return x, {}
        stays, comes = (
            ops.astype(ops.table_lookup(table, state["rounds"][0], "float32"), x.dtype)
            for table in ([0.0, self._momentum], [1.0, 1 - self._momentum])
        )
        mean = ops.reshape(ops.multiply(stays, state["momentum"]) + ops.multiply(comes, x), x.shape)
        return mean, {"momentum": mean, "rounds": state["rounds"] + 1}


class Artemis(Differences):
    """The memory follows at a rate: ``payload = C(x - h)``, ``h' = h + rate * decode(payload)``.

    DIANA's memory, for unbiased C. The aggregator is ``memory_mean(clients, rate=..., estimate="sampled")``:
    unbiased, and with ``rate <= 1 / (1 + w)`` (``E ||C(x) - x||^2 <= w ||x||^2``) its variance goes to zero
    with the differences, where without a memory it stays as large as the clients differ. Of a broadcast it is
    MCM, see `fedplug.tff.process.distribution.reference`.

    Sources: Mishchenko, Gorbunov, Takáč, Richtárik, "Distributed Learning with Compressed Gradient
    Differences", 2019 (arXiv 1901.09269), algorithm 1; Philippenko and Dieuleveut, "Bidirectional
    compression in heterogeneous settings for distributed or federated learning with partial participation",
    2020 (arXiv 2006.14591), the uplink of algorithm 1 and the second way of partial participation (PP2).
    """

    name: ClassVar[str] = "artemis"

    def __init__(self, encoder: Encoder | str | Mapping[str, Any], *, rate: float = 0.1) -> None:
        """Makes the encoder.

        Args:
            encoder: C, an encoder or expression; unbiased.
            rate: The paper's alpha, above 0 and at most 1; that of the aggregator.

        Raises:
            CapabilityError: The encoder is biased, or keeps a state of its own.
            ConfigError: An argument is out of range.
        """
        super().__init__(encoder)
        check_share("artemis rate", rate)
        self.rate = float(rate)
        if not self._encoder.capabilities.unbiased:
            raise CapabilityError(
                f"artemis needs an unbiased encoder, and {self._encoder!r} is biased; use "
                f"ef21({str(self._encoder)!r}), or qsgd(8)"
            )

    def arguments(self) -> dict[str, Any]:
        return {"rate": self.rate}
