"""Rules for components that cannot be combined, checked when a process is built. One function per rule.

A rule reads only declared capabilities (`fedplug.registry.specs.Capabilities`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import fedplug.ops as ops
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.pipeline.pipeline import without_error_feedback
from fedplug.errors import CapabilityError, CapabilityWarning
from fedplug.tff.aggregators.base import Aggregator

__all__ = ["RULES", "Configuration", "Conflict", "Rule", "check"]


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The components and properties of a process that the rules read.

    Attributes:
        encoders: The encoders, each with the dtypes of its tensors if these are known.
        aggregator: The aggregator of the updates.
        keeps_client_state: Whether the process keeps an encoder's state on each client.
        secure_sum: Whether the server may see only sums over clients, of integers or of floats. None: it may
            see each payload.
        private: Whether noise hides single clients, whose updates are clipped.
    """

    encoders: tuple[tuple[Encoder | EncoderAssignment, frozenset[str]], ...]
    aggregator: Aggregator
    keeps_client_state: bool
    secure_sum: Literal["integers", "floats"] | None = None
    private: bool = False

    @classmethod
    def of(
        cls,
        model: ModelEncoder,
        aggregator: Aggregator,
        *,
        keeps_client_state: bool,
        private: bool = False,
        secure_sum: Literal["integers", "floats"] | None = None,
    ) -> Configuration:
        """Returns the configuration of a model whose tensors have their encoders."""
        dtypes: dict[Encoder, set[str]] = {}
        for encoder, spec in zip(model.encoders, model.specs, strict=True):
            if ops.is_floating(spec.dtype):
                dtypes.setdefault(encoder, set()).add(spec.dtype.name)
        encoders = tuple((encoder, frozenset(names)) for encoder, names in dtypes.items())
        return cls(
            encoders=encoders,
            aggregator=aggregator,
            keeps_client_state=keeps_client_state,
            private=private,
            secure_sum=secure_sum,
        )


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Two parts that break a rule.

    Attributes:
        parts: The two parts.
        reason: The reason why they do not go together.
        instead: An expression that works in place of the first part.
    """

    parts: tuple[str, str]
    reason: str
    instead: str

    def message(self, rule: str) -> str:
        """Returns one line for the user."""
        first, second = self.parts
        return f"rule {rule!r}: {first} does not go with {second}: {self.reason}; use {self.instead} instead"


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        name: The name in messages.
        conflicts: A function that finds the conflicts of a configuration.
        warns: Whether a conflict is only a warning.
    """

    name: str
    conflicts: Callable[[Configuration], Iterator[Conflict]]
    warns: bool = False


def check(configuration: Configuration, *, warn: bool = True) -> None:
    """Checks a configuration against all `RULES`.

    Args:
        configuration: The configuration of a process.
        warn: Whether to check the rules that only warn.

    Raises:
        CapabilityError: A rule is broken. The message names it, the two parts, and an alternative.
    """
    for rule in RULES:
        for conflict in rule.conflicts(configuration) if warn or not rule.warns else ():
            message = conflict.message(rule.name)
            if not rule.warns:
                raise CapabilityError(message)
            warnings.warn(message, CapabilityWarning, stacklevel=4)


def _client_state(configuration: Configuration) -> Iterator[Conflict]:
    """Requires a process that keeps client states, if the encoder has one."""
    for encoder, _ in configuration.encoders:
        if encoder.capabilities.needs_client_state and not configuration.keeps_client_state:
            yield Conflict(
                parts=(repr(encoder), "a TFF aggregation process"),
                reason="it keeps state on each client, and there is no place for it; build the whole process "
                "with fedplug.tff.process.build_weighted_fed_avg(encoder=...), or leave the state out",
                instead=_without_error_feedback(encoder),
            )


