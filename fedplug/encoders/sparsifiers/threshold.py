"""Threshold sparsification: sends all entries that are large enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_error_feedback, check_number
from fedplug.encoders.base import State
from fedplug.encoders.stages import Selection, Sparsifier
from fedplug.ops.threshold import threshold_residual_of_each
from fedplug.ops.types import Array
from fedplug.registry.specs import EXECUTIONS_AND_CUDA, Capabilities

__all__ = ["Threshold"]


class Threshold(Sparsifier):
    """Sends the entries of ``a = x + residual`` with ``|a| >= value``, which may be none or all of them.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("threshold(3)").encode(np.float32([1, -5, 2, 4]))
    >>> fedplug.decode(payload)
    array([ 0., -5.,  0.,  4.], dtype=float32)

    With error feedback the others stay in the residual: ``decode(payload) + residual' == a`` bit for bit.

    Sources: Strom, "Scalable Distributed DNN Training Using Commodity GPU Cloud Computing", Interspeech 2015
    (which sends the threshold instead of the value: ``threshold(...) | sign``); Dutta et al., "On the
    Discrepancy between the Theoretical Analysis and Practical Implementations of Compressed Communication for
    Distributed Deep Learning", AAAI 2020 (arXiv 1911.08250).

    With the default stages after it, for float32 about 5 bytes per entry sent if 1 % are sent, 0.05 bytes per
    element. The data decide how many are sent.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "threshold"

    def __init__(self, value: float, *, error_feedback: bool = True) -> None:
        """Makes the sparsifier.

        Args:
            value: The smallest magnitude that is sent; finite, above 0; rounded to float32, or to float64 for
                float64 tensors.
            error_feedback: Whether the client keeps what was not sent and adds it to its next update.

        Raises:
            ConfigError: ``value`` is not such a number.
        """
        check_number("threshold value", value, lambda magnitude: magnitude > 0, "above 0")
        check_error_feedback("threshold", error_feedback)
        self._value = value
        self.error_feedback = error_feedback

    @property
    def capabilities(self) -> Capabilities:
        """Biased; keeps state only with error feedback."""
        return Capabilities(
            needs_client_state=self.error_feedback,
            bounded_sensitivity=not self.error_feedback,
            executes_on=EXECUTIONS_AND_CUDA,
        )

    def get_config(self) -> dict[str, Any]:
        return {"value": self._value, "error_feedback": self.error_feedback}

    def select(self, x: Array, state: State, round_num: Array) -> Selection:
        return self.grouped_select([x], [state], round_num)[0]

    def grouped_select(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Array
    ) -> list[Selection]:
        """Selects from each tensor by itself."""
        del round_num
        before = [self.residual_of(x, state) for x, state in zip(xs, states, strict=True)]
        values = [ops.asarray(self._value, like=x) for x in xs]
        chosen = threshold_residual_of_each(xs, before, values)
        return [Selection(each.values, each.indices, self.state_of(each.residual)) for each in chosen]
