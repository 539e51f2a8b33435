"""The contract of a sparsifier: an encoder that sends some entries only.

It works alone, and as the first stage of a pipeline, ``sparsifier | quantizer | index coder``. Knows
TensorFlow tensors; must not know TFF or pipelines.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

import tensorflow as tf

from fedplug.encoders.base import Payload, State
from fedplug.encoders.index_coder import IndexCoder
from fedplug.encoders.index_coders import Rice
from fedplug.encoders.raw import Raw
from fedplug.encoders.sparse_form import SparseEncoder, SparseForm, scatter_add

__all__ = ["Selection", "Sparsifier"]


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
    keeps it elsewhere overrides `give_back`.
    """

    @property
    def index_coder(self) -> IndexCoder:
        """What writes the indices unless the pipeline names another coder."""
        return Rice()

    @abc.abstractmethod
    def select(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> Selection:
        """Chooses entries of ``x``; arguments as for `encode`."""

    def give_back(self, state: State, lost: tf.Tensor, indices: tf.Tensor) -> State:
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
        selection = self.select(x, state, round_num)
        size = x.shape.num_elements()
        return self.form.payload(selection.values, selection.indices, size, round_num), selection.state
