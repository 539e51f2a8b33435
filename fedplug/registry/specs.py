"""What components declare about themselves: plain, frozen, validated values that cost nothing to import.

A plugin's hooks return these; `fedplug plugins list` prints them without importing any plugin's heavy
components, because a class is named by a string (``"package.module:Class"``) and resolved on first use.
"""

from __future__ import annotations

import importlib
import keyword
import re
from dataclasses import dataclass
from typing import Any

from fedplug.errors import PluginError, text_of

__all__ = [
    "EXECUTIONS",
    "FLOATS",
    "AggregatorSpec",
    "Capabilities",
    "ComponentSpec",
    "EncoderSpec",
    "ObserverSpec",
    "OpLibrarySpec",
    "ScheduleSpec",
    "Spec",
    "StoreSpec",
]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_FILE = re.compile(r"[A-Za-z_][\w.]*:[\w][\w.-]*")

FLOATS = ("float16", "bfloat16", "float32", "float64")
"""The dtypes of a model's tensors that may be encoded; all others are sent uncompressed."""

EXECUTIONS = ("numpy", "tensorflow")
"""What an encoder written against `fedplug.ops` may be given: NumPy arrays, TensorFlow's tensors."""

_KNOWN_EXECUTIONS = (*EXECUTIONS, "cuda")


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What an encoder or an aggregator promises; builders of processes and the conformance suite check it.

    For an aggregator, read "the update of a round" for the decoded tensor, and "the weighted mean of the
    clients' updates" for ``x``; it never needs client state, and nobody asks whether it is lossless.

    Attributes:
        unbiased: The expectation of ``decode(encode(x))`` over seeds is ``x``.
        commutes_with_sum: ``decode`` commutes with a sum of payloads of one round: their tensors of floats
            are added, and all others (seeds, rounds, positions) are the same for every client.
        lossless: ``decode(encode(x))`` is ``x``, bit for bit.
        needs_client_state: ``encode`` reads what it wrote on the same client in an earlier round.
        needs_seed: The payload depends on random numbers, drawn from the configured seed and the round.
        secure_aggregation_safe: The sum over the clients is all that the server needs. For an encoder:
            commutes_with_sum, and neither number nor positions of what is sent depend on the client's data.
            For an aggregator: merging its accumulators is adding them.
        bounded_sensitivity: The Euclidean norm of what is decoded is at most that of ``x``, so that a client
            whose update was clipped moves the sum by no more than the clip, as differential privacy needs.
            For an aggregator: no update, however large, moves the result by more than a fixed bound.
        sends_every_entry: Every entry of ``x`` is represented in the payload, perhaps coarsely: entries of
            one magnitude are decoded with their signs. For an aggregator nobody asks.
        relative_error_bound: With the state that it begins with, no entry of what is decoded is further from
            that of ``x`` than this share of ``max(x) - min(x)``. None: no such bound. For an aggregator
            nobody asks.
        memory_rate: Of an encoder: what is decoded is no ``x``, but its difference from a memory of the
            client, which both sides move by this share of it. Of an aggregator: it keeps the mean of such
            memories. None: there is no memory.
        dtypes: Of the tensors it takes.
        executes_on: What it can be given: "numpy", arrays that it works on at once; "tensorflow", tensors
            whose graphs run later; "cuda", a `fedplug.ops.device_array.DeviceArray`. What is written against
            `fedplug.ops` takes the first two; what is written in TensorFlow says nothing.
        needs_op_library: In TensorFlow it runs only as compiled ops, which have no references of stock ops;
            so only runtimes that run custom ops can run it.
    """

    unbiased: bool = False
    commutes_with_sum: bool = False
    lossless: bool = False
    needs_client_state: bool = False
    needs_seed: bool = False
    secure_aggregation_safe: bool = False
    bounded_sensitivity: bool = False
    sends_every_entry: bool = False
    relative_error_bound: float | None = None
    memory_rate: float | None = None
    dtypes: tuple[str, ...] = FLOATS
    executes_on: tuple[str, ...] = ("tensorflow",)
    needs_op_library: bool = False

    def __post_init__(self) -> None:
        if self.secure_aggregation_safe and not self.commutes_with_sum:
            raise PluginError(
                "capabilities: what is secure_aggregation_safe must declare commutes_with_sum, too"
            )
        bound = self.relative_error_bound
        if bound is not None and not (isinstance(bound, int | float) and bound >= 0):
            raise PluginError(
                f"capabilities: relative_error_bound is {bound!r}; it must be a share of the range, or None"
            )
        if not isinstance(self.dtypes, tuple) or not set(self.dtypes) <= set(FLOATS) or not self.dtypes:
            raise PluginError(f"capabilities: dtypes is {self.dtypes!r}; it must be some of {FLOATS!r}")
        _check_executions("capabilities", self.executes_on)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every declaration has.

    Attributes:
        name: What users write, for instance ``"topk"``; an identifier, as it is used in expressions
            (``"topk(0.01) | rice"``) and, for a store, as the scheme of a URL.
        target: Where it is, as ``"package.module:Class"``; imported on first use only.
        summary: One line for ``fedplug plugins list``.
    """

    name: str
    target: str
    summary: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or keyword.iskeyword(self.name):
            raise PluginError(
                f"{self._what}: the name is not valid; use lower-case letters, digits and '_', starting with "
                "a letter, and no Python keyword"
            )
        self._check_target()
        if not isinstance(self.summary, str) or "\n" in self.summary:
            raise PluginError(f"{self._what}: summary must be one line of text")

    def _check_target(self) -> None:
        if not isinstance(self.target, str) or not _TARGET.fullmatch(self.target):
            raise PluginError(
                f"{self._what}: target {self.target!r} is not valid; write 'package.module:Class'"
            )

    @property
    def _what(self) -> str:
        return f"{type(self).__name__} {self.name!r}"


