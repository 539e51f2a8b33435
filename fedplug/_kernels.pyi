# The compiled module, as csrc/python registers it; fedplug/kernels/__init__.py has the conventions.
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedplug.types import Array, ByteBuffer, DType, IndexForm, Scalar, ValueForm, Values

built_from: str

def topk_residual(
    delta: Array,
    residual: Array | None,
    k: Array | int,
    *,
    out: tuple[Array, Array] | None = None,
    residual_out: Array | None = None,
) -> tuple[Values, NDArray[np.int32]]:
    """Selects the k largest entries of ``a = delta + residual``. The others stay in ``residual``.

    Selects the ``min(k, n)`` entries with the largest ``|a|``; of equal magnitudes, those with the lower
    index. ``residual`` becomes ``a`` with the selected entries set to +0: scattering the values into it
    restores ``a`` bit for bit (error feedback, Seide et al., Interspeech 2014; Stich et al., "Sparsified SGD
    with memory", NeurIPS 2018).

    Args:
        delta: The update. n elements in any shape, float32 or float64. Not changed.
        residual: The residual of earlier rounds; n elements, the dtype of ``delta``. Updated in place unless
            ``residual_out`` is given. None means zeros, and needs ``residual_out``.
        k: Number of entries to select; 0 or more. More than n means all.
        out: ``(values, indices)`` of an earlier call, to write to. Without it, large results are new arrays
            in the memory of earlier ones.
        residual_out: An array for the new residual; n elements, the dtype of ``delta``.

    Returns:
        ``(values, indices)``, those of ``out`` if it is given: the selected entries, ``[min(k, n)]`` in the
        dtype of ``delta``, and their flat indices, ``[min(k, n)]`` int32, strictly ascending.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or ``k`` is negative.
        NonFiniteError: A sum is NaN or infinite. ``count`` of the error has their number. Nothing is changed.
        MemoryError: No data is lost. A residual updated in place may hold the sums (as for k = 0), which
            contain the delta. With ``residual_out`` it is unchanged.

    Example:
        >>> import numpy as np
        >>> residual = np.zeros(4, np.float32)
        >>> topk_residual(np.float32([1, -5, 2, 0]), residual, 2)
        (array([-5.,  2.], dtype=float32), array([1, 2], dtype=int32))
        >>> residual
        array([1., 0., 0., 0.], dtype=float32)
    """

def grouped_topk_residual(
    deltas: Sequence[Array],
    residuals: Sequence[Array | None],
    k: Array | int | Sequence[int],
    *,
    out: tuple[Array, Array] | None = None,
    residuals_out: Sequence[Array] | None = None,
) -> tuple[Values, NDArray[np.int32], NDArray[np.int64]]:
    """Selects as :func:`topk_residual` does, from a list of tensors, which are not concatenated.

    The list is one update: a sum that is not finite leaves all residuals unchanged.

    Args:
        deltas: One array or more. Any shapes, float32 or float64.
        residuals: An array for each delta, with its size and dtype. Updated in place unless ``residuals_out``
            is given. Then any of them may be None, for zeros.
        k: One number for each tensor, or one number for all tensors together. Of equal magnitudes, the latter
            selects those in the earlier tensor, then those with the lower index.
        out: See :func:`topk_residual`.
        residuals_out: An array for each new residual, with the size and dtype of its delta.

    Returns:
        ``(values, indices, row_splits)``: tensor t has the entries ``row_splits[t]`` up to ``row_splits[t +
        1]``, in the dtype of the deltas, with their flat int32 indices in that tensor, strictly ascending.
        ``row_splits`` is ``[tensors + 1]`` int64.

    Raises:
        ArgumentError: An array cannot be used, there is not one residual or one k for each tensor, or the
            tensors of a single k have 2**31 elements or more together.
        NonFiniteError: A sum is NaN or infinite. The message names the first tensor.
    """

