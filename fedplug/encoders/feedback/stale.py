"""What a residual is worth to a client that missed rounds: less, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_share, check_whole
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.feedback.around import Around
from fedplug.errors import CapabilityError, ConfigError
from fedplug.ops import Array, Spec
from fedplug.registry.specs import Capabilities
from fedplug.schedules import MAX_ROUNDS

__all__ = ["Stale"]

_NOTHING = 2.0**-24
"""A smaller share is none: it changes no float32 sum with what it is a share of."""


class Stale(Around):
    """The inner encoder, whose error feedback forgets with the rounds that a client misses.

    A client that took part in round r, and then in round s, missed ``m = s - r - 1``. Its residual is
    multiplied by ``decay^m``, rounded to float32, and by nothing where m is above
    ``drop_after``; then the inner encoder does as ever. A client that misses none has the bits it would have
    without this. Without this encoder a residual is kept as it is: that conserves what the client wanted to
    say, and is the default as it is the better one where updates stay useful; see docs/error-feedback.md.

    The state is that of the inner encoder and ``"last_round"``, int32[1]. Where the caller counts no rounds
    (`Codec.encode` without ``round_num``) none are missed.

    Source: staleness weighting of asynchronous training, for instance Xie, Koyejo, Gupta, "Asynchronous
    Federated Optimization", 2019 (arXiv 1903.03934), section 5, taken over to residuals.
    """

    name: ClassVar[str] = "stale"

    def __init__(
        self,
        encoder: Encoder | str | Mapping[str, Any],
        *,
        decay: float = 1.0,
        drop_after: int | None = None,
    ) -> None:
        """One of ``decay`` and ``drop_after`` is given, or both.

        Args:
            encoder: With error feedback, such as ``"topk(0.01) | qsgd(8)"``.
            decay: The share of the residual that a missed round leaves, above 0 and at most 1.
            drop_after: So many missed rounds leave it as it is, or to its decay, and more leave nothing; 0 or
                more. Default: any number does.

        Raises:
            CapabilityError: The encoder keeps no residual; one of differences must not forget, as the server
                remembers.
            ConfigError: Neither is given, or one is out of range.
        """
        super().__init__(encoder)
        check_share("stale decay", decay)
        if drop_after is not None:
            check_whole("stale drop_after", drop_after, 0, MAX_ROUNDS - 1)
        if decay == 1 and drop_after is None:
            raise ConfigError(
                "stale without decay and drop_after would keep everything, as encoders do without it; give "
                "one of them, as in stale('topk(0.01)', decay=0.9)"
            )
        inner = self._encoder.capabilities
        if inner.memory_rate is not None or not inner.needs_client_state:
            raise CapabilityError(
                f"stale is for residuals, and {self._encoder!r} has none that it could forget"
                + ("; a memory is the server's, too" if inner.memory_rate is not None else "")
                + "; use an encoder with error feedback, such as topk(0.01)"
            )
        self._decay = decay
        self._drop_after = drop_after
        self._shares = _shares(decay, drop_after)

    @property
    def capabilities(self) -> Capabilities:
        """Those of the inner encoder."""
        return self._encoder.capabilities

    def arguments(self) -> dict[str, Any]:
        given = {"decay": self._decay, "drop_after": self._drop_after}
        defaults = {"decay": 1.0, "drop_after": None}
        return {key: value for key, value in given.items() if value != defaults[key]}

    def around(self, encoder: Encoder) -> Any:
        """See `Encoder.around`: what keeps nothing is used as it is."""
        return super().around(encoder) if encoder.capabilities.needs_client_state else encoder

    def init_state(self, spec: Spec) -> State:
        """See the class; round 0, as a residual of zeros is worth the same in all of them."""
        state = self._encoder.init_state(spec)
        if not state:
            return state
        zero = ops.asarray(0, like=next(iter(state.values())))
        return {**state, "last_round": ops.astype(ops.reshape(zero, [1]), "int32")}

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Array
    ) -> list[tuple[Payload, State]]:
        """As the inner encoder, from what is left of each residual."""
        encoded = self._encoder.grouped_encode(xs, [self._left(s, round_num) for s in states], round_num)
        now = ops.reshape(ops.astype(round_num, "int32"), [1])
        return [
            (payload, {**kept, "last_round": now} if state else kept)
            for state, (payload, kept) in zip(states, encoded, strict=True)
        ]

    def kept_residual(self, state: State) -> Array | None:
        return self._encoder.kept_residual(_inner(state))

    def fade(self, state: State, share: Array) -> State:
        """See `Encoder.fade`."""
        return {**state, **self._encoder.fade(_inner(state), share)}

    def _left(self, state: State, round_num: Array) -> State:
        if not state:
            return state
        missed = round_num - state["last_round"][0] - 1
        return self._encoder.fade(_inner(state), ops.table_lookup(self._shares, missed, "float32"))


def _shares(decay: float, drop_after: int | None) -> list[float]:
    """Of the residual, for 0, 1, 2 missed rounds and so on; the last one is that of all others, too."""
    most = MAX_ROUNDS - 1 if drop_after is None else drop_after
    shares = [1.0]
    while len(shares) <= most and shares[-1] * decay >= _NOTHING:
        shares.append(shares[-1] * decay)
    return [*shares, 0.0]


def _inner(state: State) -> State:
    return {key: value for key, value in state.items() if key != "last_round"}
