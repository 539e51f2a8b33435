"""The container format: round trips, its frozen bytes, and refusal of everything else."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import wire
from fedplug.errors import PayloadError

WIRE_IDS = st.text(st.characters(codec="ascii"), min_size=1, max_size=64)
DTYPES = st.sampled_from(sorted(wire.DTYPE_CODES))
SHAPES = st.lists(st.integers(0, 2**32 - 1), max_size=32).map(tuple)


def test_the_bytes_of_version_1_are_frozen() -> None:
    expected = (
        b"FPLG\x01\x01\x06\x02"  # magic, version 1, float32, a wire id of 6 characters, rank 2
        b"topk/1"
        b"\x03\x00\x00\x00\x00\x01\x00\x00"  # shape 3 x 256
        b"\x02\x00\x00\x00\x00\x00\x00\x00"  # a body of 2 bytes
        b"hi"
    )
    expected += zlib.crc32(expected).to_bytes(4, "little")
    assert wire.frame(b"hi", "topk/1", "float32", (3, 256)) == expected


@settings(max_examples=100)
@given(st.binary(max_size=30), st.data())
def test_every_flipped_bit_is_noticed(body: bytes, data: st.DataObject) -> None:
    packed = bytearray(wire.frame(body, "topk/1", "float32", (4,)))
    bit = data.draw(st.integers(0, 8 * len(packed) - 1))
    packed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(PayloadError):
        wire.unframe(bytes(packed))


@settings(max_examples=100)
@given(st.binary(max_size=30), st.data())
def test_every_truncation_and_every_extra_byte_is_noticed(body: bytes, data: st.DataObject) -> None:
    packed = wire.frame(body, "topk/1", "float32", (4,))
    with pytest.raises(PayloadError):
        wire.unframe(packed[: data.draw(st.integers(0, len(packed) - 1))])
    with pytest.raises(PayloadError):
        wire.unframe(packed + b"\0")


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(buffer: bytes) -> None:
    with pytest.raises(PayloadError):
        wire.unframe(buffer)


def read_as_documented(buffer: bytes) -> wire.Container:
    """docs/wire-format.md, word by word."""
    id_length, rank = buffer[6], buffer[7]
    shape_at = 8 + id_length
    body_at = shape_at + 4 * rank + 8
    length = int.from_bytes(buffer[body_at - 8 : body_at], "little")
    assert buffer[:5] == b"FPLG\x01"
    assert len(buffer) == body_at + length + 4
    assert int.from_bytes(buffer[-4:], "little") == zlib.crc32(buffer[:-4])
    dtypes = {code: name for name, code in wire.DTYPE_CODES.items()}
    shape = [int.from_bytes(buffer[shape_at + 4 * i :][:4], "little") for i in range(rank)]
    wire_id = buffer[8:shape_at].decode("ascii")
    return wire.Container(wire_id, dtypes[buffer[5]], tuple(shape), buffer[body_at : body_at + length])


@settings(max_examples=100)
@given(st.binary(max_size=300), WIRE_IDS, DTYPES, SHAPES)
def test_another_program_can_unpack_packed_symbols(
    body: bytes, wire_id: str, dtype: str, shape: tuple[int, ...]
) -> None:
    packed = wire.frame(body, wire_id, dtype, shape)
    assert wire.unframe(packed) == read_as_documented(packed) == wire.Container(wire_id, dtype, shape, body)
    assert packed.startswith(wire.header(wire_id, dtype, shape))


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_any_contiguous_buffer_can_be_packed_and_unpacked(kind: Callable[[bytes], Any]) -> None:
    packed = wire.frame(kind(b"body"), "topk/1", "float32", (2,))
    assert wire.unframe(kind(packed)).body == b"body"


def test_a_later_version_is_refused_by_name() -> None:
    packed = bytearray(wire.frame(b"", "topk/1", "float32", ()))
    packed[4] = 2
    with pytest.raises(PayloadError, match="format 2 is not known here"):
        wire.unframe(bytes(packed))


def test_the_limits_of_the_format_are_within_it() -> None:
    shape = (2**32 - 1,) * 32
    packed = wire.frame(b"", "x" * 64, "float32", shape)
    assert packed.startswith(wire.header("x" * 64, "float32", shape))
    assert wire.unframe(packed).shape == shape


@pytest.mark.parametrize(
    ("wire_id", "dtype", "shape", "message"),
    [
        ("", "float32", (), "wire id ''"),
        ("x" * 65, "float32", (), "wire id"),
        ("é", "float32", (), "ASCII"),
        ("x", "complex64", (), "dtype 'complex64'"),
        ("x", "float32", (1,) * 33, "rank 33"),
        ("x", "float32", (-1,), "shape"),
        ("x", "float32", (2**32,), "shape"),
    ],
)
def test_values_outside_the_format_are_refused(
    wire_id: str, dtype: str, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(PayloadError, match=message):
        wire.header(wire_id, dtype, shape)
    with pytest.raises(PayloadError, match=message):
        wire.frame(b"", wire_id, dtype, shape)