def chunked_topk_residual(
    delta: Array,
    residual: Array | None,
    k: Array | int,
    *,
    chunk: int,
    decay: Scalar = 1.0,
    residual_out: Array | None = None,
) -> tuple[Values, NDArray[np.int32]]:
    """Selects the ``k`` largest entries of every chunk of ``a = delta + decay * residual``.

    A chunk is ``chunk`` consecutive elements of the flattened ``a``. Order, ties and values are those of
    :func:`topk_residual`, within each chunk. All entries of a chunk with at most ``k`` elements are selected.
    The last chunk may be one. ``residual`` becomes ``a`` with the selected entries set to +0: scattering the
    values into it restores ``a`` bit for bit (Sarfi et al., "Communication Efficient LLM Pre-training with
    SparseLoCo", arXiv 2508.15706).

    Args:
        delta: The update. n elements in any shape, float32 or float64. Not changed.
        residual: The residual of earlier rounds; n elements, the dtype of ``delta``. Updated in place unless
            ``residual_out`` is given. None means zeros, and needs ``residual_out``.
        k: Number of entries to select from each chunk, 0 or more.
        chunk: Number of elements of a chunk, 1 or more. Fast if a chunk fits into the first-level cache.
        decay: The factor of the residual, 0 to 1, rounded to the dtype.
        residual_out: An array for the new residual; n elements, the dtype of ``delta``.

    Returns:
        ``(values, indices)``: the entries, in the dtype of ``delta``, and their flat indices, int32, strictly
        ascending.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or a number is out of
            range.
        NonFiniteError: A sum is NaN or infinite. ``count`` of the error has their number. ``residual`` is
            unchanged.
    """

def count_nonfinite(delta: Array, residual: Array | None) -> int:
    """Counts the entries of ``delta + residual`` that are NaN or infinite.

    Args:
        delta: n elements in any shape, float32 or float64.
        residual: n elements, the dtype of ``delta``. None for zeros.

    Returns:
        The number of such sums. The sum of two finite numbers may be infinite.

    Raises:
        ArgumentError: An array cannot be used, or the two differ in size.
    """

