"""Executions for ``fedplug bench``: the codec on NumPy arrays, TensorFlow graphs, and other compressors.

Other compressors are rows beside the encoders where their packages are installed. ``zstd`` (package
zstandard) and ``blosc2`` are lossless. ``zfpy`` sends 8 bits per element at a fixed rate. ``torch`` is the
top 1 % of each tensor as PyTorch programs write it by hand, with 32-bit indices. None keeps a residual.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.codecs import codec, decode_model
from fedplug.codecs.state import ArrayState
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import CapabilityError, ConfigError, MissingDependencyError
from fedplug.ops.types import Array

__all__ = [
    "PEERS",
    "AnyExecution",
    "CodecExecution",
    "Execution",
    "PeerExecution",
    "TensorFlowExecution",
    "installed_peers",
]

_ZFP_BITS = 8
_SHARE = 100

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
_Payloads: TypeAlias = Mapping[str, bytes]
_Tensors: TypeAlias = Sequence[Array]

_State = TypeVar("_State")
_Sent = TypeVar("_Sent")
_Read = TypeVar("_Read")


class Execution(Protocol[_State, _Sent, _Read]):
    """One encoder, and the arrays to encode in every round.

    The types of states, payloads and decoded arrays depend on the execution.
    """

    def encode(self, state: _State | None, round_num: int) -> tuple[_Sent, _State]:
        """Returns payloads and the next state. ``state`` may be overwritten. None in the first round."""

    def copy(self, state: _State) -> _State:
        """Returns a copy of a state for another call of `encode`."""

    def sizes(self, payloads: _Sent) -> dict[str, int]:
        """Returns the size of each payload in bytes."""

    def decode(self, payloads: _Sent) -> _Read:
        """Decodes the payloads."""

    def arrays(self, decoded: _Read) -> Arrays:
        """Converts the result of `decode` to arrays."""

    def equal(self, payloads: _Sent, others: _Sent) -> bool:
        """Returns whether two results of `encode` have the same bytes."""


AnyExecution: TypeAlias = Execution[Any, Any, Any]


class CodecExecution:
    """Runs `fedplug.codec` in a steady loop: states and decoded arrays are overwritten."""

    def __init__(self, expression: str, arrays: Arrays) -> None:
        """Prepares the codec. Raises the errors of `fedplug.codec`."""
        self._codec = codec(expression)
        self._arrays = arrays
        self._out = {name: np.empty_like(array) for name, array in arrays.items()}
        self._is_one = len(arrays) == 1 and isinstance(self._codec.encoder, Encoder)

    def encode(self, state: ArrayState | None, round_num: int) -> tuple[_Payloads, ArrayState]:
        if not self._is_one:
            return self._codec.encode_model(self._arrays, state, round_num, in_place=state is not None)
        [(name, array)] = self._arrays.items()
        payload, state = self._codec.encode(array, state, round_num, in_place=state is not None)
        return {name: payload}, state

    def copy(self, state: ArrayState) -> ArrayState:
        return {name: array.copy() for name, array in state.items()}

    def sizes(self, payloads: _Payloads) -> dict[str, int]:
        return {name: len(payload) for name, payload in payloads.items()}

    def decode(self, payloads: _Payloads) -> Arrays:
        return decode_model(payloads, out=self._out)

    def arrays(self, decoded: Arrays) -> Arrays:
        return decoded

    def equal(self, payloads: _Payloads, others: _Payloads) -> bool:
        return bool(payloads == others)


class TensorFlowExecution:
    """Runs the encoder in graphs, as on a TFF client and server; with the compiled ops if installed."""

    def __init__(self, expression: str, arrays: Arrays) -> None:
        """Raises the errors of `ModelEncoder`, and CapabilityError if the encoder needs a server."""
        try:
            import tensorflow as tf
        except ModuleNotFoundError as error:
            raise MissingDependencyError("bench --tensorflow", error.name or "") from error
        specs = [tf.TensorSpec(x.shape, tf.as_dtype(x.dtype), name) for name, x in arrays.items()]
        model = ModelEncoder(expression, specs)
        if model.rate_control is not None:
            raise CapabilityError(
                f"{expression} is controlled by a server; it can be timed without --tensorflow"
            )
        self._tf = tf
        self._names = list(arrays)
        self._xs = [tf.constant(x) for x in arrays.values()]
        self._first = model.init_state()
        self._encode = tf.function(model.encode, autograph=False)
        self._decode = tf.function(model.decode, autograph=False, reduce_retracing=True)

    def encode(self, state: _Tensors | None, round_num: int) -> tuple[_Tensors, _Tensors]:
        number = self._tf.constant(round_num)
        before = self._first if state is None else state
        payloads, after = self._encode(self._xs, before, number)
        return payloads, after

    def copy(self, state: _Tensors) -> _Tensors:
        return state  # tensors are immutable

    def sizes(self, payloads: _Tensors) -> dict[str, int]:
        return {name: len(payload) for name, payload in zip(self._names, payloads, strict=True)}

    def decode(self, payloads: _Tensors) -> _Tensors:
        decoded: _Tensors = self._decode(payloads)
        return decoded

    def arrays(self, decoded: _Tensors) -> Arrays:
        return {name: np.asarray(tensor) for name, tensor in zip(self._names, decoded, strict=True)}

    def equal(self, payloads: _Tensors, others: _Tensors) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(payloads, others, strict=True))


class _Codec(NamedTuple):
    """The functions of a peer: from a flat array to bytes, and back to an array like a given one."""

    encode: Callable[[NDArray[np.generic]], bytes]
    decode: Callable[[bytes, NDArray[np.generic]], NDArray[np.generic]]


def _bytes_of(x: NDArray[np.generic]) -> memoryview:
    return x.view(np.uint8).data  # ml_dtypes has no buffers of bfloat16


def _zstd(zstandard: Any, threads: int) -> _Codec:
    compressor = zstandard.ZstdCompressor(threads=threads if threads > 1 else 0)
    decompressor = zstandard.ZstdDecompressor()
    return _Codec(
        lambda x: compressor.compress(_bytes_of(x)),
        lambda payload, like: np.frombuffer(decompressor.decompress(payload), like.dtype),
    )


def _blosc2(blosc2: Any, threads: int) -> _Codec:
    blosc2.set_nthreads(threads)
    return _Codec(
        lambda x: blosc2.compress(_bytes_of(x), typesize=x.dtype.itemsize, codec=blosc2.Codec.ZSTD),
        lambda payload, like: np.frombuffer(blosc2.decompress(payload), like.dtype),
    )


def _zfpy(zfpy: Any, threads: int) -> _Codec:
    del threads  # its compression is serial
    return _Codec(
        lambda x: bytes(zfpy.compress_numpy(_at_least_float32(x), rate=_ZFP_BITS)),
        lambda payload, like: zfpy.decompress_numpy(payload).astype(like.dtype, copy=False),
    )


def _torch(torch: Any, threads: int) -> _Codec:
    torch.set_num_threads(threads)

    def encode(x: NDArray[np.generic]) -> bytes:
        values = torch.from_numpy(_at_least_float32(x))
        indices = torch.topk(values.abs(), max(1, x.size // _SHARE)).indices
        kept = values[indices].numpy().astype(x.dtype)
        return bytes(indices.to(torch.int32).numpy().tobytes() + kept.tobytes())

    def decode(payload: bytes, like: NDArray[np.generic]) -> NDArray[np.generic]:
        count = len(payload) // (4 + like.dtype.itemsize)
        decoded = np.zeros(like.size, like.dtype)
        decoded[np.frombuffer(payload, np.int32, count)] = np.frombuffer(
            payload, like.dtype, offset=4 * count
        )
        return decoded

    return _Codec(encode, decode)


def _at_least_float32(x: NDArray[np.generic]) -> NDArray[np.generic]:
    return x.astype(np.result_type(x.dtype, np.float32), copy=False)


PEERS: Mapping[str, tuple[str, Callable[[Any, int], _Codec]]] = {
    "zstd": ("zstandard", _zstd),
    "blosc2": ("blosc2", _blosc2),
    "zfpy": ("zfpy", _zfpy),
    "torch": ("torch", _torch),
}
"""The modules of the peers, and the functions that make their codecs for a number of threads."""


def installed_peers() -> list[str]:
    """Returns the names of the peers whose packages are installed and can be imported."""
    return [name for name, (module, _) in PEERS.items() if _can_be_imported(module)]


def _can_be_imported(module: str) -> bool:
    try:
        importlib.import_module(module)
    except (ImportError, OSError):  # also a package whose own libraries are missing
        return False
    return True


class PeerExecution:
    """Runs a peer on each array."""

    def __init__(self, name: str, arrays: Arrays) -> None:
        """Imports the package.

        Raises:
            ConfigError: There is no such peer.
            MissingDependencyError: The package is not installed.
        """
        if name not in PEERS:
            raise ConfigError(f"{name!r} is no peer; the peers are {', '.join(PEERS)}")
        module, make = PEERS[name]
        try:
            codec = make(importlib.import_module(module), kernels.num_threads())
        except ModuleNotFoundError as error:
            raise MissingDependencyError(f"the row {name}", error.name or module) from error
        self._codec = codec
        self._arrays = arrays

    def encode(self, state: None, round_num: int) -> tuple[_Payloads, None]:
        del state, round_num
        return {name: self._codec.encode(x.reshape(-1)) for name, x in self._arrays.items()}, None

    def copy(self, state: None) -> None:
        return state

    def sizes(self, payloads: _Payloads) -> dict[str, int]:
        return {name: len(payload) for name, payload in payloads.items()}

    def decode(self, payloads: _Payloads) -> Arrays:
        return {
            name: self._codec.decode(payload, self._arrays[name]).reshape(self._arrays[name].shape)
            for name, payload in payloads.items()
        }

    def arrays(self, decoded: Arrays) -> Arrays:
        return decoded

    def equal(self, payloads: _Payloads, others: _Payloads) -> bool:
        return payloads.keys() == others.keys()  # the bytes of blosc2 differ with several threads
