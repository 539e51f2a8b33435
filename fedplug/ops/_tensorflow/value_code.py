"""`fedplug.ops.value_code` on tensors.

The reference of a form is a pair of functions, an encoder and a decoder. docs/wire-format.md specifies the
layouts.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug.kernels.arguments import real, whole
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    as_bytes,
    as_int64,
    refuse_without_op,
    require_floating,
    require_vectors,
)
from fedplug.ops._tensorflow.arrays import saturate_cast
from fedplug.ops._tensorflow.checks import of_length, require
from fedplug.ops._tensorflow.packing import pack, unpack
from fedplug.ops._tensorflow.prng import dither
from fedplug.ops._tensorflow.scales import (
    block_count,
    block_scales,
    mean_magnitude,
    relative_to_scales,
    scales_from_bytes,
    times_scales,
)
from fedplug.ops._tensorflow.serialization import from_bytes, to_bytes
from fedplug.ops._tensorflow.spec import wide_dtype, widened
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, DType, Scalar, ValueForm


def encode_values(
    values: Array,
    form: ValueForm,
    *,
    bits: Scalar = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
    lowering: str | None = None,
) -> tf.Tensor:
    values = tf.convert_to_tensor(values)
    require_floating(values=values)
    require_vectors(values=values)
    seed, bits = as_int64("seed", seed), as_int64("bits", bits)
    block_size, relative = whole("block_size", block_size), real("relative", relative)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_encode_values(
            values, seed, bits, form=form, block_size=block_size, relative=relative
        )
    _require_reference(form)
    return _encode(values, seed, bits, form, block_size)


def decode_values(
    code: Array,
    count: Scalar,
    form: ValueForm,
    *,
    dtype: DType,
    bits: Scalar = 8,
    block_size: int = 256,
    relative: float = 0.01,
    lowering: str | None = None,
) -> tf.Tensor:
    code = as_bytes("code", code)
    require_vectors(code=code)
    count, bits = as_int64("count", count), as_int64("bits", bits)
    block_size, relative = whole("block_size", block_size), real("relative", relative)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_decode_values(
            code, count, bits, T=dtype, form=form, block_size=block_size, relative=relative
        )
    _require_reference(form)
    return _decode(code, count, bits, form, tf.as_dtype(dtype), block_size)


def _require_reference(form: ValueForm) -> None:
    if form in ("codebook", "bounded"):
        refuse_without_op("quantizer", form, instead="bfp")


_LEAST_BITS, _MOST_BITS = 2, 8
_HEADER_BYTES = 2
_FORMATS = {"float16": tf.float16, "bfloat16": tf.bfloat16}


@traced_once
def _encode(values: tf.Tensor, seed: tf.Tensor, bits: tf.Tensor, form: str, block_size: int) -> tf.Tensor:
    finite = tf.reduce_all(tf.math.is_finite(values))
    with require(finite, f"{form} got values that are NaN or infinite"):
        values = tf.identity(values)
    if form in _FORMATS:
        return _encode_cast(values, _FORMATS[form])
    if form in ("qsgd", "nearest"):
        return _encode_qsgd(values, seed, _checked(bits), block_size, form == "nearest")
    if form == "bfp":
        return _encode_bfp(values, _checked(bits), block_size)
    return _encode_sign(values)


@traced_once
def _decode(
    code: tf.Tensor, count: tf.Tensor, bits: tf.Tensor, form: str, dtype: tf.DType, block_size: int
) -> tf.Tensor:
    with require((count >= 0) & (count < 2**31), "count must be in [0, 2^31)"):
        count = tf.identity(count)
    if form in _FORMATS:
        return _decode_cast(code, count, dtype, form)
    if form in ("qsgd", "nearest"):
        return _decode_qsgd(code, count, _checked(bits), dtype, block_size)
    if form == "bfp":
        return _decode_bfp(code, count, _checked(bits), dtype, block_size)
    return _decode_sign(code, count, dtype)


def _encode_cast(values: tf.Tensor, to: tf.DType) -> tf.Tensor:
    return to_bytes(_nearest_finite(values, to))


def _decode_cast(code: tf.Tensor, count: tf.Tensor, dtype: tf.DType, form: str) -> tf.Tensor:
    narrow = from_bytes(
        of_length(code, count * _FORMATS[form].size, f"the bytes of a {form} payload"), _FORMATS[form]
    )
    with require(tf.reduce_all(tf.math.is_finite(narrow)), f"a {form} payload holds no finite number"):
        return _nearest_finite(tf.identity(narrow), dtype)


def _nearest_finite(values: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Converts values to another dtype. An overflow becomes its largest number."""
    converted = tf.cast(values, dtype)
    largest = tf.cast(tf.sign(values), dtype) * dtype.max
    return tf.where(tf.math.is_inf(converted), largest, converted)


