"""Rules: encoders by the names and sizes of tensors; and the assignment of parts of tensors."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import fedplug.ops as ops
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.assignment import EncoderAssignment, RateControl, promised_by_all
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.statistics import layer_mates
from fedplug.encoders.pipeline.pipeline import as_tensor_encoder
from fedplug.encoders.quantizers import Identity
from fedplug.errors import ConfigError, UnknownNameError, nearest
from fedplug.ops.types import Spec
from fedplug.registry.component import plain, written_argument
from fedplug.registry.config import component_config
from fedplug.registry.specs import FLOATS, Capabilities

__all__ = ["Rule", "Rules", "Slices"]

_SHOWN = 3
"""Maximum number of tensor names in a message."""


@dataclass(frozen=True)
class Rule:
    """The encoder of the tensors that match.

    Attributes:
        encoder: The encoder of the tensors that match, or an expression for one.
        match: A pattern of names: ``*`` matches anything, ``?`` any character, ``[ab]`` one of several. It is
            case-sensitive.
        min_elements: Minimum number of elements.
        max_elements: Maximum number of elements. None for no limit.
        dtype: A dtype such as ``"float32"``. None for any.

    Raises:
        ConfigError: An attribute is out of range or cannot be read.
    """

    encoder: Encoder
    match: str = "*"
    min_elements: int = 0
    max_elements: int | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoder", as_tensor_encoder(self.encoder, "the encoder of a rule"))
        if not isinstance(self.match, str) or not self.match:
            raise ConfigError(f"the match of a rule is {self.match!r}; it must be a pattern of names")
        for limit in ("min_elements", "max_elements"):
            object.__setattr__(self, limit, plain(getattr(self, limit)))
        check_whole("the min_elements of a rule", self.min_elements, 0)
        if self.max_elements is not None:
            check_whole("the max_elements of a rule", self.max_elements, 0)
        if self.dtype is not None and self.dtype not in FLOATS:
            raise ConfigError(
                f"the dtype of a rule is {self.dtype!r}; it must be one of {', '.join(FLOATS)}: tensors of "
                "other dtypes are always sent uncompressed"
            )

    def applies_to(self, spec: Spec) -> bool:
        """Returns whether the rule matches a tensor with this spec."""
        size = ops.num_elements(spec)
        return (
            fnmatch.fnmatchcase(spec.name or "", self.match)
            and size >= self.min_elements
            and (self.max_elements is None or size <= self.max_elements)
            and self.dtype in (None, spec.dtype.name)
        )

    def get_config(self) -> dict[str, object]:
        """Returns the attributes without defaults, as JSON values."""
        config: dict[str, object] = {"encoder": component_config(self.encoder), "match": self.match}
        if self.min_elements:
            config["min_elements"] = self.min_elements
        if self.max_elements is not None:
            config["max_elements"] = self.max_elements
        if self.dtype is not None:
            config["dtype"] = self.dtype
        return config


class Rules(EncoderAssignment):
    """Encodes each tensor by the first rule that matches it. Tensors without a rule are sent uncompressed.

    >>> import fedplug, numpy as np
    >>> model = {"dense/kernel": np.ones((9, 99), np.float32), "out/kernel": np.ones((9, 99), np.float32)}
    >>> codec = fedplug.codec({"out/*": "qsgd(8)", "*": "topk(0.01)"})
    >>> payloads, _ = codec.encode_model(model)
    >>> {name: fedplug.wire.unframe(payload).wire_id for name, payload in payloads.items()}
    {'dense/kernel': 'sparse/1', 'out/kernel': 'qsgd/1'}

    ``{"*/bias": "identity", "embedding*": "topk(0.001)", "*": "topk(0.01)"}`` are three rules by name. A list
    of rules can also match size and dtype: ``[{"min_elements": 10000, "encoder": "topk(0.001)"}, {"encoder":
    "topk(0.01)"}]``.

    Tensors below the ``min_size`` of a process or codec, integers and booleans are sent uncompressed whatever
    the rules. Statistics are, too, unless the pattern names them: ``"*running_var"`` does, while ``"*"`` and
    ``"bn1.*"`` also match weights of the same layer.
    """

    name: ClassVar[str] = "rules"

    def __init__(self, rules: Mapping[str, Any] | Sequence[Rule | Mapping[str, object]]) -> None:
        """Makes the rules.

        Args:
            rules: The encoders, or expressions, by pattern of names, or a list of rules, each a `Rule` or a
                mapping of its attributes.

        Raises:
            ConfigError: There are no rules, or one is not valid.
            UnknownNameError: A rule has an unknown attribute or encoder.
        """
        if isinstance(rules, Mapping):
            rules = [Rule(encoder, match) for match, encoder in rules.items()]
        if not isinstance(rules, list | tuple) or not rules:
            raise ConfigError(
                f"the rules are {rules!r}; give encoders by pattern, such as {{'*/bias': 'identity'}}, or a "
                "list of rules"
            )
        self.rules = tuple(_read(rule) for rule in rules)

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that all encoders have."""
        return promised_by_all(rule.encoder.capabilities for rule in self.rules)

    def get_config(self) -> dict[str, object]:
        """Returns the rules as a list."""
        return {"rules": [rule.get_config() for rule in self.rules]}

    def assign(self, specs: Sequence[Spec]) -> list[Encoder]:
        """Returns the encoder of the first rule that matches each tensor.

        Raises:
            ConfigError: A rule matches no tensor, or only tensors of an earlier rule.
        """
        chosen = [self._rule_for(spec) for spec in specs]
        for rule in self.rules:
            if not any(rule is taken for taken in chosen):
                raise ConfigError(_unused(rule, specs))
        as_it_is = Identity()
        return [as_it_is if rule is None else rule.encoder for rule in chosen]

    def for_part(self, specs: Sequence[Spec]) -> Rules:
        """Returns the rules that match these tensors; if there are none, a rule for uncompressed tensors."""
        used = [rule for rule in self.rules if any(rule is self._rule_for(spec) for spec in specs)]
        return Rules(used or [Rule(Identity())])

    def encodes_statistic(self, spec: Spec) -> bool:
        """Returns whether the pattern of its rule matches no weight that the same layer could have."""
        rule = self._rule_for(spec)
        if rule is None:
            return False
        return not all(fnmatch.fnmatchcase(mate, rule.match) for mate in layer_mates(spec.name or ""))

    def _rule_for(self, spec: Spec) -> Rule | None:
        return next((rule for rule in self.rules if rule.applies_to(spec)), None)

    def __repr__(self) -> str:
        rules = [
            ", ".join(f"{key!r}: {written_argument(value)}" for key, value in rule.items())
            for rule in map(Rule.get_config, self.rules)
        ]
        return f"rules([{', '.join(f'{{{rule}}}' for rule in rules)}])"


