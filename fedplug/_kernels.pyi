# The compiled module, as csrc/python registers it. fedplug/kernels documents what the functions do.
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ByteBuffer: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]  # as fedplug.kernels.container has it

built_from: str

def topk_residual(
    delta: NDArray[Any],
    residual: NDArray[Any] | None,
    k: int,
    drop: bool,
    out: tuple[NDArray[Any], NDArray[np.int32]] | None,
    residual_out: NDArray[Any] | None,
) -> tuple[NDArray[Any], NDArray[np.int32]]: ...
def grouped_topk_residual(
    deltas: list[NDArray[Any]],
    residuals: list[NDArray[Any] | None],
    ks: list[int],
    shared: bool,
    drop: bool,
    out: tuple[NDArray[Any], NDArray[np.int32]] | None,
    residuals_out: list[NDArray[Any]] | None,
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]: ...
def count_nonfinite(delta: NDArray[Any], residual: NDArray[Any] | None) -> int: ...
def scatter_decode_add(
    accumulator: NDArray[Any],
    values: NDArray[Any],
    indices: NDArray[np.int32],
    row_splits: NDArray[np.int64] | None,
    weights: NDArray[Any] | None,
) -> None: ...
def scatter_decode(
    values: NDArray[Any],
    indices: NDArray[np.int32],
    row_splits: NDArray[np.int64] | None,
    weights: NDArray[Any] | None,
    size: int,
    out: NDArray[Any] | None,
) -> NDArray[Any]: ...
def all_finite(values: NDArray[Any]) -> bool: ...
def finite_from_bytes(
    data: NDArray[np.uint8], dtype: np.dtype[Any], out: NDArray[Any] | None
) -> NDArray[Any]: ...
def chunked_topk_residual(
    delta: NDArray[Any],
    residual: NDArray[Any] | None,
    k: int,
    chunk: int,
    decay: NDArray[Any],
    residual_out: NDArray[Any] | None,
) -> tuple[NDArray[Any], NDArray[np.int32]]: ...
def gather_sum(
    delta: NDArray[Any], residual: NDArray[Any] | None, indices: NDArray[np.int32]
) -> NDArray[Any]: ...
def take_from_sum(
    delta: NDArray[Any],
    residual: NDArray[Any] | None,
    indices: NDArray[np.int32],
    residual_out: NDArray[Any] | None,
) -> NDArray[Any]: ...
def draw_indices(seed: int, count: int, size: int) -> NDArray[np.int32]: ...
def random_words(count: int, first: int, second: int) -> NDArray[np.uint32]: ...
def random_floats(count: int, first: int, second: int) -> NDArray[np.float32]: ...
def random_doubles(count: int, first: int, second: int) -> NDArray[np.float64]: ...
def encode_indices(indices: NDArray[np.int32], size: int, form: str) -> NDArray[np.uint8]: ...
def decode_indices(
    code: NDArray[np.uint8], count: int, size: int, form: str, out: NDArray[np.int32] | None
) -> NDArray[np.int32]: ...
def sparse_body(
    count: int, index_code: NDArray[np.uint8], values: NDArray[np.uint8]
) -> NDArray[np.uint8]: ...
def split_sparse_body(
    body: NDArray[np.uint8], elements: int
) -> tuple[int, NDArray[np.uint8], NDArray[np.uint8]]: ...
def read_entries(
    body: NDArray[np.uint8], elements: int, dtype: np.dtype[Any], form: str
) -> tuple[NDArray[Any], NDArray[np.int32]]: ...
def frame_entries(
    indices: NDArray[np.int32], elements: int, values: NDArray[Any], header: bytes, form: str
) -> bytes: ...
def frame_entries_of_each(
    indices: list[NDArray[np.int32]],
    elements: list[int],
    values: list[NDArray[Any]],
    headers: list[bytes],
    form: str,
) -> list[bytes]: ...
def pack_symbols(symbols: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]: ...
def unpack_symbols(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint8]: ...
def encode_symbols(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint8]: ...
def frame_symbols(data: NDArray[np.uint8], start: int, count: int, bits: int, header: bytes) -> bytes: ...
def encode_difference(
    before: NDArray[np.uint8] | None, after: NDArray[np.uint8], item_bytes: int, mantissa_bits: int
) -> NDArray[np.uint8]: ...
def decode_difference(
    code: NDArray[np.uint8],
    before: NDArray[np.uint8] | None,
    out: NDArray[np.uint8],
    item_bytes: int,
    mantissa_bits: int,
) -> None: ...
def decode_symbols(code: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint8]: ...
def matrix_times(a: NDArray[Any], b: NDArray[Any], transposed: bool) -> NDArray[Any]: ...
def low_rank_matrix(p: NDArray[Any], q: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any]: ...
def low_rank_residual(
    a: NDArray[Any], p: NDArray[Any], q: NDArray[Any], out: NDArray[Any] | None
) -> NDArray[Any]: ...
def encode_values(
    values: NDArray[Any], form: str, bits: int, block_size: int, relative: float, seed: int
) -> NDArray[np.uint8]: ...
def encode_values_of_each(
    values: list[NDArray[Any]],
    exact: list[NDArray[Any]],
    errors: NDArray[Any] | None,
    form: str,
    bits: int,
    block_size: int,
    relative: float,
    seed: int,
) -> list[NDArray[np.uint8]]: ...
def frame_values(
    values: NDArray[Any],
    header: bytes,
    form: str,
    bits: int,
    block_size: int,
    relative: float,
    seed: int,
) -> bytes: ...
def decode_values(
    data: NDArray[np.uint8],
    count: int,
    form: str,
    dtype: np.dtype[Any],
    bits: int,
    block_size: int,
    relative: float,
    out: NDArray[Any] | None,
) -> NDArray[Any]: ...
def check_values(
    data: NDArray[np.uint8], count: int, form: str, dtype: np.dtype[Any], bits: int, block_size: int
) -> float: ...
def frame(body: ByteBuffer | list[ByteBuffer] | tuple[ByteBuffer, ...], header: bytes) -> bytes: ...
def frame_of_each(bodies: list[NDArray[Any]], headers: list[bytes]) -> list[bytes]: ...
def read_container(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], NDArray[np.uint8]]: ...
def from_dlpack(array: Any) -> NDArray[Any]: ...
def crc32(data: ByteBuffer) -> int: ...
def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]: ...
def num_threads() -> int: ...
def simd_level() -> str: ...
