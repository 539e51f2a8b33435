"""Threshold sparsification: sends all entries that are large enough."""

from __future__ import annotations

from typing import ClassVar

from fedplug import ops
from fedplug.encoders import Selection, Sparsifier, State
from fedplug.encoders.arguments import check_error_feedback, check_number
from fedplug.ops.types import Array, Scalar
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Threshold"]


class Threshold(Sparsifier):
    """Sends the entries of ``a = x + residual`` with ``|a| >= value``, which may be none or all of them.

    >>> import fedplug, numpy as np
    >>> payload, state = fedplug.codec("threshold(3)").encode(np.float32([1, -5, 2, 4]))
    >>> fedplug.decode(payload), state["residual"]
    (array([ 0., -5.,  0.,  4.], dtype=float32), array([1., 0., 2., 0.], dtype=float32))

    Sources: Strom, "Scalable Distributed DNN Training Using Commodity GPU Cloud Computing", Interspeech 2015
    (which sends the threshold instead of the value: ``threshold(...) | sign``); Dutta et al., "On the
    Discrepancy between the Theoretical Analysis and Practical Implementations of Compressed Communication for
    Distributed Deep Learning", AAAI 2020 (arXiv 1911.08250).

    It has no bytes of its own. The pipeline writes:

    ======================  =====================================================
    bytes                   content
    ======================  =====================================================
    of the sparse form      k, and the k indices by the index coder
    k times the item size   the k values, or their code by the quantizer
    ======================  =====================================================
    """

    name: ClassVar[str] = "threshold"

    def __init__(self, value: float, *, error_feedback: bool = True) -> None:
        """Makes the sparsifier.

        Args:
            value: The smallest magnitude that is sent. Finite, above 0.
            error_feedback: Whether the client keeps the unsent part and adds it to its next update.

        Raises:
            ConfigError: ``value`` is not such a number.
        """
        check_number("threshold value", value, lambda magnitude: magnitude > 0, "above 0")
        check_error_feedback("threshold", error_feedback)
        self._value, self.error_feedback = value, error_feedback

    @property
    def capabilities(self) -> Capabilities:
        """Biased. Keeps state only with error feedback."""
        return Capabilities(
            needs_client_state=self.error_feedback,
            bounded_sensitivity=not self.error_feedback,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, object]:
        """Returns the arguments."""
        return {"value": self._value, "error_feedback": self.error_feedback}

    def select(self, x: Array, state: State, round_num: Scalar) -> Selection:
        """See the class."""
        del round_num
        a = ops.add_residual(x, state["residual"]) if self.error_feedback else x
        a = ops.reshape(ops.require_finite(a, "the update, or its sum with the residual,"), [-1])
        large = abs(a) >= ops.asarray(self._value, like=a)
        indices = ops.nonzero(large)
        rest = ops.where(large, ops.zeros_like(a), a)
        return Selection(ops.take(a, indices), indices, self.state_of(ops.reshape(rest, x.shape)))
