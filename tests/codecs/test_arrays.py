"""Tests which objects count as arrays, and that none is changed or needlessly copied."""

from __future__ import annotations

import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import fedplug
from fedplug.codecs.arrays import as_array, update_between
from fedplug.errors import ArgumentError

DTYPES = [np.dtype(name) for name in ("float32", "float64", "float16", ml_dtypes.bfloat16)]


class Exporter:
    """An array type that has only ``__array__``."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def payload_of(array):
    return fedplug.codec("topk(0.5)").encode(array)[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_that_lie_in_memory_in_another_way_are_copied(dtype):
    x = np.random.default_rng(0).standard_normal((6, 10)).astype(dtype)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(dtype).reshape(x.shape)
    assert not shifted.flags.aligned
    for other in (np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[:, ::-1][:, ::-1], shifted):
        assert payload_of(other) == payload_of(x)
    assert payload_of(x.T) == payload_of(np.ascontiguousarray(x.T))
    assert payload_of(x[1::2, ::3]) == payload_of(x[1::2, ::3].copy())
    assert payload_of(np.broadcast_to(x[0], (4, 10))) == payload_of(np.stack([x[0]] * 4))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_an_array_that_names_the_order_of_bytes_of_this_machine_is_any_other(dtype):
    named = np.dtype(dtype).newbyteorder("<" if sys.byteorder == "little" else ">")
    x = np.arange(1, 11, dtype=dtype)
    codec = fedplug.codec("topk(0.2)")
    assert x.astype(named).dtype.byteorder in "<>"
    payload, state = codec.encode(x.astype(named))
    expected, _ = codec.encode(x)
    assert payload == expected
    residual = state["residual"]
    state["residual"] = residual.astype(residual.dtype.newbyteorder(named.byteorder))
    assert codec.encode(x, state)[0] != expected  # the residual is part of the sum


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">f2", ">i4"])
def test_another_byte_order_is_refused(dtype):
    native = np.dtype(dtype).newbyteorder("=").name
    with pytest.raises(ArgumentError, match=rf"the array is big-endian; pass array\.astype\('{native}'\)"):
        payload_of(np.ones(3, dtype))


@pytest.mark.parametrize("dtype", ["complex64", "datetime64[s]", "U3", "O", "f4,i4", "longdouble"])
def test_a_dtype_that_no_payload_has_is_refused(dtype):
    with pytest.raises(ArgumentError, match=r"cannot be encoded; known: .*float32"):
        payload_of(np.zeros(3, dtype))


@pytest.mark.parametrize("thing", [None, "text", b"bytes", {"a": 1}, {1, 2}, object(), range(3), 1j])
def test_non_arrays_are_refused(thing):
    with pytest.raises(ArgumentError):
        payload_of(thing)


@pytest.mark.parametrize("thing", [[1.0, 2.0], (1, 2), [], [np.ones(3)], (x for x in [1.0])])
def test_a_list_is_no_array(thing):
    with pytest.raises(ArgumentError, match=rf"a {type(thing).__name__} is not an array; pass a NumPy array"):
        payload_of(thing)


def test_numbers_and_scalars_are_arrays_too():
    assert fedplug.decode(payload_of(2.5)) == 2.5
    assert fedplug.decode(payload_of(np.float32(2.5))).dtype == np.float32
    assert fedplug.decode(payload_of(np.float16(2.5))).shape == ()
    assert fedplug.decode(payload_of(True)).dtype == np.bool_


def test_objects_with_array_are_read_without_a_copy():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.shares_memory(as_array(Exporter(x)), x)
    assert np.shares_memory(as_array(x), x)
    assert payload_of(Exporter(x.T)) == payload_of(x.T)


class OnDevice(Exporter):
    """An array with ``__dlpack__`` on the device of a type of DLPack, and perhaps without ``__array__``."""

    def __init__(self, array, device):
        super().__init__(array)
        self.device = device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class WithoutArray(OnDevice):
    __array__ = property()


def test_objects_with_dlpack_are_read_if_they_are_on_the_host():
    x = np.arange(12, dtype=np.float32)
    assert np.shares_memory(as_array(OnDevice(x, 1)), x)
    assert np.shares_memory(as_array(WithoutArray(x, 1)), x)
    with pytest.raises(ArgumentError, match="on a device of DLPack type 2, not on the CPU; copy it to the"):
        as_array(OnDevice(x, 2))


def test_subclasses_are_the_arrays_they_hold(tmp_path):
    x = np.random.default_rng(0).standard_normal((6, 10)).astype(np.float32)
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=x.shape)
    mapped[:] = x
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(x)
    for other in (mapped, matrix, x.view(np.recarray)):
        for expression in ("topk(0.5)", "sign", "randomk(0.5)", "qsgd(4)", "identity"):
            assert fedplug.codec(expression).encode(other)[0] == fedplug.codec(expression).encode(x)[0]


def test_an_array_with_a_mask_is_refused():
    with pytest.raises(ArgumentError, match=r"filled"):
        payload_of(np.ma.masked_array(np.ones(3), [0, 1, 0]))


@pytest.mark.parametrize("expression", ["topk(0.5)", "sign", "randomk(0.5)", "qsgd(4)", "identity"])
def test_an_update_is_never_changed(expression):
    codec, state = fedplug.codec(expression), None
    x = np.random.default_rng(0).standard_normal((6, 10)).astype(np.float32)
    kept = x.copy()
    x.flags.writeable = False
    for in_place in (False, True, True):
        _, state = codec.encode(x, state, in_place=in_place)
        assert x.tobytes() == kept.tobytes()
        assert not any(np.shares_memory(x, array) for array in state.values())


@pytest.mark.parametrize("shape", [(2**31,), (2**16, 2**15)])
def test_an_array_that_is_too_large_is_refused_before_anything_is_copied(shape):
    large = np.broadcast_to(np.float32(1), shape)
    model = {"small": np.ones(3, np.float32), "embedding": large}
    tracemalloc.start()
    with pytest.raises(ArgumentError, match=r"it has 2,147,483,648 elements, .* at most 2,147,483,647"):
        payload_of(large)
    for use in (
        fedplug.codec("identity").encode_model,
        fedplug.codec("auto").sent_exactly,
        fedplug.ModelSum.like,
    ):
        with pytest.raises(ArgumentError, match=r"^array 'embedding': it has 2,147,483,648 elements"):
            use(model)
    with pytest.raises(ArgumentError, match=r"^tensor 'embedding': a shape is .* at most 2\^31 - 1"):
        fedplug.ModelSum({"embedding": shape})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_arrays_of_jax_are_seen_without_a_copy(dtype):
    """plugins/fedplug-torch has the tensors of PyTorch."""
    x = pytest.importorskip("jax.numpy").arange(12).reshape(3, 4).astype(dtype)
    seen = as_array(x)
    assert (seen.dtype, seen.shape) == (np.dtype(dtype), (3, 4))
    assert seen.ctypes.data == x.unsafe_buffer_pointer()
    assert payload_of(x) == payload_of(np.array(seen))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (9,)])
def test_an_entry_that_has_not_changed_has_the_difference_0(dtype, shape):
    for constant in (np.inf, -np.inf, np.nan, 3.0):
        array = np.full(shape, constant, dtype)
        found = update_between(array, array.copy(), dtype)
        assert (found.dtype, found.shape) == (dtype, shape)
        assert not found.any()
    for before, after in [(0, np.nan), (np.nan, 0), (np.inf, 0), (np.inf, -np.inf), (0, np.inf)]:
        found = update_between(np.full(shape, after, dtype), np.full(shape, before, dtype), dtype)
        assert not np.isfinite(found).any()


@pytest.mark.parametrize("nested", [{"kernel": np.ones(100)}, [np.ones(100)], (np.ones(100), np.ones(3))])
def test_the_error_of_a_nested_model_says_how_to_flatten_it(nested):
    for use in (
        lambda model: fedplug.codec("auto").encode_model(model),
        lambda model: fedplug.Broadcaster("lossless").publish(model),
        lambda model: fedplug.diff(model, model),
    ):
        with pytest.raises(ArgumentError, match=r"flatten .*flatten_dict\(model, sep='/'\).*jax\.tree_util"):
            use({"Dense_0": nested})
