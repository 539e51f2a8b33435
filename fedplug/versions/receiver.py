"""The client's side: a model and its version, which may be durable."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.wire as wire
from fedplug.codecs.decoding import DEFAULT_MAX_BYTES, decode
from fedplug.codecs.wire_ids import WireIds, value_coder_of
from fedplug.differences.arrays import WIRE_ID as EXACT
from fedplug.differences.arrays import as_bytes, decode_array
from fedplug.differences.dtypes import dtype_name, dtype_of
from fedplug.differences.models import decode_payloads
from fedplug.encoders.pipeline.changes import CHANGES, ChangeCoder
from fedplug.errors import (
    ArgumentError,
    BaseVersionError,
    ConfigError,
    CorruptStoreError,
    PayloadError,
    StoreError,
)
from fedplug.ops.types import ArraySpec
from fedplug.stores.base import ProcessState, StateStore
from fedplug.types import Values
from fedplug.wire.message import Contents, MessageReader, version_of

__all__ = ["Receiver"]

_log = logging.getLogger("fedplug")


class Receiver:
    """Holds the model of one client, and brings it up to date with the messages of a `Broadcaster`.

    The client reports `version` to the server, which answers with the message for it. With a store the model
    is durable: after a crash during `apply` the receiver has the old version or the new one. A receiver
    without a model reports None. An object belongs to one client, and is not thread-safe.
    """

    def __init__(
        self,
        store: StateStore | None = None,
        client_id: str = "",
        *,
        max_bytes: float = DEFAULT_MAX_BYTES,
        wire_ids: WireIds = None,
    ) -> None:
        """Opens the model of the client in the store.

        A stored model that is damaged is not used: the log says so, and the next message is a snapshot.

        Args:
            store: The store, from `fedplug.open_store`. The caller closes it, and it may be shared. None
                keeps the model in memory only.
            client_id: The client's name in the store. Any text.
            max_bytes: The most memory for all arrays of the model, changed or not.
            wire_ids: The expected wire ids of lossy payloads, see `fedplug.decode`.

        Raises:
            ArgumentError: ``store`` is not a store, or ``max_bytes`` not a number of at least 0.
            StoreError: The store is closed or damaged, for example.
        """
        if store is not None and not isinstance(store, StateStore):
            raise ArgumentError(f"store is {store!r}; it must be a store, such as open_store('memory://')")
        self._max_bytes = wire.check_max_bytes(max_bytes)
        self._wire_ids = wire_ids
        self._kept: ProcessState | None = None
        self._model: dict[str, NDArray[np.generic]] | None = None
        self._version: str | None = None
        if store is not None:
            self._kept = store.open_process(f"model of client {client_id}", {"format": 1})
            self._load(self._kept)

    def __repr__(self) -> str:
        return f"Receiver(version={self._version!r})"

    def __getstate__(self) -> dict[str, object]:
        """Returns the state of a receiver without a store, which can be pickled and copied.

        Raises:
            StoreError: The model is in a store.
        """
        if self._kept is not None:
            raise StoreError(
                "a Receiver with a store cannot be pickled or copied; make one in the other process with a "
                "store that is opened there"
            )
        return self.__dict__

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        for array in (self._model or {}).values():
            array.flags.writeable = False  # which pickles forget

    @property
    def version(self) -> str | None:
        """The version to report to the server. None without a model."""
        return self._version

    @property
    def model(self) -> dict[str, Values] | None:
        """The model, read-only arrays by name. None before the first message."""
        return None if self._model is None else dict(self._model)

    def apply(self, data: object) -> dict[str, Values]:
        """Brings the model to the version of a message.

        A message for the version that the receiver has, such as one delivered twice, changes nothing.

        Args:
            data: The untrusted bytes from `Broadcaster.message`.

        Returns:
            The model: read-only arrays by name, in the server's order.

        Raises:
            BaseVersionError: The message is for receivers of another version. Report `version` again.
            PayloadError: The message is damaged, needs more than ``max_bytes``, or gives another model than
                it says. Like all errors, it leaves the model unchanged.
            ArgumentError: ``data`` is not a buffer.
            StoreError: The model cannot be stored.
        """
        message = MessageReader(data)
        contents = message.contents()
        if contents.version is None:
            raise PayloadError(
                "the message names no version; fedplug.patch takes the messages of fedplug.diff"
            )
        if self._model is None or contents.version != self._version:
            if contents.base not in (None, self._version):
                raise BaseVersionError(
                    f"the message is for receivers of version {contents.base}, and this one has "
                    f"{self._version}; report that version, and the server sends what fits"
                )
            model = self._updated(contents, message)
            if version_of(model) != contents.version:
                raise PayloadError(
                    f"the message leads to version {version_of(model)}, not to {contents.version} as it says"
                )
            self._keep(model, contents.version)
        assert self._model is not None
        return dict(self._model)

    def _updated(self, contents: Contents, message: MessageReader) -> dict[str, NDArray[np.generic]]:
        """Returns the model of a message."""
        old = {} if contents.base is None else dict(self._model or {})
        sent = set(contents.sent)
        left = self._max_bytes - sum(array.nbytes for name, array in old.items() if name not in sent)
        new = dict(old)
        for name, array in decode_payloads(old, contents, message, left, self._decoded):
            array.flags.writeable = False
            new[name] = array
        return new

    def _decoded(self, payload: Any, old: NDArray[np.generic] | None, left: float) -> NDArray[np.generic]:
        wire_id = kernels.unframe(payload)[0]
        if wire_id == EXACT:
            return decode_array(payload, old, left)
        if not wire_id.startswith(CHANGES):
            return decode(payload, max_bytes=max(left, 0), wire_ids=self._wire_ids)
        if old is None:
            raise PayloadError("a snapshot cannot have changed entries alone")
        wire.require_room(old.nbytes, left)
        return _decode_changes(payload, old, self._wire_ids)

    def _keep(self, model: Mapping[str, NDArray[np.generic]], version: str) -> None:
        if self._kept is not None:
            last = self._kept.last_round
            self._kept.commit(
                0 if last is None else last + 1,
                client_states={},
                server_state={name: as_bytes(array) for name, array in model.items()},  # of any dtype
                metadata={
                    "version": version,
                    "arrays": [(name, dtype_name(a.dtype), a.shape) for name, a in model.items()],
                },
            )
        self._model, self._version = dict(model), version

    def _load(self, kept: ProcessState) -> None:
        try:
            stored = kept.read_server()
        except CorruptStoreError as error:
            _log.warning("the stored model is damaged, so the server will send it whole: %s", error)
            return
        if stored is None:
            return
        model = {
            name: stored[name].view(dtype_of(dtype)).reshape(shape)
            for name, dtype, shape in kept.metadata["arrays"]
        }
        if version_of(model) == kept.metadata["version"]:
            for array in model.values():
                array.flags.writeable = False
            self._model, self._version = model, kept.metadata["version"]


def _decode_changes(payload: Any, old: NDArray[np.generic], wire_ids: WireIds) -> NDArray[np.generic]:
    """Returns the new array from the untrusted bytes of a `ChangeCoder`.

    Raises:
        PayloadError: They are not the changed entries of an array with the shape and dtype of ``old``.
    """
    wire_id, dtype, shape, body = kernels.unframe(payload)
    whole = wire_id.removeprefix(CHANGES)
    if wire_ids is not None and whole not in wire_ids:
        raise PayloadError(f"the payload has the wire id {wire_id!r}, which was not expected")
    if (dtype, shape) != (old.dtype.name, old.shape):
        raise PayloadError(
            f"the payload changes {dtype}{list(shape)}; the array is {old.dtype}{list(old.shape)}"
        )
    try:
        values = value_coder_of(whole, kernels.split_sparse_body(body, old.size)[2])
        coder = ChangeCoder(values, ArraySpec(old.shape, old.dtype))
        new = np.asarray(coder.decode(np.frombuffer(payload, np.uint8), old))
    except (ArgumentError, ConfigError) as error:  # an impossible configuration is the payload's fault
        raise PayloadError(f"a payload with the wire id {wire_id!r} cannot be read: {error}") from error
    return new