def gather(values: Array, indices: Array) -> Values:
    """Returns ``values[indices]``.

    Args:
        values: n elements in any shape, float32 or float64. They need not be finite.
        indices: Flat indices in ``[0, n)``, strictly ascending. int32 ``[k]``.

    Raises:
        ArgumentError: An array cannot be used, or an index is out of range or not above the one before.
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

def scatter_decode(
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    size: int,
    out: Array | None = None,
) -> Values:
    """Computes the dense sum of sparse payloads, as :func:`scatter_decode_add` adds them to +0 everywhere.

    Each element is written once, and receives its entries while it is in the cache. All indices are checked
    before anything is written.

    Args:
        values: ``[entries]``, a floating dtype.
        indices: Flat indices, strictly ascending within a payload. ``[entries]`` int32.
        row_splits: ``[payloads + 1]`` int64, from 0 to ``entries``. None for one payload.
        weights: ``[payloads]``, the dtype of ``values``. None for weights of 1.
        size: Number of elements of the sum. Below 2**31. It determines how much memory is allocated, so it
            must come from a trusted source.
        out: An array for the sum. ``size`` elements, the dtype of ``values``.

    Returns:
        ``out``, or a new ``[size]`` array.

    Raises:
        ArgumentError: ``size`` is out of range, or see :func:`scatter_decode_add`. ``out`` is unchanged.
    """

def encode_indices(indices: Array, size: Array | int, *, form: IndexForm = "rice") -> NDArray[np.uint8]:
    """Encodes strictly ascending indices. The Rice code needs about 8.1 bits per index at a density of 1 %.

    The code of given indices is unique. docs/wire-format.md specifies the layouts (Rice and Plaunt,
    IEEE Trans. Commun. 1971).

    Args:
        indices: ``[count]`` int32, strictly ascending, in ``[0, size)``.
        size: Number of elements that the indices refer to. Below 2**31.
        form: ``"rice"`` writes gaps in the shortest Rice code, ``"gaps"`` in an adaptive code.

    Returns:
        ``[bytes]`` uint8.

    Raises:
        ArgumentError: An array or the form cannot be used, or an index is out of range or not above the one
            before it.
    """

def decode_indices(
    code: Array,
    count: Array | int,
    size: Array | int,
    *,
    form: IndexForm = "rice",
) -> NDArray[np.int32]:
    """Decodes indices from untrusted bytes that :func:`encode_indices` wrote.

    Args:
        code: ``[bytes]`` uint8.
        count: Number of indices in the code.
        size: Number of elements that the indices refer to. Below 2**31.
        form: The form of the code.

    Returns:
        ``[count]`` int32, strictly ascending, in ``[0, size)``. Encoding them gives ``code`` again.

    Raises:
        ArgumentError: An array or the form cannot be used, or ``0 <= count <= size < 2**31`` does not hold.
        PayloadError: This is not the code of ``count`` indices below ``size``.
    """

def sparse_body(count: Array | int, index_code: Array, values: Array) -> NDArray[np.uint8]:
    """Writes the number of entries, their index code and their values one after the other.

    docs/wire-format.md specifies the layout.

    Args:
        count: Number of entries, below 2**31.
        index_code: The code of their indices. ``[bytes]`` uint8.
        values: The bytes of their values. ``[bytes]`` uint8.

    Returns:
        ``[bytes]`` uint8.

    Raises:
        ArgumentError: An array cannot be used, or ``count`` or the length of ``index_code`` is out of range.
    """

def split_sparse_body(body: Array, elements: int) -> tuple[int, NDArray[np.uint8], NDArray[np.uint8]]:
    """Splits a body into its parts, from untrusted bytes.

    Args:
        body: ``[bytes]`` uint8.
        elements: Number of elements of the tensor.

    Returns:
        ``(count, index_code, values)``. ``count`` is in ``[0, elements]``, the others are read-only parts of
        ``body``.

    Raises:
        ArgumentError: ``body`` cannot be used as an array.
        PayloadError: The numbers cannot be read, are not in their shortest form, or do not fit.
    """

def read_entries(
    body: Array, elements: int, dtype: DType, *, form: IndexForm = "rice"
) -> tuple[Values, NDArray[np.int32]]:
    """Reads the entries of a body with uncompressed values, from untrusted bytes.

    One call for :func:`split_sparse_body`, :func:`finite_from_bytes` and :func:`decode_indices`, with the
    same bits and errors.

    Args:
        body: ``[bytes]`` uint8.
        elements: Number of elements of the tensor. Below 2**31.
        dtype: The floating dtype of the values.
        form: The form of the index code.

    Returns:
        ``(values, indices)``, ``[count]`` each. Values are finite, and read-only if they are part of
        ``body``. Indices are int32, strictly ascending, in ``[0, elements)``.

    Raises:
        ArgumentError: ``body``, ``dtype`` or ``form`` cannot be used.
        PayloadError: One of the three functions refuses the bytes, or there are not ``count`` values.
    """

def frame_entries_of_each(
    indices: Sequence[Array],
    elements: Sequence[int],
    values: Sequence[Array],
    headers: Sequence[bytes],
    *,
    form: IndexForm = "rice",
) -> list[bytes]:
    """Writes the containers of sparse payloads, several at the same time.

    One call for :func:`all_finite`, :func:`encode_indices`, :func:`sparse_body` and :func:`frame` of each,
    with the same bytes and errors.

    Args:
        indices: The indices of each tensor: ``[count]`` int32, strictly ascending, in ``[0, elements)``.
        elements: The number of elements of each tensor. Below 2**31.
        values: The values of each tensor: ``[count]`` of a floating dtype, sent uncompressed, or uint8, the
            bytes of their code.
        headers: The container header of each payload. See :func:`frame`.
        form: The form of the index codes.

    Raises:
        ArgumentError: An array cannot be used, the numbers of values and indices differ, or
            :func:`encode_indices` refuses the indices.
        NonFiniteError: An uncompressed value is NaN or infinite.
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

