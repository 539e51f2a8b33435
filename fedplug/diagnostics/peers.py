"""Other compressors for ``fedplug bench``, as rows beside the encoders where their packages are installed.

``zstd`` (package zstandard) and ``blosc2`` are lossless. ``zfpy`` sends 8 bits per element at a fixed rate.
``torch`` is the top 1 % of each tensor as PyTorch programs write it by hand, with 32-bit indices. None of
them keeps a residual.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.errors import ConfigError, MissingDependencyError

__all__ = ["PEERS", "PeerExecution", "installed_peers"]

_ZFP_BITS = 8
_SHARE = 100

Array = NDArray[Any]


class _Codec(NamedTuple):
    """The functions of a peer: from a flat array to bytes, and back to an array like a given one."""

    encode: Callable[[Array], bytes]
    decode: Callable[[bytes, Array], Array]


def _bytes_of(x: Array) -> memoryview:
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

    def encode(x: Array) -> bytes:
        values = torch.from_numpy(_at_least_float32(x))
        indices = torch.topk(values.abs(), max(1, x.size // _SHARE)).indices
        kept = values[indices].numpy().astype(x.dtype)
        return bytes(indices.to(torch.int32).numpy().tobytes() + kept.tobytes())

    def decode(payload: bytes, like: Array) -> Array:
        count = len(payload) // (4 + like.dtype.itemsize)
        decoded = np.zeros(like.size, like.dtype)
        decoded[np.frombuffer(payload, np.int32, count)] = np.frombuffer(
            payload, like.dtype, offset=4 * count
        )
        return decoded

    return _Codec(encode, decode)


def _at_least_float32(x: Array) -> Array:
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
    """Runs a peer on each array. An `Execution` of ``fedplug.diagnostics.bench``."""

    def __init__(self, name: str, arrays: Mapping[str, Array]) -> None:
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

    def encode(self, state: Any, round_num: int) -> tuple[Any, Any]:
        del state, round_num
        return {name: self._codec.encode(x.reshape(-1)) for name, x in self._arrays.items()}, None

    def copy(self, state: Any) -> Any:
        return state

    def sizes(self, payloads: Any) -> dict[str, int]:
        return {name: len(payload) for name, payload in payloads.items()}

    def decode(self, payloads: Any) -> Any:
        return {
            name: self._codec.decode(payload, self._arrays[name]).reshape(self._arrays[name].shape)
            for name, payload in payloads.items()
        }

    def arrays(self, decoded: Any) -> Mapping[str, Array]:
        return dict(decoded)

    def equal(self, payloads: Any, others: Any) -> bool:
        return bool(payloads.keys() == others.keys())  # the bytes of blosc2 differ with several threads
