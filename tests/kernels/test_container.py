"""Containers written from parts and read without a copy. tests/wire checks the format."""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels, wire

OF = ("topk/1", "float32", (4,))


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=40)), st.sampled_from([list, tuple]))
def test_parts_become_one_body(parts, sequence):
    assert wire.frame(sequence(parts), *OF) == wire.frame(b"".join(parts), *OF)


@given(st.binary(max_size=40))
def test_a_header_may_be_there_already(body):
    assert kernels.frame(body, wire.header(*OF)) == wire.frame(body, *OF)


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40)))
def test_several_bodies_become_a_container_each(bodies):
    arrays = [np.frombuffer(body, np.uint8) for body in bodies]
    headers = [wire.header("topk/1", "float32", (size,)) for size in range(len(bodies))]
    framed = kernels.frame_of_each(arrays, headers)
    assert framed == [kernels.frame(*each) for each in zip(bodies, headers, strict=True)]


def test_several_bodies_need_a_header_each():
    with pytest.raises(errors.ArgumentError, match="there are 1 bodies and 0 headers"):
        kernels.frame_of_each([np.zeros(3, np.uint8)], [])


def test_parts_may_be_arrays_of_any_dtype_and_shape():
    arrays = [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(3).astype(ml_dtypes.bfloat16),
        np.zeros(17, np.uint8)[1:].view(np.int64),  # not aligned
        np.float64(2.5).reshape(()),
    ]
    parts = [*arrays, bytearray(b"hi"), memoryview(b"there")]
    joined = b"".join(np.asarray(a).tobytes() for a in arrays) + b"hithere"
    assert wire.frame(parts, *OF) == wire.frame(joined, *OF)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (np.zeros(6)[::2], r"body is not C-contiguous; pass bytes\(body\)"),
        ([b"", memoryview(b"abcd")[::2]], r"body\[1\] is not C-contiguous"),
        ("text", "body must be bytes, a buffer or a NumPy array, not str"),
        ([b"", [b""]], r"body\[1\] must be bytes, a buffer or a NumPy array, not list"),
    ],
)
def test_other_memory_than_plain_is_refused(body, message):
    with pytest.raises(errors.ArgumentError, match=message):
        wire.frame(body, *OF)


@settings(max_examples=100)
@given(st.binary(max_size=100), st.sampled_from([bytes, bytearray, memoryview, np.array]))
def test_the_body_is_a_read_only_part_of_the_buffer(body, kind):
    packed = wire.frame(body, *OF)
    buffer = np.frombuffer(packed, np.uint8).copy() if kind is np.array else kind(packed)
    wire_id, dtype, shape, view = kernels.unframe(buffer)
    assert wire.Container(wire_id, dtype, shape, view.tobytes()) == wire.unframe(packed)
    assert view.dtype == np.uint8
    assert not view.flags.writeable
    assert not len(body) or np.shares_memory(view, np.frombuffer(buffer, np.uint8))


def test_the_body_keeps_the_buffer_alive_and_in_its_place():
    memory = np.frombuffer(wire.frame(bytes(range(200)), *OF), np.uint8).copy()
    alive = weakref.ref(memory)
    view = kernels.unframe(memory)[3]
    del memory
    gc.collect()
    assert alive() is not None
    assert view.tobytes() == bytes(range(200))
    del view
    assert alive() is None

    resizable = bytearray(wire.frame(b"hi", *OF))
    view = kernels.unframe(resizable)[3]
    with pytest.raises(BufferError):
        resizable.append(0)
    del view
    resizable.append(0)
