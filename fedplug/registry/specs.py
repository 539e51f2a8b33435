"""Declarations of components: plain, frozen, validated values that are cheap to import.

A plugin's hooks return these. `fedplug plugins list` prints them without importing heavy components: a class
is named by a string (``"package.module:Class"``) and resolved on first use.
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
    "EXECUTIONS_AND_CUDA",
    "FLOATS",
    "AggregatorSpec",
    "Capabilities",
    "ComponentSpec",
    "DeviceSpec",
    "EncoderSpec",
    "ObserverSpec",
    "OpLibrarySpec",
    "PluginSpec",
    "RuntimeSpec",
    "ScheduleSpec",
    "StoreSpec",
]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_WIRE_ID = re.compile(r"[ -*,-~]+/[0-9]+")
_OWN_FORMS = ("changes/1", "sparse/1")  # of containers around the parts of a pipeline
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_FILE = re.compile(r"[A-Za-z_][\w.]*:[\w][\w.-]*")

FLOATS = ("float16", "bfloat16", "float32", "float64")
"""The dtypes of tensors that may be encoded. Tensors of other dtypes are sent uncompressed."""

EXECUTIONS = ("numpy", "tensorflow")
"""The array types that an encoder written against `fedplug.ops` accepts: NumPy arrays, TensorFlow tensors."""

EXECUTIONS_AND_CUDA = (*EXECUTIONS, "cuda")
"""The same, and arrays on a CUDA device."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The promises of an encoder or an aggregator. Process builders and the conformance suite check them.

    For an aggregator, ``decode(encode(x))`` stands for the update of a round and ``x`` for the weighted mean
    of the clients' updates. It never needs client state, and lossless, sends_every_entry and
    relative_error_bound are not used.

    Attributes:
        unbiased: The expectation of ``decode(encode(x))`` over seeds is ``x``.
        commutes_with_sum: ``decode`` commutes with a sum of payloads of one round: float tensors are added,
            and all others (seeds, rounds, positions) are the same for every client.
        lossless: ``decode(encode(x))`` is ``x``, bit for bit.
        needs_client_state: ``encode`` reads state that it wrote on the same client in an earlier round.
        needs_seed: The payload depends on random numbers, drawn from the configured seed and the round.
        secure_aggregation_safe: The sum over the clients is all that the server needs. An encoder must
            commute with sums, and the number and positions of its values must not depend on the client's
            data. An aggregator's accumulators must merge by addition.
        ring_bits: The int32 tensors of a payload are numbers from 0 to 2^ring_bits - 1, which masks may hide
            and which add modulo 2^ring_bits, instead of its floats. None: it has no such tensors.
        most_summands: The most payloads that may be added: a sum of more could wrap. None: any number.
        bounded_sensitivity: The Euclidean norm of the decoded tensor is at most that of ``x``. A client with
            a clipped update therefore moves the sum by at most the clip, as differential privacy requires.
            For an aggregator: no update, however large, moves the result by more than a fixed bound.
        sends_every_entry: The payload represents every entry of ``x``, perhaps coarsely: entries of one
            magnitude are decoded with their signs.
        relative_error_bound: Maximum error of an entry as a share of ``max(x) - min(x)``, in the initial
            state. None: no such bound.
        sends_differences: Whether an encoder's decoded tensor is the difference of ``x`` from a memory, which
            client and server move by the decoded difference. An aggregator keeps the mean of such memories.
        compares_tensors: Whether `grouped_encode` compares the entries of all its tensors, which then have
            fewer than 2^31 elements together.
        fixed_size: The payload's size depends on the tensor's shape and dtype and on the configuration only.
        decode_copies: Maximum number of arrays of the tensor's size, in the dtype of its arithmetic, that
            `from_wire` and `decode` hold beside their result. Receivers count them against ``max_bytes``. For
            a stage: of the values that were sent, or of their indices in int64.
        dtypes: The dtypes of the tensors that it accepts.
        executes_on: The array types that it accepts: "numpy" for arrays, computed at once. "tensorflow" for
            tensors, whose graphs run later. "cuda" for `fedplug.ops.device_array.DeviceArray`. Code
            written against `fedplug.ops` accepts the first two. The default is for code in TensorFlow.
        needs_op_library: Whether it requires compiled ops in TensorFlow, because these have no references of
            stock ops. Only runtimes that run custom ops can then run it.
    """

    unbiased: bool = False
    commutes_with_sum: bool = False
    lossless: bool = False
    needs_client_state: bool = False
    needs_seed: bool = False
    secure_aggregation_safe: bool = False
    ring_bits: int | None = None
    most_summands: int | None = None
    bounded_sensitivity: bool = False
    sends_every_entry: bool = False
    relative_error_bound: float | None = None
    sends_differences: bool = False
    compares_tensors: bool = False
    fixed_size: bool = False
    decode_copies: int = 2
    dtypes: tuple[str, ...] = FLOATS
    executes_on: tuple[str, ...] = ("tensorflow",)
    needs_op_library: bool = False

    def __post_init__(self) -> None:
        if self.secure_aggregation_safe and not self.commutes_with_sum:
            raise PluginError("capabilities: secure_aggregation_safe requires commutes_with_sum")
        if self.ring_bits is not None and not (self.secure_aggregation_safe and 2 <= self.ring_bits <= 31):
            raise PluginError(
                f"capabilities: ring_bits is {self.ring_bits!r}; it must be 2 to 31, and it requires "
                "secure_aggregation_safe"
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
class PluginSpec:
    """The common part of all declarations.

    Attributes:
        name: The name that users write, for example ``"topk"``. It is an identifier, because expressions
            use it (``"topk(0.01) | rice"``); for a store it is the scheme of a URL.
        target: The location, as ``"package.module:Class"``, imported on first use only.
        summary: One line for ``fedplug plugins list``.
    """

    name: str
    target: str
    summary: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or keyword.iskeyword(self.name):
            raise PluginError(
                f"{self._what}: the name is not valid; use lower-case letters, digits and '_', starting with "
                "a letter, and not a Python keyword"
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
class ComponentSpec(PluginSpec):
    """A component that users can name.

    Attributes:
        examples: Expressions that ``fedplug plugins check`` tests, such as ``"topk(0.1)"`` or, for a runtime,
            ``"grid(workers=2)"``. For a store: URLs in which ``{folder}``
            stands for an empty folder. Not needed for a component without arguments.
    """

    examples: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.examples, tuple) or not all(isinstance(text, str) for text in self.examples):
            raise PluginError(f"{self._what}: examples must be a tuple of texts")

    def resolve(self) -> type[object]:
        """Imports and returns the class.

        Raises:
            PluginError: The module or class cannot be imported, or is not a class. The cause is chained.
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
        self._check_found(what, found)
        return found  # type: ignore[no-any-return]

    def _check_found(self, what: str, found: object) -> None:
        if not isinstance(found, type):
            raise PluginError(f"{what}, which is a {type(found).__name__}, not a class")