def _encode_qsgd(
    values: tf.Tensor, seed: tf.Tensor, bits: tf.Tensor, block_size: int, nearest: bool
) -> tf.Tensor:
    relative, scales = relative_to_scales(widened(values), block_size)
    exact = relative * tf.cast(_highest(bits), relative.dtype)
    if nearest:
        levels = tf.cast(tf.round(exact), tf.int64)
    else:
        below = tf.floor(exact)
        noise = tf.cast(dither(values, seed), exact.dtype)
        levels = tf.cast(below + tf.cast(noise < exact - below, exact.dtype), tf.int64)
    codes = tf.cast(levels + _highest(bits), tf.uint8)
    scales = to_bytes(tf.cast(scales, values.dtype))
    return tf.concat([_header(bits, block_size), scales, pack(codes, bits)], axis=0)


def _decode_qsgd(
    code: tf.Tensor, count: tf.Tensor, bits: tf.Tensor, dtype: tf.DType, block_size: int
) -> tf.Tensor:
    scales, codes = _split(code, count, bits, block_size, dtype.size, "qsgd", "scales")
    scales = scales_from_bytes(scales, dtype, "a qsgd payload")
    codes = tf.cast(unpack(codes, count, bits, "the codes of a qsgd payload"), tf.int64)
    levels = codes - _highest(bits)
    known = tf.reduce_all(levels <= _highest(bits))
    with require(known, "the codes of a qsgd payload hold a level that does not exist"):
        levels = tf.identity(levels)
    return _from_levels(levels, bits, scales, block_size)


