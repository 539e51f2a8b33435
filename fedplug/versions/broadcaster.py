"""The server's side: the versions of a model, and the message for each receiver."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedplug import api
from fedplug.codecs.arrays import named_arrays
from fedplug.codecs.decoding import decode
from fedplug.codecs.encoding import Codec
from fedplug.differences.arrays import encode_array
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.model import framing
from fedplug.encoders.model.closeness import check_broadcast_encoder
from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE, ModelEncoder
from fedplug.encoders.pipeline.changes import ChangeCoder, change_coder
from fedplug.encoders.standalone.identity import Identity
from fedplug.errors import ArgumentError
from fedplug.ops.device_array import on_host
from fedplug.ops.finite import all_finite
from fedplug.ops.types import ArraySpec
from fedplug.versions import message
from fedplug.versions.checksum import version_of
from fedplug.versions.message import Kind, Message

__all__ = ["DEFAULT_KEEP_BYTES", "LOSSLESS", "Broadcaster"]

LOSSLESS = "lossless"
"""The name of exact broadcasts."""

DEFAULT_KEEP_BYTES = 2**31

Model = Mapping[str, NDArray[Any]]


class _Lossy(NamedTuple):
    """How an array is sent that loses something.

    Attributes:
        encoder: Its encoder.
        spec: Its spec.
        changes: The coder of its changed entries, or None.
    """

    encoder: Encoder
    spec: ArraySpec
    changes: ChangeCoder | None


class _Kept(NamedTuple):
    """A version that receivers may have: its number, and its exact arrays."""

    number: int
    exact: Model


class Broadcaster:
    """Turns versions of a model into messages; any transport can carry them.

    All receivers of a version hold the same bits, whatever messages they received. These bits are the
    *reference model*: each array as decoded from its encoder. The error of a version does not enter the next
    one, which encodes the exact model again.

    A receiver reports the version it holds. `message` brings it to the newest version by what has changed
    since, or by a snapshot if the version is unknown or the changes are longer. Each message is encoded once
    for all receivers of a version.

    Statistics, integers, booleans, small arrays, and arrays with a NaN or an infinity are sent exactly: as
    differences in units in the last place, see `fedplug.diff`. With ``"lossless"`` all arrays are.

    The memory is that of the model, its snapshot, 4 bytes per entry, and the exact arrays and one message of
    each kept version. Versions share arrays that have not changed. An object may be used from several
    threads.

    >>> import fedplug, numpy as np
    >>> server = fedplug.Broadcaster("bfp(5) | rans")
    >>> version = server.publish({"kernel": np.linspace(-1, 1, 10_000, dtype=np.float32)})
    >>> receiver = fedplug.Receiver()
    >>> model = receiver.apply(server.message(receiver.version))
    >>> receiver.version == version, len(server.message(receiver.version))
    (True, 30)
    """

    def __init__(
        self,
        encoder: Any = "auto",
        *,
        min_size: int = DEFAULT_MIN_SIZE,
        exactly: Collection[str] = (),
        keep: int = 16,
        keep_bytes: int = DEFAULT_KEEP_BYTES,
    ) -> None:
        """Begins without a version.

        Args:
            encoder: ``"lossless"``, or any form of an encoder that sends every entry with a small error, see
                `fedplug.encoder`; ``"auto"`` is ``bfp(4) | rans``.
            min_size: Minimum number of elements; smaller arrays are sent exactly.
            exactly: Names of further arrays that are sent exactly.
            keep: The number of versions from which a receiver is brought to the newest by changes; receivers
                of older versions get a snapshot.
            keep_bytes: The most bytes of exact arrays of kept versions; beyond it fewer versions are kept,
                at least the newest.

        Raises:
            CapabilityError: The encoder executes in TensorFlow only.
            ConfigError: The encoder cannot be read, or an argument is refused.
        """
        check_whole("keep", keep, 1)
        check_whole("keep_bytes", keep_bytes, 0)
        chosen = Identity() if encoder == LOSSLESS else api.encoder(encoder)
        if isinstance(chosen, EncoderAssignment):
            chosen = chosen.for_models()
        self._codec = Codec(chosen, min_size=min_size, exactly=exactly)
        self._keep, self._keep_bytes = keep, keep_bytes
        self._lock = threading.Lock()
        self._encoder: ModelEncoder | None = None
        self._assigned: dict[str, _Lossy] = {}
        self._published = ""
        self._clear()

    @property
    def version(self) -> str | None:
        """The newest version; None before the first."""
        return self._version

    @property
    def model(self) -> dict[str, NDArray[Any]]:
        """The reference model of the newest version, read-only: what receivers of it hold.

        Raises:
            ArgumentError: There is no version yet.
        """
        self._require_version()
        return dict(self._model)

    def publish(self, model: Mapping[str, Any]) -> str:
        """Makes a new version.

        A model with the bits of the last published one stays the same version. If names, order, shapes or
        dtypes have changed, all receivers get a snapshot.

        Args:
            model: The arrays by name, each as for `Codec.encode`, or on a device; copied.

        Returns:
            The version: a text that follows from the reference model alone, so that a restarted server
            recognizes receivers of the model it restarts with.

        Raises:
            ArgumentError: An array cannot be sent; the message names it.
            CapabilityError: The encoder leaves entries out, or its error is too large for a model.
            ConfigError: The encoder does not fit this model.
        """
        arrays = {name: on_host(array) for name, array in named_arrays(model).items()}
        with self._lock:
            published = version_of(arrays)
            if self._version is None or published != self._published:
                self._publish(arrays)
                self._published = published
            return self._require_version()

    def message(self, since: str | None = None) -> bytes:
        """Returns the message for receivers of a version; the same bytes for all of them.

        Args:
            since: The version that the receiver reports; None if it has none. Untrusted.

        Raises:
            ArgumentError: There is no version yet.
        """
        with self._lock:
            version = self._require_version()
            base = since if since in self._kept else None
            if base not in self._messages:
                self._messages[base] = message.write(self._message(base, version))
            return self._messages[base]

    def _clear(self) -> None:
        self._version: str | None = None
        self._number = 0
        self._model: dict[str, NDArray[Any]] = {}
        self._snapshots: dict[str, bytes] = {}
        self._changed: dict[str, NDArray[np.int32]] = {}
        self._kept: dict[str, _Kept] = {}
        self._messages: dict[str | None, bytes] = {}

    def _require_version(self) -> str:
        if self._version is None:
            raise ArgumentError("there is no version yet; call publish(model) first")
        return self._version

    def _publish(self, arrays: Model) -> None:
        encoder = self._codec.model_encoder(arrays)  # one object for each form of a model
        if encoder is not self._encoder:
            assigned = _assigned(encoder)
            self._clear()
            self._encoder, self._assigned = encoder, assigned
        number = self._number + 1
        lossy = [name for name, array in arrays.items() if self._is_lossy(name, array)]
        snapshots = {name: self._encoded(name, arrays[name], number) for name in lossy}
        decoded = {name: decode(snapshots[name], max_bytes=sys.maxsize) for name in lossy}
        exact = {name: self._kept_copy(name, array) for name, array in arrays.items() if name not in decoded}
        model = {name: _read_only(decoded[name] if name in decoded else exact[name]) for name in arrays}
        changed = {name: self._rounds(name, array, number) for name, array in decoded.items()}
        version = version_of(model)
        # Nothing fails from here on, so that the state is replaced as a whole or not at all.
        self._version, self._number, self._model = version, number, model
        self._snapshots, self._changed, self._messages = snapshots, changed, {}
        self._kept.pop(version, None)
        self._kept[version] = _Kept(number, exact)
        while len(self._kept) > self._keep or (len(self._kept) > 1 and self._bytes_kept() > self._keep_bytes):
            del self._kept[next(iter(self._kept))]

    def _bytes_kept(self) -> int:
        unique = {id(array): array.nbytes for kept in self._kept.values() for array in kept.exact.values()}
        return sum(unique.values())

    def _kept_copy(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Returns the array of the last version if it has the same bits, else a copy."""
        before = self._model.get(name)
        return before if before is not None and _same(before, array) else array.copy()

    def _is_lossy(self, name: str, array: NDArray[Any]) -> bool:
        return name in self._assigned and bool(all_finite(array))

    def _encoded(self, name: str, array: NDArray[Any], number: int) -> bytes:
        encoder, spec, _ = self._assigned[name]
        header = framing.header_of(encoder.wire_id, spec)
        state = encoder.init_state(spec)
        [(payload, _)] = framing.encode_containers(encoder, [array], [state], number, [spec], [header])
        return payload

    def _rounds(self, name: str, array: NDArray[Any], number: int) -> NDArray[np.int32]:
        """Returns the number of the version in which each entry last changed."""
        before = self._changed.get(name)
        if before is None:
            return np.full(array.shape, number, np.int32)
        return np.where(_bits(array) == _bits(self._model[name]), before, np.int32(number))

    def _message(self, base: str | None, version: str) -> Message:
        if base == version:
            return Message(Kind.SAME, version, version, {})
        if base is None:
            return Message(Kind.SNAPSHOT, None, version, {name: self._whole(name) for name in self._model})
        kept = self._kept[base]
        since = {name: self._since(name, kept) for name in self._model}
        return Message(Kind.CHANGES, base, version, {name: each for name, each in since.items() if each})

    def _whole(self, name: str) -> bytes:
        payload = self._snapshots.get(name)
        return encode_array(None, self._model[name]) if payload is None else payload

    def _since(self, name: str, kept: _Kept) -> bytes:
        """Returns the payload that brings an array up to date; empty if it has not changed."""
        snapshot, new = self._snapshots.get(name), self._model[name]
        if snapshot is None:
            old = kept.exact.get(name)
            return b"" if old is not None and _same(old, new) else encode_array(old, new)
        changed = self._changed[name] > kept.number
        if not changed.any():
            return b""
        coder = self._assigned[name].changes
        if coder is None:
            return snapshot
        part = np.asarray(coder.encode(np.frombuffer(snapshot, np.uint8), changed)).tobytes()
        return min(part, snapshot, key=len)


def _assigned(model: ModelEncoder) -> dict[str, _Lossy]:
    """Returns how the arrays are sent that are not sent exactly, after a check of their encoders."""
    check_broadcast_encoder(model)
    each = zip(model.encoders, model.specs, model.sent_exactly, strict=True)
    return {
        spec.name: _Lossy(encoder, spec, change_coder(encoder, spec))
        for encoder, spec, reason in each
        if reason is None
    }


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays of one shape and dtype have the same bits."""
    return np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the array as unsigned integers, so that a change of a zero's sign counts."""
    return array.view(f"u{array.dtype.itemsize}")