def encode_values(
    values: Array,
    form: ValueForm,
    *,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
) -> NDArray[np.uint8]:
    """Quantizes and packs values.

    docs/wire-format.md specifies the layouts. The encoders of the same names describe the methods and
    their sources.

    Args:
        values: Finite values. n elements in any shape, a floating dtype.
        form: ``"float16"``, ``"bfloat16"``, ``"qsgd"``, ``"nearest"`` (the bytes of ``"qsgd"``, rounded to
            nearest), ``"sign"``, ``"codebook"``, ``"bounded"`` or ``"bfp"``.
        bits: Bits per level: 2 to 8 for ``"qsgd"`` and ``"bfp"``, 1 to 8 for ``"codebook"``, unused
            otherwise.
        block_size: Number of values that share a scale, a power of two up to 2**20; for ``"qsgd"``,
            ``"nearest"`` and ``"bfp"`` only.
        relative: The largest error of a value as a share of the range of all values, 2**-15 to 1/4, rounded
            to float32; for ``"bounded"`` only.
        seed: The seed of stochastic rounding in ``"qsgd"``, in ``[-2**63, 2**63)``. The
            rounding also depends on the values.

    Returns:
        ``[bytes]`` uint8. Their number follows from the size, the dtype and the other arguments.

    Raises:
        ArgumentError: ``values`` cannot be used as an array, or another argument is out of range.
        NonFiniteError: A value is NaN or infinite. ``count`` of the error has their number.
    """

def encode_values_of_each(
    values: Sequence[Array],
    form: ValueForm,
    *,
    exact: Sequence[Array] = (),
    errors: Array | None = None,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
) -> list[NDArray[np.uint8]]:
    """Encodes a list of vectors as :func:`encode_values` does, several at the same time.

    Args:
        values: The vectors, of one dtype.
        form: The layout. See :func:`encode_values`, also for the four last arguments.
        exact: The vectors before they were rounded to the dtype of ``values``; of float32 if
            that has 16 bits, else of the same dtype.
        errors: An array to write over with ``exact`` minus the decoded values, one vector after the other.
        bits: See ``form``.
        block_size: See ``form``.
        relative: See ``form``.
        seed: See ``form``.

    Returns:
        The bytes of each vector.

    Raises:
        ArgumentError, NonFiniteError: See :func:`encode_values`.
    """

def frame_values(
    values: Array,
    header: bytes,
    form: ValueForm,
    *,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
) -> bytes:
    """Writes the container of the code that :func:`encode_values` makes of values.

    Args:
        values: See :func:`encode_values`.
        header: See :func:`~fedplug.kernels.frame`.
        form: See :func:`encode_values`.
        bits: See :func:`encode_values`.
        block_size: See :func:`encode_values`.
        relative: See :func:`encode_values`.
        seed: See :func:`encode_values`.

    Raises:
        ArgumentError: See :func:`encode_values`.
        NonFiniteError: See :func:`encode_values`.
    """

def decode_values(
    data: Array,
    count: Array | int,
    form: ValueForm,
    *,
    dtype: DTypeLike = np.float32,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    out: Array | None = None,
) -> Values:
    """Decodes values from untrusted bytes that :func:`encode_values` wrote.

    Args:
        data: ``[bytes]`` uint8.
        count: Number of values.
        form: The form of the code.
        dtype: The dtype of the encoded values.
        bits: The bits of the encoder.
        block_size: The block size of the encoder.
        relative: The error bound of the encoder.
        out: An array for the values. ``[count]`` of that dtype.

    Returns:
        ``out``, or a new ``[count]`` array of finite values.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
        PayloadError: The bytes are not a code of ``count`` values. Their number is checked before memory is
            allocated.
    """

