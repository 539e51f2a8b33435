"""`fedplug.diff` and `fedplug.patch`: exact for every dtype and change, and refused for another base."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import wire
from fedplug.errors import ArgumentError, PayloadError

ML_DTYPES = [name for name, kind in vars(ml_dtypes).items() if isinstance(kind, type) and "info" not in name]
DTYPES = [
    *["f2", "f4", "f8", "c8", "c16", "?", "i1", "u2", "i4", "i8", ">f4", "S3", "U2", "M8[ns]", "g"],
    *ML_DTYPES,
]


def dtype_named(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(DTYPES),
    st.integers(0, 300),
    st.sampled_from([0, 0.02, 0.5, 1]),
    st.integers(0, 2**32 - 1),
)
def test_every_dtype_comes_back_bit_for_bit(name, n, changed, seed):
    rng = np.random.default_rng(seed)
    dtype = dtype_named(name)
    bits = 2 if dtype.kind == "b" else 256  # any bits, among them NaN payloads, -0 and denormal numbers
    old, other = rng.integers(0, bits, (2, n * dtype.itemsize)).astype(np.uint8)
    new = np.where(rng.random(old.size) < changed, other, old)
    old, new = old.view(dtype), new.view(dtype)
    message = fedplug.diff(old, new)
    assert same(fedplug.patch(old, message), new)
    place = other.view(dtype)
    assert fedplug.patch(old, message, out=place) is place
    assert same(place, new)
    assert len(message) <= new.nbytes + 100


def test_arrays_are_added_removed_reshaped_and_retyped():
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(30, 40)).astype(np.float32)
    old = {"kernel": kernel, "gone": kernel, "bias": kernel[0], "type": kernel, "scalar": np.float64(3)}
    new = {
        "bias": kernel[0],
        "kernel": kernel.reshape(40, 30) * np.float32(1 + 1e-6),
        "added": np.arange(9, dtype=np.int16)[::-1],
        "type": kernel.astype(np.float16),
        "scalar": np.float64(4),
        "": np.zeros((0, 3)),
    }
    patched = fedplug.patch(old, fedplug.diff(old, new))
    assert list(patched) == list(new)
    assert all(same(patched[name], np.asarray(new[name])) for name in new)


def test_a_model_is_written_to_given_arrays_or_to_none_of_them():
    old = {"kernel": np.arange(6, dtype=np.float32), "bias": np.float64(3), "gone": np.ones(2)}
    new = {"kernel": old["kernel"] + 1, "bias": np.float64(4), "added": np.ones((2, 3), np.int8)}
    message = fedplug.diff(old, new)
    places = {"added": np.zeros((2, 3), np.int8), "kernel": np.zeros(6, np.float32)}
    found = fedplug.patch(old, message, out=places)
    assert all(same(found[name], new[name]) for name in new)
    assert all(found[name] is place for name, place in places.items())
    places["kernel"][:] = -1
    for bad in (np.zeros((3, 2), np.int8), np.zeros((2, 3)), [0] * 6):
        with pytest.raises(ArgumentError, match=r"^array 'added': out is "):
            fedplug.patch(old, message, out={**places, "added": bad})
    with pytest.raises(ArgumentError, match=r"^array 'kernel': out shares memory with the old version"):
        fedplug.patch(old, message, out=old)
    with pytest.raises(PayloadError, match=r"^array 'added': .*changed"):
        fedplug.patch(old, message[:-1] + bytes([message[-1] ^ 1]), out={"bias": np.zeros(())})
    assert (places["kernel"] == -1).all()


def test_another_base_is_refused():
    old = {"a": np.arange(100, dtype=np.float32), "b": np.float32([1])}
    message = fedplug.diff(old, {"a": old["a"] + 1, "b": old["b"]})
    wrong = dict(old, b=np.float32([2]))  # although b does not change
    for base, text in [
        (wrong, "array 'b': the base is not the version"),
        ({"a": old["a"]}, "lacks the arrays \\['b'\\]"),
        (dict(old, c=old["b"]), "has the others \\['c'\\]"),
        (dict(old, a=old["a"].astype(np.float64)), "array 'a': the base is float64"),
        (old["a"], "'model/1'"),
    ]:
        with pytest.raises(PayloadError, match=text):
            fedplug.patch(base, message)
    with pytest.raises(PayloadError, match="'diff/1'"):
        fedplug.patch(old, fedplug.diff(old["a"], old["a"]))


def test_a_receiver_limits_the_size():
    zeros = np.zeros(10**7, np.float32)
    message = fedplug.diff(np.zeros(1, np.float32), zeros)
    assert len(message) < 3000
    with pytest.raises(PayloadError, match="max_bytes leaves 1000000"):
        fedplug.patch(np.zeros(1, np.float32), message, max_bytes=10**6)
    model = fedplug.diff({}, {"a": zeros, "b": zeros})
    assert fedplug.patch({}, model, max_bytes=8 * 10**7)["b"].size == 10**7
    with pytest.raises(PayloadError, match=r"array 'b'.*max_bytes leaves"):
        fedplug.patch({}, model, max_bytes=8 * 10**7 - 1)
    with pytest.raises(ArgumentError, match="max_bytes"):
        fedplug.patch({}, model, max_bytes="1 GB")


@pytest.mark.parametrize(
    "name", ["O", "|O", "", "f4,f4", "|V0", "object_", "finfo", "<f4 ", "|S-1", "x" * 200]
)
def test_a_hostile_dtype_is_refused(name):
    body = bytes([0, *bytes(8), len(name)]) + name.encode() + bytes(9)
    with pytest.raises(PayloadError, match="is of dtype"):
        fedplug.patch(np.zeros(1), wire.frame(body, "diff/1", "uint8", (1,)))


def test_a_wrong_result_is_refused():
    old = np.arange(4, dtype=np.uint8)
    container = wire.unframe(fedplug.diff(old, old + 1))
    body = bytearray(container.body)
    body[5] ^= 1  # in the checksum of the result
    with pytest.raises(PayloadError, match="another checksum"):
        fedplug.patch(old, wire.frame(bytes(body), "diff/1", "uint8", (4,)))


def test_arguments_that_have_no_difference():
    with pytest.raises(ArgumentError, match="one version is a mapping"):
        fedplug.diff({}, np.zeros(1))
    with pytest.raises(ArgumentError, match=r"array 'x'.*no exact bytes"):
        fedplug.diff({}, {"x": np.array([None])})
    with pytest.raises(ArgumentError, match="names are text"):
        fedplug.diff({1: np.zeros(1)}, {})
    with pytest.raises(ArgumentError, match="masked"):
        fedplug.diff(np.zeros(1), np.ma.masked_array([1.0], [True]))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "int4"])
def test_arrays_of_jax_have_every_dtype(name):
    numpy = pytest.importorskip("jax.numpy")
    if not hasattr(numpy, name):
        pytest.skip(f"this JAX has no {name}")
    array = (numpy.arange(12) % 7).reshape(3, 4).astype(name)
    expected = np.asarray(array)
    assert expected.dtype == dtype_named(name)
    received = fedplug.patch({"w": array}, fedplug.diff({"w": expected}, {"w": array}))
    assert same(received["w"], expected)


def test_tied_weights_are_sent_once_and_come_back_as_arrays_of_their_own():
    rng = np.random.default_rng(0)
    old, kernel = (rng.normal(size=(100, 100)).astype(np.float32) for _ in range(2))
    one, tied = ({"embed": each, "head": each} for each in (old, kernel))
    for base in ({}, one):
        message = fedplug.diff(base, tied)
        alone = fedplug.diff({name: base[name] for name in base if name == "embed"}, {"embed": kernel})
        assert len(message) < len(alone) + 40
        patched = fedplug.patch(base, message)
        assert all(same(array, kernel) for array in patched.values())
        assert not np.shares_memory(patched["embed"], patched["head"])
        with pytest.raises(PayloadError, match="array 'head': it has 40000 bytes, and max_bytes leaves 1000"):
            fedplug.patch(base, message, max_bytes=41_000)
