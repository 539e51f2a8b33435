"""Deep gradient compression: top-k with momentum of what is not sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_number, check_whole
from fedplug.encoders.base import State
from fedplug.encoders.sparsity import Sparsity
from fedplug.encoders.stages import Selection, Sparsifier
from fedplug.errors import ConfigError
from fedplug.ops.topk_momentum import topk_momentum_of_each
from fedplug.ops.types import Array, Spec
from fedplug.registry.specs import EXECUTIONS_AND_CUDA, Capabilities
from fedplug.schedules import Exponential, Schedule

__all__ = ["DGC"]


class DGC(Sparsifier):
    """Accumulates updates with momentum, sends the largest sums, and clears the momentum of what was sent.

    >>> import fedplug, numpy as np
    >>> codec = fedplug.codec("dgc(0.25, momentum=0.5)")
    >>> payload, state = codec.encode(np.float32([1, -5, 2, 4]))
    >>> fedplug.decode(payload), state["momentum"]
    (array([ 0., -5.,  0.,  0.], dtype=float32), array([1., 0., 2., 4.], dtype=float32))

    With the client's ``u`` and ``v``: ``u' = momentum u + x`` and ``v' = v + u'`` (momentum correction); the
    k entries of largest ``|v'|`` are sent, and ``u'`` and ``v'`` are zero there afterwards (momentum factor
    masking). In round r, from 0, ``fraction^((r + 1) / (warmup_rounds + 1))`` of the entries are sent until r
    is ``warmup_rounds``: for ``dgc(0.001, warmup_rounds=4)`` 25, 6.3, 1.6, 0.4 and from then on 0.1 %. This
    depends on the round alone, so a restarted run continues. The paper's clipping of local gradients is left
    to the client optimizer.

    Source: Lin, Han, Mao, Wang, Dally, "Deep Gradient Compression: Reducing the Communication Bandwidth for
    Distributed Training", ICLR 2018 (arXiv 1712.01887), sections 3.1 to 3.3.

    With the default stages after it, for float32 about 5 bytes per entry sent if 1 % are sent, 0.05 bytes per
    element. The state has 2 numbers per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "dgc"
    sparsity: Sparsity

    def __init__(self, fraction: float | Schedule, *, momentum: float = 0.9, warmup_rounds: int = 0) -> None:
        """Makes the sparsifier.

        Args:
            fraction: The share of the elements of each tensor, above 0 and at most 1, or a schedule of such
                numbers; at least one entry is sent.
            momentum: The momentum, 0 to below 1; 0 is `TopK`.
            warmup_rounds: Number of rounds in which more is sent, 0 or more; 0 with a schedule.

        Raises:
            ConfigError: An argument is out of range.
        """
        plain = Sparsity("dgc", fraction, None)
        check_number("dgc momentum", momentum, lambda part: 0 <= part < 1, "of at least 0 and below 1")
        check_whole("dgc warmup_rounds", warmup_rounds, 0)
        if warmup_rounds and not isinstance(plain.fraction, int | float):
            raise ConfigError("dgc has both warmup_rounds and a schedule; put the warm-up into the schedule")
        self._plain = plain
        self.sparsity = Sparsity("dgc", _warmup(plain.fraction, warmup_rounds), None)
        self._momentum = momentum
        self._warmup_rounds = warmup_rounds

    @property
    def capabilities(self) -> Capabilities:
        """Biased, and useless without its state."""
        return Capabilities(needs_client_state=True, executes_on=EXECUTIONS_AND_CUDA)

    def get_config(self) -> dict[str, Any]:
        return {
            **self._plain.get_config(),
            "momentum": self._momentum,
            "warmup_rounds": self._warmup_rounds,
        }

    def init_state(self, spec: Spec) -> State:
        """Returns ``{"momentum": u, "residual": v}``, zeros like the spec."""
        return {"momentum": ops.zeros(spec), "residual": ops.zeros(spec)}

    def select(self, x: Array, state: State, round_num: Array) -> Selection:
        return self.grouped_select([x], [state], round_num)[0]

    def grouped_select(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Array
    ) -> list[Selection]:
        """Selects from each tensor by itself."""
        before = [[state[key] for state in states] for key in ("momentum", "residual")]
        counts = [self.sparsity.of_size(ops.num_elements(x), round_num) for x in xs]
        chosen = topk_momentum_of_each(xs, *before, counts, momentum=self._momentum)
        return [
            Selection(each.values, each.indices, {"momentum": each.velocity, "residual": each.residual})
            for each in chosen
        ]


def _warmup(fraction: Any, rounds: int) -> Any:
    return Exponential(fraction ** (1 / (rounds + 1)), fraction, rounds) if rounds else fraction
