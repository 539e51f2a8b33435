"""csrc/decode, the reader in plain C: it compiles without warnings, and decodes payloads to the same bits."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import fedplug
from fedplug import wire

ROOT = Path(__file__).parents[2]
GOLDEN = sorted((ROOT / "tests/golden").glob("*/*.payload"))
FLAGS = "-std=c99 -pedantic -O1 -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Werror -fPIC -shared"
OK, CORRUPT, UNKNOWN, TOO_SMALL = range(4)
DTYPES = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
# The wire ids of golden payloads that it reads.
KNOWN = {
    *("identity/1", "float16/1", "bfloat16/1", "qsgd/1", "qsgd/1+rans/1", "bfp/1", "bfp/1+rans/1"),
    *("sign/1", "sparse/1", "sparse/1+qsgd/1", "sparse/1+qsgd/1+rans/1", "sparse/1+sign/1"),
    "sparse/1+float16/1",
}
EXPRESSIONS = [
    *("identity", "bfloat16", "float16", "qsgd(2)", "qsgd(5, block_size=16) | rans", "bfp(3) | rans"),
    *("sign | rans", "topk(0.01)", "topk(0.3) | qsgd(8) | rans", "topk(0.1) | bfp(4)", "topk(0.1) | float16"),
]


class Payload(ctypes.Structure):
    """The struct fedplug_payload."""

    _fields_ = (
        ("wire_id", ctypes.c_char * 65),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_uint32 * 32),
        ("elements", ctypes.c_uint64),
        ("array_bytes", ctypes.c_uint64),
        ("body", ctypes.c_void_p),
        ("body_bytes", ctypes.c_size_t),
    )


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """The reader as a library, with the function of the page."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("decode")
    page = (ROOT / "docs/wire-format.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```c\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (folder / "example.c").write_text(example, encoding="utf-8")
    sources = [ROOT / "csrc/decode/fedplug_decode.c", folder / "example.c"]
    include = ["-I", ROOT / "csrc/decode"]
    subprocess.run([compiler, *FLAGS.split(), *include, "-o", folder / "decode.so", *sources], check=True)
    return ctypes.CDLL(str(folder / "decode.so"))


def decode(reader, data, room=None):
    """Returns the status, the wire id, and the bytes of the array."""
    payload = Payload()
    status = reader.fedplug_open(data, ctypes.c_size_t(len(data)), ctypes.byref(payload))
    if status != OK:
        return status, None, b""
    size = payload.array_bytes if room is None else room
    array = ctypes.create_string_buffer(size)
    status = reader.fedplug_decode(ctypes.byref(payload), array, ctypes.c_size_t(size))
    return status, payload.wire_id.decode(), array.raw


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_payload_is_decoded_to_the_same_bits(reader, path):
    golden = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    status, wire_id, array = decode(reader, path.read_bytes())
    if golden["wire_id"] not in KNOWN:
        assert status == UNKNOWN
        return
    assert (status, wire_id, array.hex()) == (OK, golden["wire_id"], golden["decoded"])


def test_every_wire_id_that_is_known_has_a_golden_payload():
    assert {wire.unframe(path.read_bytes()).wire_id for path in GOLDEN} >= KNOWN


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [0, 1000, 70_000])  # symbols in no, 4 and 32 lanes
def test_an_array_is_decoded_to_the_same_bits(reader, expression, dtype, size):
    x = np.random.default_rng(size).standard_t(3, size).astype(dtype)
    payload, _ = fedplug.codec(expression).encode(x.reshape(-1, 10))
    status, _, array = decode(reader, payload)
    assert (status, array == fedplug.decode(payload).tobytes()) == (OK, True)


@pytest.mark.parametrize("dtype", [*wire.DTYPE_CODES])
def test_all_dtypes_are_sent_as_they_are(reader, dtype):
    x = np.arange(7).astype(getattr(ml_dtypes, dtype, dtype))
    assert decode(reader, fedplug.codec("identity").encode(x)[0])[::2] == (OK, x.tobytes())


def test_every_damaged_byte_is_refused(reader):
    payload = (ROOT / "tests/golden/sparse-1-qsgd-1-rans-1/float32-10.payload").read_bytes()
    for place in range(len(payload)):
        damaged = bytearray(payload)
        damaged[place] ^= 1
        assert decode(reader, bytes(damaged))[0] in (CORRUPT, UNKNOWN)
        assert decode(reader, payload[:place])[0] == CORRUPT


@pytest.mark.parametrize(
    ("wire_id", "status"),
    [("qsgd/1", CORRUPT), ("qsgd/2", UNKNOWN), ("qsgd/1\0", UNKNOWN), ("sparse/1+rice/1", UNKNOWN)],
)
def test_an_unknown_wire_id_is_told_from_a_damaged_body(reader, wire_id, status):
    assert decode(reader, wire.frame(b"", wire_id, "float32", (3,)))[0] == status


def test_the_function_of_the_page_returns_the_values(reader):
    payload, _ = fedplug.codec("qsgd(8)").encode(np.float32([3, 0, -3]))
    reader.read_floats.restype = ctypes.POINTER(ctypes.c_float)
    array = reader.read_floats(payload, ctypes.c_size_t(len(payload)), ctypes.c_size_t(12))
    assert array[:3] == [3.0, 0.0, -3.0]
    assert not reader.read_floats(payload, ctypes.c_size_t(len(payload)), ctypes.c_size_t(11))


def test_an_array_that_is_too_small_is_refused(reader):
    payload, _ = fedplug.codec("qsgd(8)").encode(np.ones(10, np.float32))
    assert decode(reader, payload, room=39)[0] == TOO_SMALL
