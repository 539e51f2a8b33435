"""The parts a caller hands to a process builder: objects, or expressions that name them.

Must not know any process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedplug.aggregators.base import Aggregator
from fedplug.aggregators.mean import Mean
from fedplug.encoders.base import Encoder
from fedplug.encoders.identity import Identity
from fedplug.encoders.rules import Rules
from fedplug.encoders.whole_model import WholeModel
from fedplug.errors import ConfigError

__all__ = ["AnyEncoder", "as_aggregator", "as_encoder"]


AnyEncoder = Encoder | WholeModel | str | Mapping[str, Any] | Sequence[Any]
"""An encoder, an expression, or rules: encoders by patterns of names, or a list; see `Rules`."""


def as_encoder(encoder: AnyEncoder | None) -> Encoder | WholeModel:
    """The encoder that is meant; None is the one that sends everything.

    Raises:
        ConfigError: It is neither an encoder nor a valid expression nor valid rules.
    """
    if encoder is None:
        return Identity()
    if isinstance(encoder, str):
        from fedplug import encoder as parse_encoder

        return parse_encoder(encoder)
    if isinstance(encoder, Mapping | list | tuple):
        return Rules(encoder)
    if not isinstance(encoder, Encoder | WholeModel):
        raise ConfigError(
            "encoder must be an Encoder, an expression such as 'topk(0.01)', or rules such as "
            f"{{'*/bias': 'identity', '*': 'topk(0.01)'}}, found {encoder!r}"
        )
    return encoder


def as_aggregator(aggregator: Aggregator | str | None) -> Aggregator:
    """The aggregator that is meant; None is the weighted mean.

    Raises:
        ConfigError: It is neither an aggregator nor a valid expression.
    """
    if aggregator is None:
        return Mean()
    if isinstance(aggregator, str):
        from fedplug import aggregator as parse_aggregator

        return parse_aggregator(aggregator)
    if not isinstance(aggregator, Aggregator):
        raise ConfigError(
            f"aggregator must be an Aggregator or an expression such as 'mean', found {aggregator!r}"
        )
    return aggregator