def check_values(
    data: Array,
    count: Array | int,
    form: ValueForm,
    *,
    dtype: DTypeLike = np.float32,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
) -> float:
    """Checks untrusted bytes that are decoded elsewhere, and returns the largest magnitude of the values.

    Args:
        data: See :func:`decode_values`, also for the other arguments.
        count: See ``data``.
        form: Any form but ``"codebook"`` and ``"bounded"``.
        dtype: See ``data``.
        bits: See ``data``.
        block_size: See ``data``.
        relative: See ``data``.

    Raises:
        ArgumentError: An argument is out of range.
        PayloadError: :func:`decode_values` refuses the bytes.
    """

def pack_symbols(symbols: Array, bits: Array | int) -> NDArray[np.uint8]:
    """Packs symbols of one byte each, the first in the lowest bits. Unused bits are 0.

    Args:
        symbols: The symbols, below ``2**bits``. n elements in any shape, uint8.
        bits: Bits per symbol, 1 to 8.

    Returns:
        ``[ceil(n * bits / 8)]`` uint8.

    Raises:
        ArgumentError: ``symbols`` cannot be used as an array or has a larger symbol, or ``bits`` is out of
            range.
    """

def unpack_symbols(packed: Array, count: Array | int, bits: Array | int) -> NDArray[np.uint8]:
    """Unpacks untrusted bytes that :func:`pack_symbols` wrote.

    Args:
        packed: ``[ceil(count * bits / 8)]`` uint8.
        count: Number of symbols, below 2**31.
        bits: Bits per symbol, 1 to 8.

    Returns:
        ``[count]`` uint8.

    Raises:
        ArgumentError: ``packed`` cannot be used as an array, or ``count`` or ``bits`` is out of range.
        PayloadError: There is another number of bytes, which is checked before memory is allocated, or unused
            bits are set.
    """

def encode_symbols(packed: Array, count: Array | int, *, bits: Array | int) -> NDArray[np.uint8]:
    """Encodes symbols in about as many bits as their empirical entropy.

    docs/wire-format.md specifies the layout (Duda, arXiv:1311.2540; Giesen, arXiv:1402.3392).

    Args:
        packed: The packed symbols, lowest bit first, as :func:`encode_values` packs levels. Bits after the
            last symbol are 0. ``[ceil(count * bits / 8)]`` uint8.
        count: Number of symbols. Below 2**31.
        bits: Bits per symbol, 1 to 8.

    Returns:
        ``[bytes]`` uint8, at most one byte longer than ``packed``.

    Raises:
        ArgumentError: ``packed`` cannot be used as an array or is not ``count`` symbols of ``bits`` bits.
    """

def frame_symbols(
    data: Array, start: Array | int, count: Array | int, header: bytes, *, bits: Array | int
) -> bytes:
    """Writes the container of ``data``, with its bytes from ``start`` on encoded as symbols.

    One call for :func:`encode_symbols` and :func:`~fedplug.kernels.frame` of ``[data[:start], code]``, with
    the same bytes and errors.

    Args:
        data: ``[start + ceil(count * bits / 8)]`` uint8.
        start: Number of bytes before the symbols.
        count: See :func:`encode_symbols`.
        header: See :func:`~fedplug.kernels.frame`.
        bits: See :func:`encode_symbols`.

    Raises:
        ArgumentError: ``start`` is not in ``data``, or :func:`encode_symbols` refuses the symbols.
    """

def decode_symbols(code: Array, count: Array | int, *, bits: Array | int) -> NDArray[np.uint8]:
    """Decodes symbols from untrusted bytes that :func:`encode_symbols` wrote.

    Many equal symbols have a short code, so ``count`` determines how much memory is allocated. It must come
    from a trusted source.

    Args:
        code: ``[bytes]`` uint8.
        count: Number of symbols in the code.
        bits: Bits per symbol.

    Returns:
        The packed symbols. ``[ceil(count * bits / 8)]`` uint8.

    Raises:
        ArgumentError: ``code`` cannot be used as an array, or ``count`` or ``bits`` is out of range.
        PayloadError: The bytes are not a code of ``count`` symbols.
    """

