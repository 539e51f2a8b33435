"""Messages that every later version must read. As a program, this file writes the missing ones.

Each ``golden/NAME.diff`` is a message from `old_version` to `new_version` of the dtype in its name, or of a
model of all of them.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import fedplug

GOLDEN = Path(__file__).parent / "golden"
DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int64", "uint8"]


def old_version(dtype):
    words = np.arange(600, dtype=np.uint64) * 0x9E3779B97F4A7C15  # any bits
    return words.view(np.uint8)[: 600 * np.dtype(dtype).itemsize].view(dtype).reshape(20, 30)


def new_version(dtype, every):
    new = old_version(dtype).ravel().copy()
    words = new.view(f"u{new.itemsize}")
    words[::every] += np.arange(1, words[::every].size + 1, dtype=words.dtype) % 5 + 1
    words[3:4] -= 1
    return new.reshape(30, 20)


def versions():
    for name in DTYPES:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        yield f"{name}-few", old_version(dtype), new_version(dtype, 29)
        yield f"{name}-many", old_version(dtype), new_version(dtype, 2)
        yield f"{name}-whole", old_version(dtype)[1:], new_version(dtype, 2)
    arrays = {name: (old, new) for name, old, new in versions_of_arrays()}
    old = {name: old for name, (old, _) in arrays.items()} | {"removed": old_version(np.float32)}
    new = {name: new for name, (_, new) in arrays.items()} | {"added": old_version(np.int32)}
    yield "model", old, new


def versions_of_arrays():
    for name in DTYPES:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        yield name, old_version(dtype), new_version(dtype, 29)


def bits_of(version):
    if isinstance(version, dict):
        return {name: bits_of(array) for name, array in version.items()}
    return version.dtype, version.shape, version.tobytes()


@pytest.mark.parametrize(("name", "old", "new"), [pytest.param(*each, id=each[0]) for each in versions()])
def test_a_golden_message_is_read(name, old, new):
    message = (GOLDEN / f"{name}.diff").read_bytes()
    assert bits_of(fedplug.patch(old, message)) == bits_of(new)


if __name__ == "__main__":
    for name, old, new in versions():
        path = GOLDEN / f"{name}.diff"
        if not path.exists():
            path.write_bytes(fedplug.diff(old, new))
            print(path)