def _read(rule: object) -> Rule:
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, Mapping):
        raise ConfigError(f"{rule!r} is no rule; it must be a mapping with an encoder")
    known = Rule.__dataclass_fields__
    for key in rule:
        if key not in known:
            raise UnknownNameError("key", str(key), known, where="a rule")
    if "encoder" not in rule:
        raise ConfigError(f"the rule {dict(rule)!r} names no encoder; give it one, such as 'topk(0.01)'")
    return Rule(**rule)


def _unused(rule: Rule, specs: Sequence[Spec]) -> str:
    """Returns why no tensor is encoded by this rule, and the remedy."""
    names = [spec.name or "" for spec in specs]
    mine = [spec.name for spec in specs if rule.applies_to(spec)]
    if mine:
        more = f" and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
        return (
            f"the rule for {rule.match!r} comes too late: earlier ones take "
            f"{', '.join(map(repr, mine[:_SHOWN]))}{more}; the first rule that applies is the one that "
            "counts, so put it further up"
        )
    if not any(fnmatch.fnmatchcase(name, rule.match) for name in names):
        plain = rule.match.strip("*?")
        message = f"the rule for {rule.match!r} matches no tensor of the model; {nearest(plain, names)}"
        if all(name.isdecimal() for name in names):
            message += "; they have no names but their places: write patterns of these, or give names=..."
        return message
    return (
        f"the rule for {rule.match!r} matches tensors of the model, but none of its size and dtype: "
        f"{rule.get_config()!r}"
    )


class Slices(EncoderAssignment):
    """The assignment of `fedplug.Codec.for_slices`. It has the text of the encoder for the whole model."""

    name: ClassVar[str] = "slices"

    def __init__(
        self, whole: Encoder | EncoderAssignment, encoders: Mapping[str, Encoder], share: float
    ) -> None:
        """Takes the encoder of the model, that of each part by name, and the parts' share of a budget."""
        self._whole, self._encoders, self._share = whole, dict(encoders), share

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the encoder for the whole model."""
        return self._whole.capabilities

    def get_config(self) -> dict[str, object]:
        parts = {name: component_config(encoder) for name, encoder in self._encoders.items()}
        return {"whole": component_config(self._whole), "encoders": parts, "share": self._share}

    def assign(self, specs: Sequence[Spec]) -> list[Encoder]:
        """Returns the encoder of each part, for any of the parts."""
        return [self._encoders[spec.name or ""] for spec in specs]

    def encodes_statistic(self, spec: Spec) -> bool:
        """Returns True: the encoder of the whole model has decided."""
        del spec
        return True

    def rate_control(self, encoders: Sequence[Encoder], specs: Sequence[Spec]) -> RateControl | None:
        """Returns the rate control of the whole model, with these parts' share of the bytes."""
        if not isinstance(self._whole, EncoderAssignment):
            return None
        return self._whole.for_share(self._share).rate_control(encoders, specs)

    def __repr__(self) -> str:
        return repr(self._whole)
