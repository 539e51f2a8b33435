"""`MaskedSum`: updates as vectors that masks can hide, and their sum as an update again."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

import fedplug.api as api
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.codecs.arrays import named_arrays
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.errors import ArgumentError, CapabilityError, PayloadError, StateError
from fedplug.ops.types import ArraySpec
from fedplug.registry.component import Description, plain
from fedplug.secure.ring import pack, unpack
from fedplug.secure.rounds import LEAST_LARGEST, MOST_LARGEST, Rounds

__all__ = ["MaskedMean", "MaskedSum"]

_WIRE_ID = "sharedk-round/1"
_ROUND = struct.Struct("<II")
_Form = dict[str, tuple[np.dtype[np.generic], tuple[int, ...]]]

Arrays = Mapping[str, NDArray[np.generic]]


class MaskedMean(NamedTuple):
    """The result of a round, which is all that the server learns of it.

    Attributes:
        update: The weighted mean of the updates, by name, in the dtypes of the model.
        weight: The sum of the weights, as far as they counted.
        clients: The number of clients in the sum.
        clipped: The number of values that were limited to the largest magnitude of the round, or reached it.
    """

    update: dict[str, NDArray[np.generic]]
    weight: float
    clients: int
    clipped: int


class MaskedSum:
    """Turns updates into vectors of integers of a ring, and a sum of vectors into the mean update.

    It masks nothing itself: a protocol for secure aggregation adds the vectors. Server and clients make equal
    objects. All states are arrays by name, which `fedplug.stores` can save.

    >>> import numpy as np
    >>> from fedplug.secure import MaskedSum
    >>> update = {"kernel": np.full(1000, 0.25, np.float32)}
    >>> masked = MaskedSum("sharedk(0.01, clients=2)", update)
    >>> server = masked.init_server()
    >>> message = masked.message(server)
    >>> vectors = [masked.encode(update, masked.init_client(), message)[0] for _ in range(2)]
    >>> mean, server = masked.decode(sum(vectors), server)
    >>> mean.clients, masked.length, np.count_nonzero(mean.update["kernel"])
    (2, 14, 10)
    """

    def __init__(self, encoder: Description, like: Mapping[str, object]) -> None:
        """Takes the encoder and the arrays of a model or of an update, of which only the form matters.

        Args:
            encoder: A `SharedK` or an expression for one, such as ``"sharedk(0.01, clients=10)"``.
            like: Arrays of floats by name.

        Raises:
            ArgumentError: An array is not of floats, or there are 2^31 elements or more.
            CapabilityError: The encoder does not send integers of a ring.
            ConfigError: The encoder cannot be read.
        """
        chosen = api.encoder(encoder)
        if not isinstance(chosen, SharedK):
            raise CapabilityError(
                f"{chosen!r} sends no integers of a ring, which masks hide; use sharedk(0.01, clients=10)"
            )
        self._specs = {name: ArraySpec(x.shape, x.dtype) for name, x in named_arrays(like).items()}
        for name, spec in self._specs.items():
            if not ops.is_floating(spec.dtype):
                raise ArgumentError(f"array {name!r} is of {spec.dtype}; a masked sum takes arrays of floats")
        size = sum(map(ops.num_elements, self._specs.values()))
        if not 0 < size <= wire.MAX_ELEMENTS:
            raise ArgumentError(
                f"the arrays have {size} elements; a masked sum takes 1 to {wire.MAX_ELEMENTS}"
            )
        shapes = {name: tuple(spec.shape) for name, spec in self._specs.items()}
        self._rounds = Rounds(chosen, list(shapes.values()))
        given = cast("dict[str, float | None]", chosen.get_config())
        config = {key: value and float(value) for key, value in given.items()}
        equal = json.dumps([list(shapes.items()), config])
        self._fingerprint = zlib.crc32(equal.encode())
        self._client_form, self._server_form = _form(self.init_client()), _form(self.init_server())

    @property
    def bits(self) -> int:
        """The bits of an integer: those of a vector, and sums modulo 2^bits, are from 0 to 2^bits - 1."""
        return self._rounds.encoder.bits

    @property
    def length(self) -> int:
        """The number of integers of a vector: values, and a few counts."""
        return self._rounds.length

    @property
    def clients(self) -> int:
        """The most vectors that may be added."""
        return self._rounds.encoder.clients

    def init_server(self) -> dict[str, NDArray[np.generic]]:
        """Returns the server's state before the first round."""
        return self._rounds.init_server()

    def message(self, server: Arrays) -> bytes:
        """Returns the message of a round, from which clients compute its support and its directions.

        Raises:
            StateError: The state has another form.
        """
        _require_form("a server", server, self._server_form)
        body = _ROUND.pack(self._fingerprint, int(server["round_num"]))
        body += server["largest"].astype("<f4").tobytes()
        if "sums" in server:
            body += pack(self._rounds.encoder.residues(server["sums"]), self.bits)
        return wire.frame(body, _WIRE_ID, "float32", (self._rounds.size,))

    def init_client(self) -> dict[str, NDArray[np.generic]]:
        """Returns the state of a client before its first round: ``{"residual": zeros}``."""
        return {"residual": np.zeros(self._rounds.size, np.float32)}

    def encode(
        self, update: Mapping[str, object], client: Arrays, message: bytes, *, weight: float = 1.0
    ) -> tuple[NDArray[np.int64], dict[str, NDArray[np.generic]]]:
        """Returns the vector of a client, and its next state.

        Keep the old state if the server does not count the vector, for instance because the client drops out.

        Args:
            update: The update, in the form of the model.
            client: The client's state, from `init_client` or from its last call.
            message: The message of the round, untrusted.
            weight: The weight, for instance the number of examples. Above 0. It counts in steps of
                ``max_weight / L``, at least one of them and at most ``max_weight``; without ``max_weight``
                all clients count the same.

        Returns:
            The vector, int64 ``[length]`` of numbers from 0 to 2^bits - 1, and ``{"residual": float32[n]}``.

        Raises:
            ArgumentError: The update has not the form of the model, or the weight is not a number above 0.
            NonFiniteError: The update has a NaN, or a number that is not finite as a float32.
            PayloadError: The message is damaged, or of a server with another encoder, or with other names or
                shapes of arrays in this order.
            StateError: The state has another form.
        """
        weight = plain(weight)
        if not (isinstance(weight, int | float) and 0 < weight < float("inf")):
            raise ArgumentError(
                f"weight is {weight!r}; it must be a number above 0, or send masked.no_update()"
            )
        _require_form("a client", client, self._client_form)
        counted = np.float32(min(weight, self._rounds.encoder.max_weight or 1.0))
        vector, after = self._rounds.encode(
            self._flat(update), client["residual"], counted, self._read(message)
        )
        return np.asarray(vector, np.int64), {"residual": np.asarray(after)}

    def no_update(self) -> NDArray[np.int64]:
        """Returns the vector of a client that has no update: zeros, which change no sum."""
        return np.zeros(self.length, np.int64)

    def decode(self, total: object, server: Arrays) -> tuple[MaskedMean, dict[str, NDArray[np.generic]]]:
        """Reads the sum of a round's vectors. Returns its content, and the server's next state.

        Args:
            total: The sum of the vectors, modulo 2^bits or not. Integers ``[length]``.
            server: The state whose `message` the clients had.

        Raises:
            ArgumentError: The sum has another length.
            PayloadError: It is not a sum of at most `clients` vectors.
            StateError: The state has another form.
        """
        _require_form("a server", server, self._server_form)
        residues = np.asarray(total).reshape(-1)
        if residues.size != self.length or residues.dtype.kind not in "iu":
            raise ArgumentError(
                f"the sum of a round is {self.length} integers, not {residues.dtype}[{residues.size}]"
            )
        residues = residues.astype(np.int64) % 2**self.bits
        summed, after = self._rounds.decode(residues.astype(np.int32), server)
        parts = np.split(summed.update, np.cumsum([ops.num_elements(s) for s in self._specs.values()])[:-1])
        update = {
            name: np.reshape(ops.saturate_cast(part, spec.dtype), spec.shape)
            for part, (name, spec) in zip(parts, self._specs.items(), strict=True)
        }
        return MaskedMean(update, float(summed.weight), int(summed.clients), int(summed.clipped)), {
            key: np.asarray(x) for key, x in after.items()
        }

    def signed(self, vector: object) -> NDArray[np.int64]:
        """Returns the signed numbers that a vector or a sum stands for."""
        return np.asarray(self._rounds.encoder.signed(np.asarray(vector, np.int64)))

    def _flat(self, update: Mapping[str, object]) -> NDArray[np.float32]:
        arrays = named_arrays(update)
        found = {name: ArraySpec(x.shape, x.dtype) for name, x in arrays.items()}
        if found != self._specs:
            wrong = sorted(set(found.items()) ^ set(self._specs.items()), key=str)[0]
            raise ArgumentError(f"the update is not in the form of the model, for instance {wrong}")
        with np.errstate(over="ignore"):
            return np.concatenate([arrays[name].reshape(-1).astype(np.float32) for name in self._specs])

    def _read(self, message: bytes) -> dict[str, Any]:
        """Reads a message of `message`."""
        found = wire.unframe(message)
        rounds = self._rounds
        if (found.wire_id, found.dtype, found.shape) != (_WIRE_ID, "float32", (rounds.size,)):
            raise PayloadError(f"the message is not of a masked sum of {rounds.size} float32 elements")
        head = _ROUND.size + 4 * math.prod(rounds.magnitudes)
        code = found.body[head:]
        if len(found.body) < head or (rounds.memory > 0) != (len(code) > 0):
            raise PayloadError("the message of a masked sum has the wrong length")
        fingerprint, round_num = _ROUND.unpack_from(found.body)
        largest = (
            np.frombuffer(found.body[_ROUND.size : head], "<f4").astype(np.float32).reshape(rounds.magnitudes)
        )
        if fingerprint != self._fingerprint:
            raise PayloadError(
                "the message is of a masked sum with another encoder, or with other names, shapes or another "
                "order of arrays"
            )
        if not (round_num < 2**31 and ((largest >= LEAST_LARGEST) & (largest <= MOST_LARGEST)).all()):
            raise PayloadError("the message of a masked sum has a round or a magnitude that is out of range")
        read: dict[str, Any] = {"round_num": np.int32(round_num), "largest": largest}
        if rounds.memory:
            sums = self.signed(unpack(bytes(code), rounds.memory, self.bits))
            read["sums"] = sums.astype(np.int32)
        return read


def _form(state: Arrays) -> _Form:
    return {key: (array.dtype, array.shape) for key, array in state.items()}


def _require_form(whose: str, state: Arrays, form: _Form) -> None:
    found = _form(state) if isinstance(state, Mapping) else state
    if found != form:
        raise StateError(f"the state of {whose} must be {form}, not {found}")
