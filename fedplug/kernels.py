"""The compiled kernels on NumPy arrays: the same code the TensorFlow ops run, without TensorFlow.

Arrays may have any shape and are taken as flat. They are never copied or converted: an array that is not
C-contiguous, of another dtype than asked for, or read-only where it is updated in place is refused with an
:class:`~fedplug.errors.ArgumentError` that says how to mend it. Where a floating dtype is asked for, it is
float32, float64, float16 or bfloat16 (``ml_dtypes.bfloat16``), the same for all arrays of a call unless a
function says otherwise.

The GIL is released while a kernel runs. Large inputs use several threads, as many as the environment variable
``FEDPLUG_NUM_THREADS`` says or else as there are cores; no result depends on their number. Arrays must not be
changed by another thread during a call.

Must not know TensorFlow. ``csrc/README.md`` states the contract that this and every other face of the kernels
keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from fedplug.errors import ArgumentError, OpLibraryError

try:
    from fedplug import _kernels
except ImportError as error:
    raise OpLibraryError(
        f"the compiled module fedplug._kernels cannot be loaded ({error}); "
        "run `make setup` in a source tree, or reinstall fedplug"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    ByteBuffer: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]

__all__ = [
    "count_nonfinite",
    "crc32",
    "decode_indices",
    "decode_values",
    "encode_indices",
    "encode_values",
    "num_threads",
    "pack_container",
    "scatter_decode_add",
    "simd_level",
    "topk_momentum",
    "topk_residual",
    "topk_residual_many",
    "unpack_container",
]

OnNonFinite: TypeAlias = Literal["error", "drop"]
ValueForm: TypeAlias = Literal["float16", "bfloat16", "blockwise8", "qsgd", "terngrad", "sign"]


def topk_residual(
    delta: NDArray[Any],
    residual: NDArray[Any],
    k: int,
    *,
    on_nonfinite: OnNonFinite = "error",
    out: tuple[NDArray[Any], NDArray[np.int32]] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Takes the k largest entries of ``a = delta + residual`` and leaves the others in ``residual``.

    Exactly ``min(k, n)`` entries with the largest ``|a|`` are chosen; ties go to the lower index. Values keep
    their sign. ``residual`` becomes ``a`` with the chosen entries set to +0, so that putting the values back
    into their places gives ``a`` bit for bit: nothing is lost (error feedback, Seide et al., Interspeech
    2014; Stich et al., "Sparsified SGD with memory", NeurIPS 2018).

    Args:
        delta: The update; any shape, n elements, a floating dtype. Not changed.
        residual: What earlier rounds left behind; n elements, the dtype of ``delta``, or float32 where
            ``delta`` has 16 bits (it is then widened, which is exact). Updated in place.
        k: How many entries to take; ``k >= 0``, and more than n means all.
        on_nonfinite: With ``"error"``, a sum that is NaN or infinite raises and nothing is changed; every
            sum must then be seen before the first is written, which costs one more read of both arrays.
            With ``"drop"``, such a sum counts as zero: it leaves nothing in ``residual``, and is chosen (as a
            zero) only where zeros are needed to reach k. Call :func:`count_nonfinite` first to learn how many
            there are.
        out: ``(values, indices)`` of an earlier call, to be written over. With large k that saves most of the
            time: memory that was never touched costs more than the selection. After an error it holds
            anything.

    Returns:
        ``(values, indices)``, those of ``out`` where it is given: the chosen entries, ``[min(k, n)]`` in the
        dtype of ``residual``, and their flat positions, ``[min(k, n)]`` int32, strictly ascending.

    Raises:
        ArgumentError: An array cannot be used, the two differ in size or share memory, or ``k`` is negative.
        NonFiniteError: Under ``"error"``; its ``count`` is the number of sums that are not finite.
    """
    return _kernels.topk_residual(delta, residual, k, _drops(on_nonfinite), out)


