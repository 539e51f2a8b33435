"""The container format: round trips, its frozen bytes, and refusal of everything else."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedplug import wire
from fedplug.errors import PayloadError

WIRE_IDS = st.text(st.characters(codec="ascii"), min_size=1, max_size=32)
DTYPES = st.sampled_from(sorted(wire.DTYPE_CODES))
SHAPES = st.lists(st.integers(0, 2**32 - 1), max_size=32).map(tuple)


@given(st.binary(max_size=100), WIRE_IDS, DTYPES, SHAPES)
def test_unpack_returns_what_was_packed(
    body: bytes, wire_id: str, dtype: str, shape: tuple[int, ...]
) -> None:
    assert wire.unpack(wire.pack(body, wire_id, dtype, shape)) == wire.Container(wire_id, dtype, shape, body)


def test_the_bytes_of_version_1_are_frozen() -> None:
    expected = (
        b"FPLG\x01\x01\x06\x02"  # magic, version 1, float32, a wire id of 6 characters, rank 2
        b"topk/1"
        b"\x03\x00\x00\x00\x00\x01\x00\x00"  # shape 3 x 256
        b"\x02\x00\x00\x00\x00\x00\x00\x00"  # a body of 2 bytes
        b"hi"
    )
    expected += zlib.crc32(expected).to_bytes(4, "little")
    assert wire.pack(b"hi", "topk/1", "float32", (3, 256)) == expected


@given(st.binary(max_size=30), st.data())
def test_every_flipped_bit_is_noticed(body: bytes, data: st.DataObject) -> None:
    packed = bytearray(wire.pack(body, "topk/1", "float32", (4,)))
    bit = data.draw(st.integers(0, 8 * len(packed) - 1))
    packed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(PayloadError):
        wire.unpack(bytes(packed))


@given(st.binary(max_size=30), st.data())
def test_every_truncation_and_every_extra_byte_is_noticed(body: bytes, data: st.DataObject) -> None:
    packed = wire.pack(body, "topk/1", "float32", (4,))
    with pytest.raises(PayloadError):
        wire.unpack(packed[: data.draw(st.integers(0, len(packed) - 1))])
    with pytest.raises(PayloadError):
        wire.unpack(packed + b"\0")


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(buffer: bytes) -> None:
    with pytest.raises(PayloadError):
        wire.unpack(buffer)


def test_a_later_version_is_refused_by_name() -> None:
    packed = bytearray(wire.pack(b"", "topk/1", "float32", ()))
    packed[4] = 2
    with pytest.raises(PayloadError, match="format 2 is not known here"):
        wire.unpack(bytes(packed))


@pytest.mark.parametrize(
    ("wire_id", "dtype", "shape", "message"),
    [
        ("", "float32", (), "wire id ''"),
        ("x" * 33, "float32", (), "wire id"),
        ("é", "float32", (), "ASCII"),
        ("x", "complex64", (), "dtype 'complex64'"),
        ("x", "float32", (1,) * 33, "rank 33"),
        ("x", "float32", (-1,), "shape"),
        ("x", "float32", (2**32,), "shape"),
    ],
)
def test_what_has_no_place_in_the_format_is_refused(
    wire_id: str, dtype: str, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(PayloadError, match=message):
        wire.header(wire_id, dtype, shape)