def _secure_sum(configuration: Configuration) -> Iterator[Conflict]:
    """Requires parts that need only sums, if the server sees only sums."""
    kind = configuration.secure_sum
    if kind is None:
        return
    instead = "sharedk(0.01, clients=10)" if kind == "integers" else "randomk(0.01)"
    for encoder, _ in configuration.encoders:
        promises = encoder.capabilities
        sent = "floats" if promises.ring_bits is None else "integers"
        if not promises.secure_aggregation_safe:
            yield Conflict(
                parts=(repr(encoder), "a secure sum"),
                reason="what it sends is not made to be added up unseen",
                instead=instead,
            )
        elif sent != kind:
            yield Conflict(
                parts=(repr(encoder), f"a secure sum of {kind}"), reason=f"it sends {sent}", instead=instead
            )
    aggregator = configuration.aggregator
    if not aggregator.capabilities.secure_aggregation_safe:
        yield Conflict(
            parts=(repr(aggregator), "a secure sum"),
            reason="it has to look at every client's update",
            instead="mean",
        )
    elif kind == "integers" and not aggregator.capabilities.unbiased:
        yield Conflict(
            parts=(repr(aggregator), "a secure sum of integers"),
            reason="the sum of the integers is decoded as the weighted mean",
            instead="mean",
        )


def _sensitivity(configuration: Configuration) -> Iterator[Conflict]:
    """Requires that decoding does not lengthen a clipped update, which the noise would no longer hide."""
    for encoder, _ in configuration.encoders:
        if configuration.private and not encoder.capabilities.bounded_sensitivity:
            yield Conflict(
                parts=(repr(encoder), "differential privacy"),
                reason="what is decoded may be larger than the clipped update it was made of",
                instead="topk(0.01, error_feedback=False)",
            )


def _dtype(configuration: Configuration) -> Iterator[Conflict]:
    """Requires that encoder and aggregator accept the dtype of each tensor."""
    for encoder, dtypes in configuration.encoders:
        for part, instead in ((encoder, "identity"), (configuration.aggregator, "mean")):
            taken = part.capabilities.dtypes
            for name in sorted(dtypes.difference(taken)):
                yield Conflict(
                    parts=(repr(part), f"a {name} tensor"),
                    reason=f"it takes {', '.join(taken)}",
                    instead=instead,
                )


def _bias(configuration: Configuration) -> Iterator[Conflict]:
    """Warns about biased encoders without error feedback: the mean loses the same entries in every round.

    Encoders that send every entry lose little, so they are exempt. Differential privacy leaves no choice:
    only lossless encoders are unbiased and never lengthen an update.
    """
    if configuration.private:
        return
    for encoder, _ in configuration.encoders:
        promises = encoder.capabilities
        harmless = promises.unbiased or promises.needs_client_state or promises.sends_every_entry
        if configuration.aggregator.capabilities.commutes_with_sum and not harmless:
            yield Conflict(
                parts=(repr(encoder), repr(configuration.aggregator)),
                reason="it is biased, and what it leaves out is lost to the mean in every round",
                instead="topk(0.01)" if configuration.keeps_client_state else "qsgd(8)",
            )


def _memory(configuration: Configuration) -> Iterator[Conflict]:
    """Requires that encoders send differences exactly if the aggregator adds them to memories."""
    kept = configuration.aggregator.capabilities.sends_differences
    for encoder, _ in configuration.encoders:
        if encoder.capabilities.sends_differences == kept:
            continue
        if kept:
            reason = (
                "that adds differences to a memory, and this encoder sends updates; every tensor needs the "
                "memory"
            )
            instead = "ef21('topk(0.01)')"
        else:
            reason = (
                "it sends differences from a memory, and this server would take them for updates; build the "
                "process with aggregator='memory_mean(CLIENTS)', or leave the memory out"
            )
            instead = "topk(0.01)"
        yield Conflict(parts=(repr(encoder), repr(configuration.aggregator)), reason=reason, instead=instead)


def _without_error_feedback(encoder: Encoder | EncoderAssignment) -> str:
    """Returns the encoder without error feedback, or another one if it always has state."""
    stateless = without_error_feedback(encoder)
    return "qsgd(8)" if stateless.capabilities.needs_client_state else repr(stateless)


RULES = (
    Rule("client state", _client_state),
    Rule("secure sum", _secure_sum),
    Rule("sensitivity", _sensitivity),
    Rule("dtype", _dtype),
    Rule("memory", _memory),
    Rule("bias", _bias, warns=True),
)
"""All rules. `fedplug.encoders.Pipeline` checks the order of stages itself."""