def topk_residual_many(
    deltas: Sequence[NDArray[Any]],
    residuals: Sequence[NDArray[Any]],
    k: int | Sequence[int],
    *,
    on_nonfinite: OnNonFinite = "error",
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
    """Does what :func:`topk_residual` does for a whole model: a list of tensors, which are not concatenated.

    The list is one update: under ``"error"`` a sum that is not finite in any tensor leaves all of them as
    they were.

    Args:
        deltas: At least one array; any shapes, one floating dtype.
        residuals: As many arrays, each with the size and dtype of its delta. Updated in place.
        k: One number for each tensor; or a single one for all, and then the k entries with the largest
            ``|a|`` of all tensors together are chosen (ties go to the lower tensor, then to the lower index).
        on_nonfinite: As for :func:`topk_residual`.

    Returns:
        ``(values, indices, row_splits)``: entries ``row_splits[t]`` up to ``row_splits[t + 1]`` are those of
        tensor t, in the dtype of the deltas, with their flat int32 positions in that tensor, strictly
        ascending. ``row_splits`` is ``[tensors + 1]`` int64.

    Raises:
        ArgumentError: As for :func:`topk_residual`; or there is not one residual, or one k, per tensor; or
            the tensors of a single k have 2**31 elements or more together.
        NonFiniteError: Under ``"error"``; the message names the first tensor.
    """
    shared = isinstance(k, int | np.integer)
    ks = [k] if shared else list(cast("Sequence[int]", k))
    return _kernels.topk_residual_many(
        list(deltas), list(residuals), cast("list[int]", ks), shared, _drops(on_nonfinite)
    )


def topk_momentum(
    gradient: NDArray[Any],
    velocity: NDArray[Any],
    residual: NDArray[Any],
    k: int,
    *,
    momentum: float,
    on_nonfinite: OnNonFinite = "error",
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Momentum correction and factor masking of Deep Gradient Compression, in one pass over the arrays.

    ``velocity = momentum * velocity + gradient``, then ``residual = residual + velocity``, each product and
    sum rounded once. The k entries of the residual with the largest magnitude are taken out, and both arrays
    become +0 there (Lin et al., ICLR 2018, sections 3.1 and 3.2).

    Args:
        gradient: Any shape, n elements, float32 or float64. Not changed.
        velocity: n elements, the dtype of ``gradient``. Updated in place.
        residual: n elements, the dtype of ``gradient``. Updated in place.
        k: How many entries to take; ``k >= 0``, and more than n means all.
        momentum: The factor of the old velocity, rounded to the dtype.
        on_nonfinite: As for :func:`topk_residual`; with ``"drop"``, both arrays become +0 where the new
            residual is not finite.

    Returns:
        ``(values, indices)`` as :func:`topk_residual` gives them.

    Raises:
        ArgumentError: An array cannot be used, sizes differ, two arrays share memory, or ``k`` is negative.
        NonFiniteError: Under ``"error"``; both arrays are then unchanged.
    """
    return _kernels.topk_momentum(gradient, momentum, velocity, residual, k, _drops(on_nonfinite))


def _drops(on_nonfinite: OnNonFinite) -> bool:
    if on_nonfinite not in ("error", "drop"):
        raise ArgumentError(f"on_nonfinite is {on_nonfinite!r}; it must be 'error' or 'drop'")
    return on_nonfinite == "drop"


def count_nonfinite(delta: NDArray[Any], residual: NDArray[Any]) -> int:
    """Counts the entries of ``delta + residual`` that are NaN or infinite.

    That is how many entries the policy ``"drop"`` of :func:`topk_residual` would count as zero.

    Args:
        delta: Any shape, n elements, a floating dtype.
        residual: n elements, the dtype of ``delta``.

    Returns:
        The number of sums that are not finite. The sum of two finite numbers may be one of them.

    Raises:
        ArgumentError: An array cannot be used, or the two differ in size.
    """
    return _kernels.count_nonfinite(delta, residual)


def scatter_decode_add(
    accumulator: NDArray[Any],
    values: NDArray[Any],
    indices: NDArray[np.int32],
    row_splits: NDArray[np.int64],
    weights: NDArray[Any] | None = None,
) -> None:
    """Adds sparse payloads into one dense array: ``accumulator[index] += weight * value``, payloads in order.

    Payload p owns the entries ``row_splits[p]`` up to ``row_splits[p + 1]`` of ``values`` and ``indices``.
    Every product and every sum is rounded once, in the dtype of the arrays. All indices are checked before
    anything is written. The cost grows with the number of entries and not with the size of the accumulator.

    Args:
        accumulator: The dense sum; any shape, n elements, a floating dtype. Updated in place.
        values: ``[entries]``, the dtype of ``accumulator``.
        indices: ``[entries]`` int32, flat positions in ``accumulator``; within a payload they ascend
            strictly.
        row_splits: ``[payloads + 1]`` int64, from 0 to ``entries``.
        weights: ``[payloads]``, the dtype of ``accumulator``; or None, which multiplies nothing.

    Raises:
        ArgumentError: An array cannot be used, sizes do not fit, or an index is out of range or not above the
            one before it; the message names the payload. The accumulator is then unchanged.
    """
    _kernels.scatter_decode_add(accumulator, values, indices, row_splits, weights)


def encode_indices(indices: NDArray[np.int32], size: int) -> NDArray[np.uint8]:
    """Packs strictly ascending indices into a Rice code: about 8.1 bits each at a density of 1 %.

    The code of given indices is unique. Its layout is described in ``csrc/core/index_code.h`` (Rice and
    Plaunt, IEEE Trans. Commun. 1971).

    Args:
        indices: ``[count]`` int32, strictly ascending, in ``[0, size)``.
        size: How many positions there are; below 2**31.

    Returns:
        ``[bytes]`` uint8; empty when there are no indices.

    Raises:
        ArgumentError: An array cannot be used, or an index is out of range or not above the one before it.
    """
    return _kernels.encode_indices(indices, size)


def decode_indices(code: NDArray[np.uint8], count: int, size: int) -> NDArray[np.int32]:
    """Unpacks what :func:`encode_indices` packed. Every byte is treated as hostile.

    Args:
        code: ``[bytes]`` uint8.
        count: How many indices the code holds.
        size: How many positions there are; below 2**31.

    Returns:
        ``[count]`` int32, strictly ascending, in ``[0, size)``; encoding them gives ``code`` again.

    Raises:
        ArgumentError: ``code`` cannot be used as an array, or not ``0 <= count <= size < 2**31``.
        PayloadError: No ``count`` indices below ``size`` have this code.
    """
    return _kernels.decode_indices(code, count, size)


def encode_values(
    values: NDArray[Any], form: ValueForm, *, bits: int = 8, block_size: int = 256, seed: int = 0
) -> NDArray[np.uint8]:
    """Quantizes and packs values: the bytes that travel.

    The layouts are described in ``csrc/core/value_code.h``, the methods and their sources by the encoders of
    the same names.

    Args:
        values: Any shape, n elements, a floating dtype; finite.
        form: ``"float16"``, ``"bfloat16"``, ``"blockwise8"``, ``"qsgd"``, ``"terngrad"`` or ``"sign"``.
        bits: Of each level, 2 to 8; ``"qsgd"`` only.
        block_size: How many values share a scale, a power of two up to 2**20; ``"qsgd"`` and
            ``"blockwise8"`` only.
        seed: Of the noise by which ``"qsgd"`` and ``"terngrad"`` round, in ``[-2**63, 2**63)``. The noise
            also depends on the values.

    Returns:
        ``[bytes]`` uint8; as many as the size, the dtype and the other arguments say.

    Raises:
        ArgumentError: ``values`` cannot be used as an array, or another argument is out of range.
        NonFiniteError: A value is NaN or infinite; its ``count`` says how many are.
    """
    return _kernels.encode_values(values, form, bits, block_size, seed)


def decode_values(
    data: NDArray[np.uint8],
    count: int,
    form: ValueForm,
    *,
    dtype: DTypeLike = np.float32,
    bits: int = 8,
    block_size: int = 256,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Unpacks what :func:`encode_values` packed. Every byte is treated as hostile.

    Args:
        data: ``[bytes]`` uint8.
        count: How many values there must be.
        form: As they were encoded, and so ``bits`` and ``block_size``.
        dtype: The dtype of the values that were encoded.
        bits: See ``form``.
        block_size: See ``form``.
        out: ``[count]`` of that dtype, to be written over; after an error it holds anything.

    Returns:
        ``out``, or a new ``[count]`` array: what the bytes stand for; finite.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
        PayloadError: These are not the bytes of ``count`` values. Memory is only asked for if their number is
            right.
    """
    wanted = np.dtype(dtype)
    _kernels.check_value_bytes(data, count, form, bits, block_size, wanted.itemsize)
    values = np.empty(count, wanted) if out is None else out
    if values.dtype != wanted or values.size != count:
        raise ArgumentError(
            f"out has {values.size} elements of {values.dtype}; it must have {count} of {wanted}"
        )
    _kernels.decode_values(data, values, form, bits, block_size)
    return values


def pack_container(body: ByteBuffer, wire_id: str, dtype: str, shape: Sequence[int]) -> bytes:
    """Puts the container of :mod:`fedplug.wire` around an encoder's bytes.

    Args:
        body: Any C-contiguous buffer; its bytes are taken as they lie.
        wire_id: Names the layout of the body; 1 to 32 ASCII characters.
        dtype: Of the tensor that was encoded, by its NumPy name.
        shape: Of the tensor that was encoded; at most 32 dimensions, each below 2**32.

    Raises:
        ArgumentError: ``body`` is not C-contiguous.
        PayloadError: The wire id, dtype or shape has no place in the format.
    """
    return _kernels.pack_container(body, wire_id, dtype, list(shape))


def unpack_container(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], bytes]:
    """Reads what :func:`pack_container` wrote. Every byte is treated as hostile.

    Args:
        buffer: Any C-contiguous buffer.

    Returns:
        ``(wire_id, dtype, shape, body)``.

    Raises:
        ArgumentError: ``buffer`` is not C-contiguous.
        PayloadError: The buffer is truncated or too long, of another format or version, or its checksum is
            wrong.
    """
    return _kernels.unpack_container(buffer)


def crc32(data: ByteBuffer) -> int:
    """Computes the CRC-32 of zlib, PNG and Ethernet.

    Args:
        data: Any C-contiguous buffer; its bytes are taken as they lie.

    Returns:
        The checksum, in ``[0, 2**32)``.

    Raises:
        ArgumentError: ``data`` is not C-contiguous.
    """
    return _kernels.crc32(data)


def num_threads() -> int:
    """Returns how many threads a kernel may use.

    Raises:
        ConfigError: ``FEDPLUG_NUM_THREADS`` is set, but not to an integer from 1 to 1024.
    """
    return _kernels.num_threads()


def simd_level() -> str:
    """Returns the instruction set the kernels use: ``"baseline"``, ``"avx2"`` or ``"avx512"``.

    It is the best one the processor has, or the one the environment variable ``FEDPLUG_SIMD`` asks for; no
    result depends on it.

    Raises:
        ConfigError: ``FEDPLUG_SIMD`` is set, but not to a level this processor has. The selections raise it
            too.
    """
    return _kernels.simd_level()
