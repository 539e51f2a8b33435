"""The updates of `fedplug bench`: values are read unchanged, and errors name the file and the array."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from fedplug.diagnostics.updates import random_update, read_update, update_between_files
from fedplug.errors import ConfigError

RNG = np.random.default_rng(0)
KERNEL, BIAS = RNG.standard_normal((20, 30), np.float32), RNG.standard_normal(30)


@pytest.fixture
def save(tmp_path):
    def to(name, arrays):
        path = tmp_path / name
        if path.suffix == ".npy":
            np.save(path, arrays)
        elif path.suffix == ".npz":
            np.savez_compressed(path, **arrays)
        else:
            safetensors.numpy.save_file(arrays, path)
        return path

    return to


def save_bfloat16(path, name, array):
    """Writes bfloat16 like other libraries; not every release of safetensors for NumPy can."""
    data = array.tobytes()
    part = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [0, len(data)]}
    header = json.dumps({name: part}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def test_random_numbers_are_always_the_same():
    found = random_update(1234)
    assert str(found) == "normally distributed numbers: 1,234 float32 in 1 array"
    assert found.dense_bytes == 4 * 1234
    assert np.array_equal(found.arrays["update"], random_update(1234).arrays["update"])


def test_the_floats_of_a_safetensors_file_are_read_and_the_rest_is_named(save):
    path = save("a.safetensors", {"k": KERNEL, "b": BIAS, "step": np.arange(3), "none": np.zeros((0, 3))})
    found = read_update(path)
    assert list(found.arrays) == ["b", "k"]
    assert np.array_equal(found.arrays["k"], KERNEL)
    assert np.array_equal(found.arrays["b"], BIAS)
    assert found.arrays["b"].dtype == np.float64
    assert found.left_out == ("none", "step")
    assert str(found) == f"{path}: 630 float32, float64 in 2 arrays; 2 left out, without floats"


def test_the_floats_of_an_npz_file_are_read_and_the_rest_is_named(save):
    others = {"step": np.arange(3), "none": np.zeros((0, 3)), "notes": np.array([{"a": 1}], object)}
    path = save("a.npz", {"k": KERNEL.astype(">f4"), "b": BIAS, **others})
    found = read_update(path)
    assert list(found.arrays) == ["b", "k"]
    assert found.arrays["k"].dtype == np.float32
    assert np.array_equal(found.arrays["k"], KERNEL)
    assert np.array_equal(found.arrays["b"], BIAS)
    assert found.left_out == ("none", "notes", "step")


def test_an_npz_file_with_a_damaged_array_is_refused(save):
    path = save("a.npz", {"k": KERNEL})
    data = bytearray(path.read_bytes())
    data[200] ^= 255
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"a\.npz is not a readable array: "):
        read_update(path)


def test_bfloat16_is_read(tmp_path):
    path, numbers = tmp_path / "a.safetensors", KERNEL.astype(ml_dtypes.bfloat16)
    save_bfloat16(path, "k", numbers)
    found = read_update(path).arrays["k"]
    assert found.dtype == numbers.dtype
    assert found.tobytes() == numbers.tobytes()


@pytest.mark.parametrize("array", [KERNEL.astype(">f4"), np.asfortranarray(KERNEL)])
def test_an_npy_file_is_read_whatever_its_byte_order_and_layout(save, array):
    found = read_update(save("a.npy", array)).arrays["array"]
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    assert np.array_equal(found, KERNEL)


def test_an_update_is_the_difference_that_was_added(save):
    new = {"k": KERNEL + 1, "b": BIAS, "step": np.arange(3)}
    old = {"k": KERNEL, "b": BIAS, "step": np.arange(3)}
    found = update_between_files(save("old.safetensors", old), save("new.safetensors", new))
    assert np.array_equal(found.arrays["k"], (KERNEL + 1) - KERNEL)
    assert not found.arrays["b"].any()
    assert found.left_out == ("step",)


def test_an_update_of_bfloat16_is_rounded_once(tmp_path):
    old, new = KERNEL.astype(ml_dtypes.bfloat16), (KERNEL + 0.01).astype(ml_dtypes.bfloat16)
    for name, array in (("old", old), ("new", new)):
        save_bfloat16(tmp_path / f"{name}.safetensors", "k", array)
    found = update_between_files(tmp_path / "old.safetensors", tmp_path / "new.safetensors").arrays["k"]
    exact = new.astype(np.float32) - old.astype(np.float32)
    assert found.tobytes() == exact.astype(ml_dtypes.bfloat16).tobytes()


def test_checkpoints_of_different_models_are_distinguished_by_name(save):
    old = save("old.safetensors", {"a": KERNEL, "b": BIAS, "c": BIAS, "d": BIAS, "e": BIAS, "same": BIAS})
    new = save("new.safetensors", {"same": BIAS, "z": BIAS})
    with pytest.raises(ConfigError) as caught:
        update_between_files(old, new)
    assert str(caught.value) == (
        f"an update needs two files with the same arrays; only in {old}: a, b, c and 2 more; only in {new}: z"
    )


@pytest.mark.parametrize(
    ("other", "found"),
    [(KERNEL.T.copy(), r"float32\[30, 20\]"), (KERNEL.astype(float), r"float64\[20, 30\]")],
)
def test_arrays_of_another_shape_or_dtype_are_refused(save, other, found):
    old, new = save("old.safetensors", {"k": KERNEL}), save("new.safetensors", {"k": other})
    with pytest.raises(ConfigError, match=rf"array 'k' is float32\[20, 30\] in one file and {found}"):
        update_between_files(old, new)


def test_equal_checkpoints_are_refused(save):
    path = save("a.safetensors", {"k": KERNEL})
    with pytest.raises(ConfigError, match="all numbers are 0"):
        update_between_files(path, path)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_an_array_that_is_not_finite_is_named(save, wrong):
    array = KERNEL.copy()
    array[3, 4] = wrong
    with pytest.raises(ConfigError, match=r"a\.safetensors: array 'k' contains NaN or infinity"):
        read_update(save("a.safetensors", {"b": BIAS, "k": array}))


def test_a_difference_that_overflows_is_named(save):
    big = np.full(10, 3e38, np.float32)
    with pytest.raises(ConfigError, match="array 'k' contains NaN or infinity"):
        update_between_files(save("old.safetensors", {"k": -big}), save("new.safetensors", {"k": big}))


def test_a_file_without_floats_is_refused(save):
    with pytest.raises(ConfigError, match=r"a\.safetensors: there is no array of float16"):
        read_update(save("a.safetensors", {"step": np.arange(3)}))
    with pytest.raises(ConfigError, match=r"a\.npz: there is no array of .* to encode, only step$"):
        read_update(save("a.npz", {"step": np.arange(3)}))
    with pytest.raises(ConfigError, match=r"a\.npy is an array of int64, which no encoder accepts"):
        read_update(save("a.npy", np.arange(3)))
    with pytest.raises(ConfigError, match=r"which no encoder accepts; bfloat16 needs \.safetensors"):
        read_update(save("b.npy", KERNEL.astype(ml_dtypes.bfloat16)))


@pytest.mark.parametrize("name", ["a.safetensors", "a.npy", "a.npz"])
def test_a_damaged_file_is_refused(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(ConfigError, match=rf"{name} cannot be read: No such file"):
        read_update(path)
    for content in (b"", b"no such format, whatever its name says", b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=rf"{name} is not a "):
            read_update(path)


def test_objects_in_an_npy_file_are_not_unpickled(save):
    with pytest.raises(ConfigError, match=r"a\.npy is not a readable array: .*pickle"):
        read_update(save("a.npy", np.array([{"a": 1}], object)))
