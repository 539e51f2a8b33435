"""The contract of a sparsifier: an encoder that sends some entries only.

It works alone, and as the first stage of a pipeline, ``sparsifier | quantizer | index coder``. Knows
TensorFlow tensors; must not know TFF or pipelines.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from typing import NamedTuple, Self

import tensorflow as tf

from fedplug.encoders.base import Payload, State
from fedplug.encoders.coders.index import Rice
from fedplug.encoders.index_coder import IndexCoder
from fedplug.encoders.quantizers.raw import Raw
from fedplug.encoders.sparse_form import SparseEncoder, SparseForm, scatter_add
from fedplug.encoders.sparsifiers.sparsity import Sparsity

__all__ = ["CountingSparsifier", "Selection", "Sparsifier"]


class Selection(NamedTuple):
    """What a sparsifier takes out of a tensor.

    Attributes:
        values: To be sent; ``[k]``, the tensor's dtype; k may be unknown while a graph is built.
        indices: Their places in the flattened tensor, strictly ascending; ``[k]``, int32.
        state: The next state, if the values arrive as they are.
    """

    values: tf.Tensor
    indices: tf.Tensor
    state: State


class Sparsifier(SparseEncoder):
    """Chooses entries; from `select` follows everything an `Encoder` does with a tensor.

    Alone it sends values as they are and indices through `index_coder`. A state that is kept between rounds
    under the key ``"residual"``, of the tensor's shape, takes what a later stage loses; a sparsifier that
    keeps it elsewhere overrides `init_state` and `update_residual`.
    """

    error_feedback: bool = False
    """Whether what is not sent is kept on the client and added the next time."""

    @property
    def index_coder(self) -> IndexCoder:
        """What writes the indices unless the pipeline names another coder."""
        return Rice()

    @abc.abstractmethod
    def select(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> Selection:
        """Chooses entries of ``x``; arguments as for `encode`."""

    def grouped_select(
        self, xs: Sequence[tf.Tensor], states: Sequence[State], round_num: tf.Tensor
    ) -> list[Selection]:
        """Chooses entries of all tensors that share this encoder. Default: of each by itself."""
        return [self.select(x, state, round_num) for x, state in zip(xs, states, strict=True)]

    def init_state(self, spec: tf.TensorSpec) -> State:
        """``{"residual": zeros of the tensor's shape and dtype}`` with error feedback, else nothing."""
        return {"residual": tf.zeros(spec.shape, spec.dtype)} if self.error_feedback else {}

    def residual_of(self, x: tf.Tensor, state: State) -> tf.Tensor:
        """What waits to be sent with ``x``: of its shape and dtype; zeros without error feedback."""
        return state["residual"] if self.error_feedback else tf.zeros_like(x)

    def state_of(self, residual: tf.Tensor) -> State:
        """The next state in which ``residual`` waits; nothing without error feedback."""
        return {"residual": residual} if self.error_feedback else {}

    def update_residual(self, state: State, lost: tf.Tensor, indices: tf.Tensor) -> State:
        """The next state when a later stage loses something of the values selected.

        Args:
            state: Of the `Selection`.
            lost: The values selected minus the values a receiver gets; ``[k]``.
            indices: Of the `Selection`.
        """
        if "residual" not in state:
            return state
        return {**state, "residual": scatter_add(state["residual"], lost, indices)}

    @property
    def form(self) -> SparseForm:
        """Values as they are."""
        return SparseForm(Raw(), self.index_coder)

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """The selection as a payload; see `SparseForm`."""
        return self.as_payload(self.select(x, state, round_num), x.shape.num_elements(), round_num)

    def grouped_encode(
        self, xs: Sequence[tf.Tensor], states: Sequence[State], round_num: tf.Tensor
    ) -> list[tuple[Payload, State]]:
        """The selections as payloads."""
        selections = self.grouped_select(xs, states, round_num)
        return [
            self.as_payload(selection, x.shape.num_elements(), round_num)
            for selection, x in zip(selections, xs, strict=True)
        ]

    def as_payload(self, selection: Selection, size: int, round_num: tf.Tensor) -> tuple[Payload, State]:
        """The payload and the next state of what was chosen from a tensor of ``size`` elements."""
        return self.form.payload(selection.values, selection.indices, size, round_num), selection.state


class CountingSparsifier(Sparsifier):
    """A sparsifier that is told how many entries to keep, so that a budget can tell it another number."""

    _kept: Sparsity

    @property
    def adjustable(self) -> bool:
        """Yes."""
        return True

    def at_rate(self, rate: tf.Tensor) -> Self:
        """Keeps ``rate`` times as many entries."""
        adjusted = copy.copy(self)
        adjusted._kept = self._kept.at_rate(rate)
        return adjusted
