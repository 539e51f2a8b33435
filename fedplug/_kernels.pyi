# The compiled module, as csrc/python registers it; fedplug/kernels/__init__.py has the conventions. Functions
# without documentation here are called through those of fedplug/kernels that check their arguments.
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedplug.types import Array, ByteBuffer, DType, Values

built_from: str

def topk_residual(
    delta: Array,
    residual: Array | None,
    k: int,
    drop: bool,
    out: tuple[Array, Array] | None,
    residual_out: Array | None,
) -> tuple[Values, NDArray[np.int32]]: ...
def grouped_topk_residual(
    deltas: Sequence[Array],
    residuals: Sequence[Array | None],
    ks: list[int],
    shared: bool,
    drop: bool,
    out: tuple[Array, Array] | None,
    residuals_out: Sequence[Array] | None,
) -> tuple[Values, NDArray[np.int32], NDArray[np.int64]]: ...
def scatter_decode(
    values: Array,
    indices: Array,
    row_splits: Array | None,
    weights: Array | None,
    size: int,
    out: Array | None,
) -> Values: ...
def chunked_topk_residual(
    delta: Array,
    residual: Array | None,
    k: int,
    chunk: int,
    decay: Array,
    residual_out: Array | None,
) -> tuple[Values, NDArray[np.int32]]: ...
def draw_indices(seed: int, count: int, size: int) -> NDArray[np.int32]: ...
def random_words(count: int, first: int, second: int) -> NDArray[np.uint32]: ...
def random_floats(count: int, first: int, second: int) -> NDArray[np.float32]: ...
def random_doubles(count: int, first: int, second: int) -> NDArray[np.float64]: ...
def encode_indices(indices: Array, size: int, form: str) -> NDArray[np.uint8]: ...
def decode_indices(code: Array, count: int, size: int, form: str, out: Array | None) -> NDArray[np.int32]: ...
def sparse_body(count: int, index_code: Array, values: Array) -> NDArray[np.uint8]: ...
def split_sparse_body(body: Array, elements: int) -> tuple[int, NDArray[np.uint8], NDArray[np.uint8]]: ...
def read_entries(body: Array, elements: int, dtype: DType, form: str) -> tuple[Values, NDArray[np.int32]]: ...
def frame_entries(indices: Array, elements: int, values: Array, header: bytes, form: str) -> bytes: ...
def frame_entries_of_each(
    indices: Sequence[Array],
    elements: list[int],
    values: Sequence[Array],
    headers: list[bytes],
    form: str,
) -> list[bytes]: ...
def pack_symbols(symbols: Array, bits: int) -> NDArray[np.uint8]: ...
def unpack_symbols(packed: Array, count: int, bits: int) -> NDArray[np.uint8]: ...
def encode_symbols(packed: Array, count: int, bits: int) -> NDArray[np.uint8]: ...
def frame_symbols(data: Array, start: int, count: int, bits: int, header: bytes) -> bytes: ...
def encode_difference(
    before: Array | None, after: Array, item_bytes: int, mantissa_bits: int
) -> NDArray[np.uint8]: ...
def decode_difference(
    code: Array,
    before: Array | None,
    out: Array,
    item_bytes: int,
    mantissa_bits: int,
) -> None: ...
def decode_symbols(code: Array, count: int, bits: int) -> NDArray[np.uint8]: ...
def encode_values(
    values: Array, form: str, bits: int, block_size: int, relative: float, seed: int
) -> NDArray[np.uint8]: ...
def encode_values_of_each(
    values: Sequence[Array],
    exact: Sequence[Array],
    errors: Array | None,
    form: str,
    bits: int,
    block_size: int,
    relative: float,
    seed: int,
) -> list[NDArray[np.uint8]]: ...
def frame_values(
    values: Array,
    header: bytes,
    form: str,
    bits: int,
    block_size: int,
    relative: float,
    seed: int,
) -> bytes: ...
def decode_values(
    data: Array,
    count: int,
    form: str,
    dtype: DType,
    bits: int,
    block_size: int,
    relative: float,
    out: Array | None,
) -> Values: ...
def check_values(data: Array, count: int, form: str, dtype: DType, bits: int, block_size: int) -> float: ...
def count_nonfinite(delta: Array, residual: Array | None) -> int:
    """Counts the entries of ``delta + residual`` that are NaN or infinite.

    The policy ``"drop"`` of :func:`topk_residual` counts these as zero.

    Args:
        delta: n elements in any shape, float32 or float64.
        residual: n elements, the dtype of ``delta``. None for zeros.

    Returns:
        The number of such sums. The sum of two finite numbers may be infinite.

    Raises:
        ArgumentError: An array cannot be used, or the two differ in size.
    """