def _split(
    code: tf.Tensor, count: tf.Tensor, bits: tf.Tensor, block_size: int, width: int, form: str, what: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """The numbers of ``width`` bytes, one for each block, and the packed numbers. Refuses another header."""
    packed_at = _HEADER_BYTES + block_count(count, block_size) * width
    enough = tf.size(code, tf.int64) >= packed_at
    with require(enough, f"a {form} payload is too short to hold its {what}"):
        code = tf.identity(code)
    same = tf.reduce_all(code[:_HEADER_BYTES] == _header(bits, block_size))
    with require(same, f"a {form} payload was not made with these bits and block_size={block_size}"):
        return code[_HEADER_BYTES:packed_at], code[packed_at:]


def _header(bits: tf.Tensor, block_size: int) -> tf.Tensor:
    return tf.cast(tf.stack([bits, tf.constant(block_size.bit_length() - 1, tf.int64)]), tf.uint8)


def _checked(bits: tf.Tensor) -> tf.Tensor:
    in_range = (bits >= _LEAST_BITS) & (bits <= _MOST_BITS)
    with require(in_range, f"bits must be {_LEAST_BITS} to {_MOST_BITS}"):
        return tf.identity(bits)


def _highest(bits: tf.Tensor) -> tf.Tensor:
    """The highest level L for int64 ``bits``."""
    return tf.bitwise.left_shift(tf.ones_like(bits), bits - 1) - 1


def _from_levels(levels: tf.Tensor, bits: tf.Tensor, scales: tf.Tensor, block_size: int) -> tf.Tensor:
    """Computes ``scale * (level / L)`` with a table of quotients.

    In a graph TensorFlow turns a division by a constant into a multiplication, which rounds differently.
    """
    wide = widened(scales)
    quotients: list[float] = []
    offset = []
    for width in range(_LEAST_BITS, _MOST_BITS + 1):
        highest = 2 ** (width - 1) - 1
        offset.append(len(quotients) + highest)
        quotients += [level / highest for level in range(-highest, highest + 1)]
    places = tf.gather(tf.constant(offset, tf.int64), bits - _LEAST_BITS) + tf.cast(levels, tf.int64)
    relative = tf.gather(tf.constant(quotients, wide.dtype), places)
    return tf.cast(times_scales(relative, wide, block_size), scales.dtype)


def _only_scale(code: tf.Tensor, count: tf.Tensor, dtype: tf.DType, what: str) -> tf.Tensor:
    """The scale of all values, a vector of one element; 0 if there are no values."""
    scales = scales_from_bytes(code[: dtype.size], dtype, what)
    zero = tf.reduce_all(code[: dtype.size] == 0)  # TensorFlow's arithmetic takes denormal scales for 0.
    with require((count > 0) | zero, f"{what} has a scale of no values that is not 0"):
        return tf.identity(scales)


def _encode_sign(values: tf.Tensor) -> tf.Tensor:
    bits = pack(tf.cast(values >= 0, tf.uint8), 1)
    return tf.concat([to_bytes(mean_magnitude(values)), bits], axis=0)


def _decode_sign(code: tf.Tensor, count: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    with require(tf.size(code) >= dtype.size, "a sign payload is too short to hold its scale"):
        code = tf.identity(code)
    (scale,) = tf.unstack(_only_scale(code, count, dtype, "a sign payload"), num=1)
    bits = unpack(code[dtype.size :], count, 1, "the bits of a sign payload")
    return tf.where(bits == 1, scale, -scale)


_EXPONENTS = {
    tf.float16: (-24, 15),
    tf.bfloat16: (-125, 127),
    tf.float32: (-125, 127),
    tf.float64: (-1021, 1023),
}


def _encode_bfp(values: tf.Tensor, bits: tf.Tensor, block_size: int) -> tf.Tensor:
    largest = _highest(bits)
    lowest, highest = _EXPONENTS[values.dtype]
    powers = [2.0**exponent for exponent in range(lowest, highest)]
    ends = (tf.cast(largest, tf.float64) + 0.5) * tf.constant(powers, tf.float64)
    places = tf.searchsorted(ends, tf.cast(block_scales(values, block_size), tf.float64))
    steps = _of_each(places, tf.size(values), values.dtype, block_size)
    whole = tf.cast(largest, steps.dtype)
    levels = tf.clip_by_value(tf.round(widened(values) / steps), -whole, whole)
    packed = pack(tf.cast(levels + whole, tf.uint8), bits)
    return tf.concat(
        [_header(bits, block_size), to_bytes(tf.cast(places + lowest, tf.int16)), packed], axis=0
    )


def _decode_bfp(
    code: tf.Tensor, count: tf.Tensor, bits: tf.Tensor, dtype: tf.DType, block_size: int
) -> tf.Tensor:
    largest = _highest(bits)
    exponents, codes = _split(code, count, bits, block_size, tf.int16.size, "bfp", "exponents")
    exponents = from_bytes(exponents, tf.int16)
    lowest, highest = _EXPONENTS[dtype]
    valid = tf.reduce_all((exponents >= lowest) & (exponents <= highest))
    with require(valid, "an exponent of a bfp payload is out of range"):
        places = tf.cast(exponents, tf.int32) - lowest
    levels = tf.cast(unpack(codes, count, bits, "the levels of a bfp payload"), tf.int64)
    with require(tf.reduce_all(levels <= 2 * largest), "a level of a bfp payload is too large"):
        levels = tf.cast(levels - largest, wide_dtype(dtype))
    return saturate_cast(levels * _of_each(places, count, dtype, block_size), dtype)


def _of_each(places: tf.Tensor, count: tf.Tensor, dtype: tf.DType, block_size: int) -> tf.Tensor:
    """The step of every element. ``places`` index the exponents of the dtype, one for each block."""
    lowest, highest = _EXPONENTS[dtype]
    powers = tf.constant([2.0**exponent for exponent in range(lowest, highest + 1)], wide_dtype(dtype))
    return tf.repeat(tf.gather(powers, places), block_size)[:count]
