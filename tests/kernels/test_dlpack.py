"""fedplug.kernels.from_dlpack, with NumPy's exporter and with one that can export anything."""

from __future__ import annotations

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest

from fedplug import errors, kernels

CPU, CUDA = 1, 2


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Unversioned(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "E": 4, "b": 6}  # NumPy's kinds; V or E is bfloat16

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


EXPORTED = []


class Exporter:
    """Exports `array` in version 1 of DLPack, or unversioned (major None)."""

    def __init__(
        self, array, *, major=1, read_only=False, strides=True, code=None, lanes=1, device=CPU, offset=0
    ):
        self.released = 0
        self.device = device
        self.major = major
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        steps = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
        deleter = DELETER(self.release)
        self.kept = [array, shape, steps, deleter]
        tensor = Tensor(
            data=array.ctypes.data - offset if array.size else None,
            device_type=device,
            rank=array.ndim,
            code=CODES[array.dtype.kind] if code is None else code,
            bits=8 * array.itemsize,
            lanes=lanes,
            shape=shape,
            byte_offset=offset,
        )
        if strides:
            tensor.strides = steps
        if major is None:
            self.managed = Unversioned(tensor=tensor, deleter=deleter)
        else:
            self.managed = Versioned(
                major=major, minor=7, deleter=deleter, flags=1 if read_only else 0, tensor=tensor
            )

    def release(self, managed):
        assert managed == ctypes.addressof(self.managed)
        self.released += 1

    def __dlpack_device__(self):
        return self.device, 0

    def capsule(self):
        EXPORTED.append(self)  # keeps it alive: the capsule holds only addresses
        name = b"dltensor" if self.major is None else b"dltensor_versioned"
        return new_capsule(ctypes.addressof(self.managed), name, None)

    def __dlpack__(self, **arguments):
        if self.major is None and arguments:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        assert self.major is None or arguments == {"max_version": (1, 0)}
        return self.capsule()


X = np.arange(6, dtype=np.float32).reshape(2, 3)
DTYPES = [*"?bhiqBHIQefd", ml_dtypes.bfloat16]


@pytest.mark.parametrize("major", [None, 1])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(2, 3), (4,), (), (0, 5), (1, 3, 1)])
def test_any_array_is_seen_without_a_copy(dtype, shape, major):
    array = np.arange(1, 7)[: np.prod(shape, dtype=int)].reshape(shape).astype(dtype)
    for strides in (True, False):
        exporter = Exporter(array, major=major, strides=strides)
        seen = kernels.from_dlpack(exporter)
        assert seen.dtype == array.dtype
        np.testing.assert_array_equal(seen, array)
        if array.size:
            assert seen.ctypes.data == array.ctypes.data
            assert seen.flags.writeable == (major is not None)


@pytest.mark.parametrize("major", [None, 1])
def test_the_memory_is_given_back_once_with_the_last_view_of_it(major):
    exporter = Exporter(np.arange(6, dtype=np.float32), major=major)
    part = kernels.from_dlpack(exporter)[2:]
    gc.collect()
    assert exporter.released == 0
    np.testing.assert_array_equal(part, [2, 3, 4, 5])
    del part
    assert exporter.released == 1


def test_a_writeable_array_is_the_memory_itself_and_a_read_only_one_stays_so():
    array = np.zeros(4, np.float32)
    kernels.from_dlpack(Exporter(array))[1] = 5
    assert array[1] == 5
    assert not kernels.from_dlpack(Exporter(array, read_only=True)).flags.writeable
    np.testing.assert_array_equal(kernels.from_dlpack(Exporter(array[1:], offset=4)), [5, 0, 0])


def test_arrays_exported_by_numpy_are_read():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    seen = kernels.from_dlpack(array)
    assert np.shares_memory(seen, array)
    np.testing.assert_array_equal(seen, array)


class Unasked(Exporter):
    """An exporter without ``__dlpack_device__``."""

    def __getattribute__(self, name):
        if name == "__dlpack_device__":
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("major", [None, 1])
def test_an_exporter_without_a_location_reports_it_in_its_export(major):
    np.testing.assert_array_equal(kernels.from_dlpack(Unasked(X, major=major)), X)
    with pytest.raises(errors.ArgumentError, match="on a device of DLPack type 2"):
        kernels.from_dlpack(Unasked(X, major=major, device=CUDA))


class NotACapsule(Exporter):
    def capsule(self):
        return b"dltensor"


class UsedCapsule(Exporter):
    def capsule(self):
        return new_capsule(ctypes.addressof(self.managed), b"used_dltensor", None)


class Locked(Exporter):
    def capsule(self):
        raise BufferError("use tensor.detach()")


REFUSED = {
    "a list": (lambda: [1.0], "has no __dlpack__; it is list"),
    "a GPU": (
        lambda: Exporter(X, device=CUDA),
        "on a device of DLPack type 2, not on the CPU; copy it to the CPU",
    ),
    "a transpose": (lambda: Exporter(X.T), "not C-contiguous; pass a contiguous copy"),
    "a stride": (lambda: Exporter(X[:, ::2]), "not C-contiguous"),
    "complex numbers": (lambda: Exporter(X, code=5), "DLPack type 5 with 32 bits and 1 lanes; cast it"),
    "lanes": (lambda: Exporter(X, lanes=4), "and 4 lanes; cast it"),
    "bfloat32": (lambda: Exporter(X, code=4), "DLPack type 4 with 32 bits"),
    "another version": (lambda: Exporter(X, major=2), "in version 2 of DLPack"),
    "no capsule": (lambda: NotACapsule(X), "returned no DLPack capsule"),
    "a capsule taken before": (lambda: UsedCapsule(X), "returned no DLPack capsule"),
    "who may not": (lambda: Locked(X), "does not let others read it: use tensor.detach"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_uncertain_ownership_is_refused_and_not_taken_over(make, message):
    exporter = make()
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.from_dlpack(exporter)
    assert getattr(exporter, "released", 0) == 0


def test_an_error_of_the_exporter_is_its_own():
    class Broken(Exporter):
        def __dlpack__(self, **arguments):
            raise TypeError("broken")

    with pytest.raises(TypeError, match="broken"):
        kernels.from_dlpack(Broken(X))


def test_jax_arrays_are_seen():
    jnp = pytest.importorskip("jax.numpy")
    array = jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)
    seen = kernels.from_dlpack(array)
    assert seen.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(seen, np.asarray(array))
