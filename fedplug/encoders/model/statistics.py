"""Statistics among the tensors of a model, known by their names: a layer keeps them, and training does not.

A variance that is sent lossily can become negative, and the model NaN. So `ModelEncoder` sends statistics
uncompressed unless an assignment asks for another encoder, see `EncoderAssignment.encodes_statistic`.
"""

from __future__ import annotations

import re

__all__ = ["is_statistic", "layer_mates"]

_LAST = re.compile(r"(?:^|[^a-zA-Z0-9])((?:running|moving)_\w+|num_batches_tracked)[\W\d]*$")
"""The end of a name: PyTorch's and Keras's statistics, perhaps in brackets or with a number behind."""

_COLLECTION = re.compile(r"(?:^|[^a-zA-Z0-9])(batch_stats)(?![a-zA-Z0-9])")
"""Flax's collection, anywhere in a name."""


def is_statistic(name: str | None) -> bool:
    """Returns whether a tensor with this name is a statistic of PyTorch, Keras or Flax.

    >>> [name for name in ("bn.running_var", "bn.weight", "bn/moving_mean") if is_statistic(name)]
    ['bn.running_var', 'bn/moving_mean']
    """
    return bool(layer_mates(name or ""))


def layer_mates(name: str) -> list[str]:
    """Returns names that weights of the same layer could have; none unless the tensor is a statistic."""
    mates = []
    if match := _LAST.search(name):
        mates.append(name[: match.start(1)] + "weight" + name[match.end(1) :])
    if match := _COLLECTION.search(name):
        mates.append(name[: match.start(1)] + "params" + name[match.end(1) :])
        mates.append(re.sub(r"\w+(?=\W*$)", "weight", name))
    return mates
