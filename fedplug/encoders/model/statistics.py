"""Statistics among the tensors of a model, known by their names: a layer keeps them, and training does not.

A variance that is sent lossily can become negative, and the model NaN. So `ModelEncoder` sends statistics
uncompressed unless an assignment asks for another encoder, see `EncoderAssignment.encodes_statistic`.
"""

from __future__ import annotations

import re

__all__ = ["is_statistic", "layer_mates"]

_END = r"(?:\W+(?:value|raw_value|average|hidden|counter))?[\W\d]*$"
"""The end of a name: perhaps the attribute in which Flax and Haiku keep the array, brackets, or a number."""

_LAST = re.compile(
    r"(?:^|[^a-zA-Z0-9])((?:[rR]unning|[mM]oving)(?:_\w+|(?:Mean|Var|Std)[a-z]*)|num_batches_tracked"
    r"|avg_(?:mean|var)|(?:mean|var)_ema|(?:max_)?exp_avg_sq(?:_row|_col)?|(?:row|col)_var|exp_inf|square_avg"
    rf"|velocity|accumulator|cluster_(?:size|usage)|ema_count|(?<=\d\.)(?:sum|variance)){_END}"
)
"""Names of PyTorch, Keras, Chainer, Haiku, of optimizers and of codebooks, which no weight has."""

_OF_LAYER = re.compile(
    r"(?:(?<![a-zA-Z])(?:bn|rms)|BN|(?i:norm)(?!al(?!i[sz])))[a-z]*(?:\d+d)?(?:_?\d+)?[^a-zA-Z0-9]+"
    rf"(mean|var|variance|std|count){_END}"
)
"""Names that are those of statistics after a normalization layer (``bn.mean``), but not after ``normal``."""

_COLLECTION = re.compile(
    r"(?:^|[^a-zA-Z0-9])(batch_stats|(?<![a-zA-Z0-9_])(?:nu|v_row|v_col)(?=\W))(?![a-zA-Z0-9])"
)
"""Flax's collection and optax's second moments, anywhere in a name."""


def is_statistic(name: str | None) -> bool:
    """Returns whether a tensor with this name is a statistic of a known framework.

    >>> [name for name in ("bn.running_var", "bn.weight", "bn/moving_mean") if is_statistic(name)]
    ['bn.running_var', 'bn/moving_mean']
    """
    return bool(layer_mates(name or ""))


def layer_mates(name: str) -> list[str]:
    """Returns names that weights of the same layer could have. None unless the tensor is a statistic."""
    mates = []
    if match := _LAST.search(name) or _OF_LAYER.search(name):
        mates.append(name[: match.start(1)] + "weight" + name[match.end(1) :])
    if match := _COLLECTION.search(name):
        mates.append(name[: match.start(1)] + "params" + name[match.end(1) :])
        mates.append(re.sub(r"\w+(?=\W*$)", "weight", name))
    return mates
