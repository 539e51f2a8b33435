# The compiled module, as csrc/python registers it. fedplug/kernels documents what the functions do.
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.kernels.container import ByteBuffer

def topk_residual(
    delta: NDArray[Any],
    residual: NDArray[Any],
    k: int,
    drop: bool,
    out: tuple[NDArray[Any], NDArray[np.int32]] | None,
) -> tuple[NDArray[Any], NDArray[np.int32]]: ...
def topk_residual_many(
    deltas: list[NDArray[Any]],
    residuals: list[NDArray[Any]],
    ks: list[int],
    shared: bool,
    drop: bool,
    out: tuple[NDArray[Any], NDArray[np.int32]] | None,
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]: ...
def topk_momentum(
    gradient: NDArray[Any],
    momentum: float,
    velocity: NDArray[Any],
    residual: NDArray[Any],
    k: int,
    drop: bool,
) -> tuple[NDArray[Any], NDArray[np.int32]]: ...
def count_nonfinite(delta: NDArray[Any], residual: NDArray[Any]) -> int: ...
def scatter_decode_add(
    accumulator: NDArray[Any],
    values: NDArray[Any],
    indices: NDArray[np.int32],
    row_splits: NDArray[np.int64],
    weights: NDArray[Any] | None,
) -> None: ...
def threshold_residual(
    delta: NDArray[Any], residual: NDArray[Any], threshold: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.int32]]: ...
def encode_indices(indices: NDArray[np.int32], size: int, form: str) -> NDArray[np.uint8]: ...
def decode_indices(code: NDArray[np.uint8], count: int, size: int, form: str) -> NDArray[np.int32]: ...
def encode_symbols(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint8]: ...
def decode_symbols(code: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint8]: ...
def encode_values(
    values: NDArray[Any], form: str, bits: int, block_size: int, seed: int
) -> NDArray[np.uint8]: ...
def check_value_bytes(
    data: NDArray[np.uint8], count: int, form: str, bits: int, block_size: int, value_bytes: int
) -> None: ...
def decode_values(
    data: NDArray[np.uint8], out: NDArray[Any], form: str, bits: int, block_size: int
) -> None: ...
def pack_container(body: ByteBuffer, wire_id: str, dtype: str, shape: list[int]) -> bytes: ...
def unpack_container(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], bytes]: ...
def crc32(data: ByteBuffer) -> int: ...
def num_threads() -> int: ...
def simd_level() -> str: ...
