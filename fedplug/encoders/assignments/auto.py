"""The encoder to take without choosing one, by the size of the model. Must not know TFF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_error_feedback, check_share
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.entropy_coders.rans import Rans
from fedplug.encoders.pipeline.pipeline import Pipeline
from fedplug.encoders.pipeline.stc import STC
from fedplug.encoders.quantizers.bfp import BlockFloatingPoint
from fedplug.encoders.quantizers.qsgd import QSGD
from fedplug.ops.types import Spec
from fedplug.registry.specs import Capabilities

__all__ = ["Auto"]

_FRACTION = 0.01
_LEAST_ENTRIES = 500
_OFTEN = 0.2
_MOST = 0.05


class Auto(EncoderAssignment):
    """What to begin with, and often to stay with: some 270 times fewer bytes, or 8 without memory.

    With error feedback, where clients come back, it is ``stc(fraction, scope="model")``: of the entries
    of all tensors together the largest 1 %, of a small model 500, as their signs and one magnitude for
    each tensor. Where fewer than a fifth of the clients take part in a round it is more in proportion, at
    most 5 %: a client that is asked half as often sends twice as much. It is the same in all rounds: a
    warm-up did not win at equal bytes, see benchmarks/results/feedback.md.
    Without error feedback it is ``qsgd(4) | rans``, unbiased, for clients that come once.

    Of a broadcast it is ``bfp(5) | rans``, whose levels few entries leave while a model is trained.

    The tables of benchmarks/results/learning.md show 1 % and 5 bits; those of benchmarks/results/auto.md the
    500 entries, and what rare clients gain by sending more.
    """

    name: ClassVar[str] = "auto"

    def __init__(self, *, participation: float = 1.0, error_feedback: bool = True) -> None:
        """Makes the assignment.

        Args:
            participation: Clients of a round over all clients, above 0 and at most 1.
            error_feedback: Whether clients keep what was not sent, and send it later.

        Raises:
            ConfigError: One of them is out of range.
        """
        check_share("auto participation", participation)
        check_error_feedback("auto", error_feedback)
        self._participation = float(participation)
        self._error_feedback = error_feedback

    @property
    def capabilities(self) -> Capabilities:
        """Those of the encoder that it takes, which do not depend on the model."""
        return self._encoder(elements=1).capabilities

    def get_config(self) -> dict[str, Any]:
        return {"participation": self._participation, "error_feedback": self._error_feedback}

    def assign(self, specs: Sequence[Spec]) -> list[Encoder]:
        """One encoder for all tensors."""
        elements = sum(ops.num_elements(spec) for spec in specs if ops.is_floating(spec.dtype))
        return [self._encoder(elements)] * len(specs)

    def for_models(self) -> Encoder:
        """See the class."""
        return Pipeline([BlockFloatingPoint(5), Rans()])

    def _encoder(self, elements: int) -> Encoder:
        if not self._error_feedback:
            return Pipeline([QSGD(4), Rans()])
        often = min(_MOST, _FRACTION * max(1.0, _OFTEN / self._participation))
        fraction = min(1.0, max(often, _LEAST_ENTRIES / max(1, elements)))
        return STC(fraction, scope="model")