@dataclass(frozen=True, kw_only=True)
class ComponentSpec(Spec):
    """A component that can be asked for by name.

    Attributes:
        examples: How it is made when ``fedplug plugins check`` tests it: expressions, or for a store URLs in
            which ``{folder}`` stands for an empty folder. Not needed for a component without arguments.
    """

    examples: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.examples, tuple) or not all(isinstance(text, str) for text in self.examples):
            raise PluginError(f"{self._what}: examples must be a tuple of texts")

    def resolve(self) -> type[Any]:
        """Imports and returns the class.

        Raises:
            PluginError: The module or the class cannot be imported, or is no class; the cause is chained.
        """
        module_name, _, attribute = self.target.partition(":")
        what = f"{self.name!r} names {self.target!r}"
        try:
            found: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                found = getattr(found, part)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            kind = "" if isinstance(error, Exception) else f"{type(error).__name__}: "
            reason = f"{kind}{text_of(error)}"
            raise PluginError(f"{what}, which cannot be imported: {reason}") from error
        if not isinstance(found, type):
            raise PluginError(f"{what}, which is a {type(found).__name__}, not a class")
        return found


@dataclass(frozen=True, kw_only=True)
class EncoderSpec(ComponentSpec):
    """An encoder (`fedplug.encoders.base.Encoder`), or a stage of a pipeline.

    Attributes:
        wire_id: The wire id of the class, by which `fedplug.decode` finds what reads a payload; None for what
            has none (sparsifiers, assignments), and for what cannot be read without its configuration.
        executes_on: As in its `Capabilities`; shown, and looked at, before it is imported.
    """

    wire_id: str | None = None
    executes_on: tuple[str, ...] = ("tensorflow",)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_executions(self._what, self.executes_on)


@dataclass(frozen=True, kw_only=True)
class AggregatorSpec(ComponentSpec):
    """An aggregator (see `fedplug.tff.aggregators.base.Aggregator`)."""


@dataclass(frozen=True, kw_only=True)
class StoreSpec(ComponentSpec):
    """A client-state store (see `fedplug.stores.base.StateStore`); ``name`` is the scheme of its URL."""


@dataclass(frozen=True, kw_only=True)
class ScheduleSpec(ComponentSpec):
    """A schedule (see `fedplug.schedules.base.Schedule`)."""


@dataclass(frozen=True, kw_only=True)
class OpLibrarySpec(Spec):
    """A compiled library of TensorFlow ops, loaded by `fedplug.ops.lowering.op_library` on first use.

    ``target`` is the package that holds it and its file name there, ``"fedplug_acme:_acme_ops.so"``. The
    build writes which TensorFlow it was compiled against next to it, as ``build_info.json``:
    ``{"tensorflow": "2.14.1"}``.
    """

    def _check_target(self) -> None:
        if not isinstance(self.target, str) or not _FILE.fullmatch(self.target):
            raise PluginError(f"{self._what}: target {self.target!r} is not valid; write 'package:file.so'")


@dataclass(frozen=True, kw_only=True)
class ObserverSpec(Spec):
    """An observing hook; the loader makes it from the function, no plugin does."""


def _check_executions(what: str, executes_on: Any) -> None:
    if (
        not isinstance(executes_on, tuple)
        or not executes_on
        or not set(executes_on) <= set(_KNOWN_EXECUTIONS)
    ):
        known = ", ".join(_KNOWN_EXECUTIONS)
        raise PluginError(f"{what}: executes_on is {executes_on!r}; it must be a tuple of some of {known}")
