"""The server's side: the versions of a model, and the message for each receiver."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug.api as api
from fedplug.codecs.arrays import DTYPES, as_array, named_arrays
from fedplug.codecs.decoding import decode
from fedplug.codecs.encoding import Codec
from fedplug.differences.arrays import encode_array
from fedplug.differences.dtypes import dtype_name
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE, ModelEncoder
from fedplug.encoders.model.trials import check_broadcast_encoder
from fedplug.encoders.pipeline.changes import ChangeCoder, change_coder
from fedplug.encoders.pipeline.kernel_plan import plan_of
from fedplug.encoders.quantizers import Identity
from fedplug.errors import ArgumentError
from fedplug.kernels.foreign import read_array
from fedplug.ops.checks import all_finite
from fedplug.ops.device_array import on_host
from fedplug.ops.types import Spec
from fedplug.registry.component import Description
from fedplug.types import Values
from fedplug.wire import message
from fedplug.wire.message import Contents, Entry, version_of

__all__ = ["DEFAULT_KEEP_BYTES", "LOSSLESS", "Broadcaster"]

LOSSLESS = "lossless"
"""The name of exact broadcasts."""

DEFAULT_KEEP_BYTES = 2**31

Model = Mapping[str, Values]


class _Lossy(NamedTuple):
    """How an array is sent that loses something.

    Attributes:
        encoder: Its encoder.
        spec: Its spec.
        changes: The coder of its changed entries, or None.
    """

    encoder: Encoder
    spec: Spec
    changes: ChangeCoder | None


class _Kept(NamedTuple):
    """A version that receivers may have: its number, and its exact arrays."""

    number: int
    exact: Model


class _State(NamedTuple):
    """The newest version. `Broadcaster.publish` replaces it as a whole.

    Attributes:
        assigned: How the arrays are sent that are not sent exactly.
        published: The version of the exact model.
        version: The version of the reference model.
        number: The number of versions of this form so far.
        model: The reference model.
        snapshots: The payloads of the arrays that are not sent exactly.
        changed: The number of the version in which each of their entries last changed.
        kept: The versions that receivers are brought to the newest from.
        messages: The messages made so far, by the version that they are for.
    """

    assigned: Mapping[str, _Lossy]
    published: str
    version: str
    number: int
    model: Model
    snapshots: Mapping[str, bytes]
    changed: Mapping[str, NDArray[np.int32]]
    kept: Mapping[str, _Kept]
    messages: dict[str | None, bytes]


class Broadcaster:
    """Turns versions of a model into messages. Any transport can carry them.

    All receivers of a version hold the same bits, whatever messages they received. These bits are the
    *reference model*: each array as decoded from its encoder. The error of a version does not enter the next
    one, which encodes the exact model again.

    A receiver reports the version it holds. `message` brings it to the newest version by the changes
    since, or by a snapshot if the version is unknown or the changes are longer. Each message is encoded once
    for all receivers of a version.

    Statistics, small arrays, arrays with a NaN or an infinity, and all dtypes but floats of 16, 32 and 64
    bits (integers, complex numbers, float8 and int4 of ml_dtypes, say) are sent exactly: as differences in
    units in the last place, see `fedplug.diff`. So is a version of an array without a negative element, such
    as a variance, if the encoder would make one. With ``"lossless"`` all arrays are. Arrays with equal
    payloads, such as tied weights, are sent once.

    The memory is that of the model, its snapshot, 4 bytes per entry, and the exact arrays and one message of
    each kept version. Versions share arrays that have not changed. An object may be used from several
    threads, and can be pickled and copied.

    >>> import fedplug, numpy as np
    >>> server = fedplug.Broadcaster("bfp(5) | rans")
    >>> version = server.publish({"kernel": np.linspace(-1, 1, 10_000, dtype=np.float32)})
    >>> receiver = fedplug.Receiver()
    >>> model = receiver.apply(server.message(receiver.version))
    >>> receiver.version == version, len(server.message(receiver.version))
    (True, 47)
    """

    def __init__(
        self,
        encoder: Description = "auto",
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
            min_size: Minimum number of elements. Smaller arrays are sent exactly.
            exactly: Names of further arrays that are sent exactly.
            keep: The number of versions from which a receiver is brought to the newest by changes. Receivers
                of older versions get a snapshot.
            keep_bytes: The most bytes of exact arrays of kept versions. Beyond it fewer versions are kept,
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
        self._state: _State | None = None

    def __getstate__(self) -> dict[str, object]:
        """Returns the state at one moment, to pickle or copy it while other threads publish."""
        with self._lock:
            newest = self._state and self._state._replace(messages=dict(self._state.messages))
            return {**self.__dict__, "_state": newest, "_lock": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
        if self._state is not None:
            kept = (version.exact.values() for version in self._state.kept.values())
            for array in itertools.chain(self._state.model.values(), *kept):
                array.flags.writeable = False  # which pickles forget

    def __repr__(self) -> str:
        return f"Broadcaster({str(self._codec.encoder)!r}, version={self.version!r})"

    @property
    def version(self) -> str | None:
        """The newest version. None before the first."""
        return None if self._state is None else self._state.version

    @property
    def model(self) -> dict[str, Values]:
        """The reference model of the newest version, read-only, as receivers of it hold it.

        Raises:
            ArgumentError: There is no version yet.
        """
        return dict(self._newest().model)

    def publish(self, model: Mapping[str, object]) -> str:
        """Makes a new version.

        A model with the bits of the last published one stays the same version. If names, order, shapes or
        dtypes have changed, all receivers get a snapshot.

        Args:
            model: The arrays by name, each as for `Codec.encode`, or on a device, or of any dtype that
                `fedplug.diff` takes, copied.

        Returns:
            The version: a text that follows from the reference model alone, so that a restarted server
            recognizes receivers of the model it restarts with.

        Raises:
            ArgumentError: An array cannot be sent. The message names it.
            CapabilityError: The encoder leaves entries out, or its error is too large for a model.
            ConfigError: The encoder does not fit this model. After any error the last version is still there.
        """
        arrays = named_arrays(model, _on_host)
        with self._lock:
            published = version_of(arrays)
            if self._state is None or published != self._state.published:
                self._state = self._next(arrays, published)
            return self._state.version

    def message(self, since: str | None = None) -> bytes:
        """Returns the message for receivers of a version. The same bytes for all of them.

        Args:
            since: The version that the receiver reports. None if it has none. Untrusted: the message for
                anything that is no version is a snapshot.

        Raises:
            ArgumentError: There is no version yet.
        """
        with self._lock:
            state = self._newest()
            base = since if isinstance(since, str) and since in state.kept else None
            if base not in state.messages:
                state.messages[base] = _message(state, base)
            return state.messages[base]

    def _newest(self) -> _State:
        if self._state is None:
            raise ArgumentError("there is no version yet; call publish(model) first")
        return self._state

    def _next(self, arrays: Model, published: str) -> _State:
        last = self._state
        if last is None or _forms(arrays) != _forms(last.model):
            last = None
            encodable = {name: array for name, array in arrays.items() if array.dtype.name in DTYPES}
            assigned: Mapping[str, _Lossy] = (
                _assigned(self._codec.model_encoder(encodable)) if encodable or not arrays else {}
            )
        else:
            assigned = last.assigned
        number = 1 if last is None else last.number + 1
        snapshots, decoded = {}, {}
        for name, array in arrays.items():
            if name in assigned and all_finite(array):
                snapshot = _encoded(assigned[name], array, number)
                received = decode(snapshot, max_bytes=sys.maxsize)
                if not (received < 0).any() or (array < 0).any():  # no variance becomes negative
                    snapshots[name], decoded[name] = snapshot, received
        exact = {name: _kept_copy(last, name, array) for name, array in arrays.items() if name not in decoded}
        model = {name: _read_only(decoded[name] if name in decoded else exact[name]) for name in arrays}
        changed = {name: _rounds(last, name, array, number) for name, array in decoded.items()}
        version = version_of(model)
        kept = {} if last is None else dict(last.kept)
        kept.pop(version, None)
        kept[version] = _Kept(number, exact)
        while len(kept) > self._keep or (len(kept) > 1 and _bytes_of(kept) > self._keep_bytes):
            del kept[next(iter(kept))]
        return _State(assigned, published, version, number, model, snapshots, changed, kept, {})


def _on_host(value: object) -> NDArray[np.generic]:
    """Returns the array of a value. One of a dtype that no encoder knows can be sent exactly."""
    array: NDArray[np.generic] = on_host(value)
    if array is value:
        array = read_array(value)
    if array.dtype.name in DTYPES:
        return as_array(array)
    dtype_name(array.dtype)  # raises for elements that have no bytes
    return np.asarray(array, order="C")


def _forms(arrays: Model) -> list[tuple[str, tuple[int, ...], np.dtype[np.generic]]]:
    return [(name, array.shape, array.dtype) for name, array in arrays.items()]


def _message(state: _State, base: str | None) -> bytes:
    payloads: dict[str, bytes] = {}
    if base is None:
        payloads = {name: _whole(state, name) for name in state.model}
    elif base != state.version:
        since = {name: _since(state, name, state.kept[base]) for name in state.model}
        payloads = {name: each for name, each in since.items() if each}
    entries = [Entry(name, base is not None, in_new=True) for name in payloads]
    return b"".join(message.write(Contents(entries, base, state.version), payloads.values()))


def _whole(state: _State, name: str) -> bytes:
    payload = state.snapshots.get(name)
    return encode_array(None, state.model[name]) if payload is None else payload


def _since(state: _State, name: str, kept: _Kept) -> bytes:
    """Returns the payload that brings an array up to date. Empty if it has not changed."""
    snapshot, new = state.snapshots.get(name), state.model[name]
    if snapshot is None:
        old = kept.exact.get(name)
        return b"" if old is not None and _same(old, new) else encode_array(old, new)
    changed = state.changed[name] > kept.number
    if not changed.any():
        return b""
    coder = state.assigned[name].changes
    if coder is None:
        return snapshot
    part = np.asarray(coder.encode(np.frombuffer(snapshot, np.uint8), changed)).tobytes()
    return min(part, snapshot, key=len)


def _encoded(lossy: _Lossy, array: NDArray[np.generic], number: int) -> bytes:
    state = lossy.encoder.init_state(lossy.spec)
    [payload], _ = plan_of(lossy.encoder, [lossy.spec]).encode([array], [state], number)
    return bytes(payload)


def _kept_copy(last: _State | None, name: str, array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Returns the array of the last version if it has the same bits, else a copy."""
    before = None if last is None else last.model[name]
    return before if before is not None and _same(before, array) else array.copy()