def scatter_decode_add(
    accumulator: Array,
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
) -> None:
    """Adds sparse payloads to a dense array: ``accumulator[index] += weight * value``, payloads in order.

    Payload p has the entries ``row_splits[p]`` up to ``row_splits[p + 1]`` of ``values`` and ``indices``.
    Every product and every sum is rounded once, in the dtype of the arrays. All indices are checked before
    anything is written. The cost depends on the number of entries, not on the size of the accumulator.

    Args:
        accumulator: The dense sum. n elements in any shape, a floating dtype. Updated in place.
        values: ``[entries]``, the dtype of ``accumulator``.
        indices: Flat indices, strictly ascending within a payload. ``[entries]`` int32.
        row_splits: ``[payloads + 1]`` int64, from 0 to ``entries``. None for one payload.
        weights: ``[payloads]``, the dtype of ``accumulator``. None for weights of 1.

    Raises:
        ArgumentError: An array cannot be used, sizes do not fit, or an index is out of range or not above the
            one before it. The message names the payload. The accumulator is unchanged.
    """

def all_finite(values: Array) -> bool:
    """Whether no value is NaN or infinite. Allocates no memory.

    Args:
        values: An array of a floating dtype.

    Raises:
        ArgumentError: ``values`` cannot be used as an array.
    """

def finite_from_bytes(data: Array, dtype: DType, out: Array | None = None) -> Values:
    """Reads finite values from untrusted bytes, which may be unaligned.

    Args:
        data: ``[bytes]`` uint8.
        dtype: The floating dtype of the values.
        out: An array for the values, of their number and dtype.

    Returns:
        ``out``; without it, a read-only array on the bytes themselves if they are aligned, or a copy.

    Raises:
        ArgumentError: An array cannot be used, or ``out`` has another size or dtype.
        PayloadError: The bytes are not whole values, or a value is NaN or infinite.
    """

def gather_sum(delta: Array, residual: Array | None, indices: Array) -> Values:
    """Computes ``(delta + residual)[indices]``, and no other sum.

    Args:
        delta: The update. n elements in any shape, float32 or float64.
        residual: n elements, the dtype of ``delta``. None for zeros.
        indices: Flat indices in ``[0, n)``, in any order. int32 ``[k]``.

    Returns:
        The sums, ``[k]``, in the dtype of ``delta``. They need not be finite.

    Raises:
        ArgumentError: An array cannot be used, the sizes differ, or an index is out of range.
    """

def take_from_sum(
    delta: Array, residual: Array | None, indices: Array, residual_out: Array | None = None
) -> Values:
    """Takes the entries of ``a = delta + residual`` at ``indices``.

    ``residual`` becomes ``a`` with these entries set to +0: scattering the values into it restores ``a`` bit
    for bit.

    Args:
        delta: The update. n elements in any shape, float32 or float64. Not changed.
        residual: The residual of earlier rounds; n elements, the dtype of ``delta``. Updated in place unless
            ``residual_out`` is given. None means zeros, and needs ``residual_out``.
        indices: Flat indices in ``[0, n)``, strictly ascending. int32 ``[k]``.
        residual_out: An array for the new residual; n elements, the dtype of ``delta``.

    Returns:
        The entries, ``[k]``, in the dtype of ``delta``.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or the indices are out of
            range or do not ascend.
        NonFiniteError: A sum is NaN or infinite. ``count`` of the error has their number. ``residual`` is
            unchanged.
    """

def matrix_times(a: Array, b: Array, transposed: bool = False) -> Values:
    """Computes ``a b``, or ``a' b``, for a few columns of ``b``.

    ``csrc/core/matrix_times.h`` describes the order of additions.

    Args:
        a: ``[m, n]``, float32 or float64.
        b: ``[n, r]``, or ``[m, r]`` with ``transposed``. The dtype of ``a``.
        transposed: Whether to multiply ``a'``.

    Returns:
        ``[m, r]``, or ``[n, r]`` with ``transposed``, in the dtype of ``a``.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """

def low_rank_matrix(p: Array, q: Array, out: Array | None = None) -> Values:
    """Computes ``p q'``, one column of each after the other.

    Args:
        p: ``[m, r]``, r at least 1. float32 or float64.
        q: ``[n, r]``, the dtype of ``p``.
        out: An array for the matrix. ``m n`` elements of the dtype of ``p``.

    Returns:
        ``out``, or a new ``[m, n]``. An overflow becomes the largest number of the dtype.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """

def low_rank_residual(a: Array, p: Array, q: Array, out: Array | None = None) -> Values:
    """Computes ``a - low_rank_matrix(p, q)``.

    Args:
        a: ``m n`` elements, float32 or float64.
        p: See `low_rank_matrix`.
        q: See `low_rank_matrix`.
        out: An array for the difference. ``m n`` elements of the dtype of ``a``. It may be ``a``.

    Returns:
        ``out``, or a new ``[m, n]``.

    Raises:
        ArgumentError: An array cannot be used, or the shapes do not fit.
    """

def frame(body: ByteBuffer | list[ByteBuffer] | tuple[ByteBuffer, ...], header: bytes) -> bytes:
    """Puts an encoder's bytes into a container.

    Args:
        body: A C-contiguous buffer, or an array of any dtype, whose bytes are copied as they lie. A list or
            tuple of buffers is written one after the other, without joining them first.
        header: The header from :func:`fedplug.wire.header`. The same for all payloads of one tensor under one
            encoder.

    Raises:
        ArgumentError: ``body``, or a part of it, is not a buffer or not C-contiguous.
    """

def frame_of_each(bodies: Sequence[Array], headers: Sequence[bytes]) -> list[bytes]:
    """Puts the bytes of several encoders into containers, in parallel. See `frame`.

    Raises:
        ArgumentError: The numbers of bodies and headers differ, or a body is not C-contiguous.
    """

def unframe(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], NDArray[np.uint8]]:
    """Reads a container without copying its body. Every byte is untrusted.

    Args:
        buffer: A C-contiguous buffer or array. The returned body is a view of it, which keeps the buffer
            alive and stops a ``bytearray`` from being resized. A later write into the buffer changes the
            body, and no checksum detects that.

    Returns:
        ``(wire_id, dtype, shape, body)``. ``body`` is ``[bytes]`` uint8 and read-only.

    Raises:
        ArgumentError: ``buffer`` is not C-contiguous.
        PayloadError: The buffer is truncated or too long, has another format or version, or its checksum is
            wrong.
    """

def crc32(data: ByteBuffer) -> int:
    """Returns the CRC-32 of zlib, PNG and Ethernet, in ``[0, 2**32)``.

    Args:
        data: A C-contiguous buffer. Its bytes are read as they lie.

    Raises:
        ArgumentError: ``data`` is not C-contiguous.
    """

def from_dlpack(array: object) -> Values:
    """Returns a NumPy array on the memory of another library's array (PyTorch, JAX), without a copy.

    Unlike :func:`numpy.from_dlpack`, it also accepts bfloat16.

    Args:
        array: An object with ``__dlpack__`` on the CPU, C-contiguous, of integers, bool, float16, bfloat16,
            float32 or float64.

    Returns:
        An array of the same shape, which keeps the memory alive. It is read-only if the exporter says so, and
        if the exporter is older than DLPack 1.0 and cannot say.

    Raises:
        ArgumentError: ``array`` does not meet these requirements, or its library does not export it (a
            PyTorch tensor that requires a gradient). The message names the value to pass instead.
    """

def empty(shape: tuple[int, ...], dtype: DType) -> Values:
    """Returns a C-contiguous array with undefined contents, as memory for a result.

    Arrays of 64 KiB or more reuse the memory of earlier arrays, as all results of kernels do: touching fresh
    memory takes longer than most kernels. At most 512 MiB are kept for reuse.
    """

def num_threads() -> int:
    """Returns the number of threads that a kernel may use.

    Raises:
        ConfigError: ``FEDPLUG_NUM_THREADS`` is set, but not to an integer from 1 to 1024.
    """

def simd_level() -> str:
    """Returns the instruction set of the kernels: ``"baseline"``, ``"avx2"`` or ``"avx512"``.

    It is the best one that the processor has, or the one in the environment variable ``FEDPLUG_SIMD``. No
    result depends on it.

    Raises:
        ConfigError: ``FEDPLUG_SIMD`` is set, but not to a level of this processor. Selections raise it too.
    """
