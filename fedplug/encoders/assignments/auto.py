"""The default encoder, chosen by the size of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import fedplug.ops as ops
from fedplug.encoders.arguments import check_error_feedback, check_share
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.coders import Rans
from fedplug.encoders.pipeline.pipeline import STC, Pipeline
from fedplug.encoders.quantizers import QSGD, BlockFloatingPoint
from fedplug.ops.types import Spec
from fedplug.registry.specs import Capabilities

__all__ = ["Auto"]

_FRACTION = 0.01
_LEAST_ENTRIES = 500
_OFTEN = 0.2
_MOST = 0.05


class Auto(EncoderAssignment):
    """Compresses without choosing an encoder: about 270 times fewer bytes, or 8 times without client state.

    >>> import fedplug, numpy as np
    >>> model = {"kernel": np.ones((100, 100), np.float32), "bias": np.ones(10, np.float32)}
    >>> payloads, _ = fedplug.codec("auto").encode_model(model)
    >>> {name: fedplug.wire.unframe(payload).wire_id for name, payload in payloads.items()}
    {'kernel': 'sparse/1+sign/1', 'bias': 'identity/1'}

    With error feedback, for clients that return, it is ``stc(fraction, scope="model")``: of the entries of
    all tensors together it sends the largest 1 %, and of a small model 500, as signs and one magnitude per
    tensor. If fewer than a fifth of the clients take part in a round, the fraction grows in proportion, up to
    5 %: a client that takes part half as often sends twice as much. The fraction is the same in all rounds: a
    warm-up was not better at equal bytes, see benchmarks/results/feedback.md. Without error feedback, for
    clients that come once, it is ``qsgd(4) | rans``, which is unbiased.

    For a broadcast it is ``bfp(4) | rans``: few entries change their level while a model is trained.

    benchmarks/results/learning.md has the results for 1 % and 4 bits, and benchmarks/results/auto.md those
    for the 500 entries and for rare clients.
    """

    name: ClassVar[str] = "auto"

    def __init__(self, *, participation: float = 1.0, error_feedback: bool = True) -> None:
        """Makes the assignment.

        Args:
            participation: The share of all clients in a round, above 0 and at most 1.
            error_feedback: Whether clients keep the unsent part, and send it later.

        Raises:
            ConfigError: An argument is out of range.
        """
        check_share("auto participation", participation)
        check_error_feedback("auto", error_feedback)
        self._participation = float(participation)
        self._error_feedback = error_feedback

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the chosen encoder, which do not depend on the model."""
        return self._encoder(elements=1).capabilities

    def get_config(self) -> dict[str, object]:
        return {"participation": self._participation, "error_feedback": self._error_feedback}

    def assign(self, specs: Sequence[Spec]) -> list[Encoder]:
        """Returns the same encoder for all tensors."""
        elements = sum(ops.num_elements(spec) for spec in specs if ops.is_floating(spec.dtype))
        return [self._encoder(elements)] * len(specs)

    def for_models(self) -> Encoder:
        return Pipeline([BlockFloatingPoint(4), Rans()])

    def _encoder(self, elements: int) -> Encoder:
        if not self._error_feedback:
            return Pipeline([QSGD(4), Rans()])
        often = min(_MOST, _FRACTION * max(1.0, _OFTEN / self._participation))
        fraction = min(1.0, max(often, _LEAST_ENTRIES / max(1, elements)))
        return STC(fraction, scope="model")