def _rounds(last: _State | None, name: str, array: NDArray[np.generic], number: int) -> NDArray[np.int32]:
    """Returns the number of the version in which each entry last changed."""
    if last is None or name not in last.changed:
        return np.full(array.shape, number, np.int32)
    return np.where(_bits(array) == _bits(last.model[name]), last.changed[name], np.int32(number))


def _bytes_of(versions: Mapping[str, _Kept]) -> int:
    unique = {id(array): array.nbytes for kept in versions.values() for array in kept.exact.values()}
    return sum(unique.values())


def _assigned(model: ModelEncoder) -> dict[str, _Lossy]:
    """Returns how the arrays are sent that are not sent exactly, after a check of their encoders."""
    check_broadcast_encoder(model)
    each = zip(model.encoders, model.specs, model.sent_exactly, strict=True)
    return {
        spec.name or "": _Lossy(encoder, spec, change_coder(encoder, spec))
        for encoder, spec, reason in each
        if reason is None
    }


def _read_only(array: NDArray[np.generic]) -> NDArray[np.generic]:
    array.flags.writeable = False
    return array


def _same(one: NDArray[np.generic], other: NDArray[np.generic]) -> bool:
    """Whether two arrays of one shape and dtype have the same bits."""
    return np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))


def _bits(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Returns the array as unsigned integers, so that a change of a zero's sign counts."""
    return array.view(f"u{array.dtype.itemsize}")