@dataclass(frozen=True, kw_only=True)
class EncoderSpec(ComponentSpec):
    """An encoder (`fedplug.encoders.base.Encoder`), or a stage of a pipeline.

    Attributes:
        wire_id: The wire id of the class, by which `fedplug.decode` finds the decoder of a payload. None for
            components without payloads (sparsifiers, assignments), or if decoding needs the configuration.
        executes_on: A copy of the value in its `Capabilities`, which can be read without importing it.
    """

    wire_id: str | None = None
    executes_on: tuple[str, ...] = ("tensorflow",)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_executions(self._what, self.executes_on)
        wire_id: object = self.wire_id
        if wire_id is not None and not (isinstance(wire_id, str) and _WIRE_ID.fullmatch(wire_id)):
            raise PluginError(
                f"{self._what}: the wire id {wire_id!r} is not valid; write a name without '+', '/' and the "
                "layout's number, for instance 'acme/1'"
            )
        if wire_id in _OWN_FORMS:
            raise PluginError(f"{self._what}: the wire id {wire_id!r} is fedplug's own; choose another name")

    def _check_found(self, what: str, found: object) -> None:
        super()._check_found(what, found)
        wire_id = getattr(found, "wire_id", None)
        if self.wire_id not in (None, wire_id):
            raise PluginError(
                f"{what}, whose wire id is {wire_id!r}, not the declared {self.wire_id!r}; `fedplug.decode` "
                "would read its payloads with another class, or with none"
            )


@dataclass(frozen=True, kw_only=True)
class AggregatorSpec(ComponentSpec):
    """An aggregator (see `fedplug.tff.aggregators.base.Aggregator`)."""


@dataclass(frozen=True, kw_only=True)
class StoreSpec(ComponentSpec):
    """A client-state store (see `fedplug.stores.base.StateStore`). ``name`` is the scheme of its URL."""


@dataclass(frozen=True, kw_only=True)
class ScheduleSpec(ComponentSpec):
    """A schedule (see `fedplug.schedules.base.Schedule`)."""


@dataclass(frozen=True, kw_only=True)
class RuntimeSpec(ComponentSpec):
    """A runtime (see `fedplug.tff.runtime.Runtime`), which `fedplug.use_runtime` finds by ``name``.

    ``target`` names a class or a function. `use_runtime` calls it with its options as keyword arguments.
    """

    def _check_found(self, what: str, found: object) -> None:
        if not callable(found):
            raise PluginError(f"{what}, which is a {type(found).__name__}, not a class or a function")


@dataclass(frozen=True, kw_only=True)
class DeviceSpec(ComponentSpec):
    """The backend of a kind of device. ``target`` names a `fedplug.ops.device_array.Backend`."""

    def _check_found(self, what: str, found: object) -> None:
        if not hasattr(found, "as_device_array"):
            raise PluginError(f"{what}, which has no function as_device_array")


@dataclass(frozen=True, kw_only=True)
class OpLibrarySpec(PluginSpec):
    """A compiled library of TensorFlow ops, loaded by `fedplug.ops.lowering.op_library` on first use.

    ``target`` is its package and its file name there, ``"fedplug_acme:_acme_ops.so"``. The build records the
    TensorFlow version next to it, in ``build_info.json``: ``{"tensorflow": "2.14.1"}``.
    """

    def _check_target(self) -> None:
        if not isinstance(self.target, str) or not _FILE.fullmatch(self.target):
            raise PluginError(f"{self._what}: target {self.target!r} is not valid; write 'package:file.so'")


@dataclass(frozen=True, kw_only=True)
class ObserverSpec(PluginSpec):
    """An observing hook. The loader creates this from the function."""


def _check_executions(what: str, executes_on: object) -> None:
    if (
        not isinstance(executes_on, tuple)
        or not executes_on
        or not set(executes_on) <= set(EXECUTIONS_AND_CUDA)
    ):
        known = ", ".join(EXECUTIONS_AND_CUDA)
        raise PluginError(f"{what}: executes_on is {executes_on!r}; it must be a tuple of some of {known}")
