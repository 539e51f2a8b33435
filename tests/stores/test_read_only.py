"""Whether somebody can change the values of an array."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from fedplug import kernels
from fedplug.stores.base import can_be_written, give_up


def read_only(array):
    view = array[:]
    view.flags.writeable = False
    return view


def fixed(array):
    array.flags.writeable = False
    return array


def test_a_writable_array_can_be_written():
    assert can_be_written(np.zeros(3))
    assert can_be_written(kernels.empty((3,), np.dtype(np.float32)))


@pytest.mark.parametrize(
    "array",
    [fixed(np.zeros(3)), read_only(fixed(np.zeros(3))), fixed(kernels.empty((3,), np.dtype(np.float32)))],
    ids=["array", "view", "of a kernel"],
)
def test_a_read_only_array_cannot_be_written(array):
    assert not can_be_written(array)


@pytest.mark.parametrize("data", [b"abcd", memoryview(b"abcd")], ids=["bytes", "memoryview"])
def test_bytes_cannot_be_written(data):
    assert not can_be_written(np.frombuffer(data, np.uint8))


def test_a_read_only_flag_on_foreign_memory_is_trusted():
    assert not can_be_written(fixed(np.frombuffer(bytearray(b"abcd"), np.uint8)))


def test_an_array_is_found_behind_a_view():
    assert can_be_written(read_only(read_only(np.zeros(3))))


def test_giving_up_an_array_includes_its_bases():
    array = np.zeros(6)
    view = array[1:].reshape(5, 1)
    give_up(view)
    assert not can_be_written(view)
    assert not array.flags.writeable


def test_a_file_can_be_written_by_others(tmp_path):
    (tmp_path / "file").write_bytes(bytes(16))
    assert can_be_written(np.memmap(tmp_path / "file", mode="r"))
    with (tmp_path / "file").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert can_be_written(np.frombuffer(mapped, np.uint8))