def encode_difference(
    before: Array | None, after: Array, item_bytes: int, mantissa_bits: int
) -> NDArray[np.uint8]:
    """Encodes the bytes of an array, given those of its old version.

    docs/wire-format.md specifies the layout. Its code of little change is within a
    few percent of the entropy of the changed elements' places and steps, given the exponents of the old ones.

    Args:
        before: The bytes of the old version, as many as ``after`` has. None for a code of ``after`` alone.
        after: The bytes of the new version, little-endian.
        item_bytes: Bytes of an element: 1, 2, 4 or 8.
        mantissa_bits: Bits of an element below its exponent. ``8 * item_bytes - 1`` if it has none.

    Returns:
        ``[bytes]`` uint8. Hardly longer than ``after`` at most.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
    """

def decode_difference(
    code: Array,
    before: Array | None,
    out: Array,
    item_bytes: int,
    mantissa_bits: int,
) -> None:
    """Decodes the new version from untrusted bytes that :func:`encode_difference` wrote.

    Args:
        code: ``[bytes]`` uint8.
        before: The bytes of the old version, or None, as for the encoder. Another old version is detected
            only by chance. Compare a checksum.
        out: An array for the bytes of the new version. Shares no memory with the others.
        item_bytes: See :func:`encode_difference`.
        mantissa_bits: See :func:`encode_difference`.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
        PayloadError: The bytes are not such a code for ``before``.
    """

def random_words(count: Array | int, first: Scalar, second: Scalar) -> NDArray[np.uint32]:
    """Draws uniform random words of 32 bits.

    They are the numbers of Philox (Salmon et al., SC 2011) as TensorFlow seeds it: viewed as int32, those of
    ``tf.random.stateless_uniform([count], seed=[first, second], minval=None, maxval=None, dtype=tf.int32,
    alg="philox")``. They depend on the arguments alone, and a smaller ``count`` draws a prefix.

    Args:
        count: Number of words, 0 or more.
        first: The first half of the seed, in ``[-2**63, 2**63)``.
        second: The second half of the seed, in ``[-2**63, 2**63)``.

    Returns:
        ``[count]`` uint32.

    Raises:
        ArgumentError: ``count`` is negative.
    """

def random_uniform(
    count: Array | int, first: Scalar, second: Scalar, dtype: DTypeLike = np.float32
) -> Values:
    """Draws uniform numbers in ``[0, 1)`` from the words of :func:`random_words`.

    They are those of ``tf.random.stateless_uniform([count], seed=[first, second], dtype=dtype,
    alg="philox")``.

    Args:
        count: Number of draws, 0 or more.
        first: The first half of the seed, in ``[-2**63, 2**63)``.
        second: The second half of the seed, in ``[-2**63, 2**63)``.
        dtype: float32, for multiples of 2**-23, or float64, for multiples of 2**-52.

    Returns:
        ``[count]`` of that dtype.

    Raises:
        ArgumentError: ``count`` is negative, or ``dtype`` is another.
    """

def draw_indices(seed: Scalar, count: Scalar, size: Scalar) -> NDArray[np.int32]:
    """Draws one index from each of ``count`` ranges of nearly equal length.

    The indices depend on the arguments alone, as ``csrc/core/random_numbers.h`` specifies. Their random
    numbers are those of Philox (Salmon et al., SC 2011).

    Args:
        seed: The seed, in ``[-2**63, 2**63)``.
        count: Number of indices.
        size: Number of elements that the indices refer to. Below 2**31.

    Returns:
        ``[count]`` int32, strictly ascending, in ``[0, size)``.

    Raises:
        ArgumentError: ``0 <= count <= size < 2**31`` does not hold.
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
