"""Tests `decode` and `Sum.add` on hostile bytes: a `PayloadError` or an array, within the memory limit.

The containers are valid: tests/wire damages them.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import kernels, wire
from fedplug.errors import PayloadError
from fedplug.registry.resolve import catalog
from fedplug.registry.specs import EncoderSpec

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "tests" / "golden", *ROOT.glob("plugins/*/tests/golden")]
PATHS = sorted(path for folder in FOLDERS for path in folder.glob("*/*.payload"))
GOLDEN = {f"{path.parent.name}/{path.stem}": path for path in PATHS}
MAX_BYTES = 2**16
SLACK = 2**17  # memory of Python itself, and codes as long as the payload
WIRE_IDS = sorted(
    {entry.spec.wire_id for entry in catalog().entries if isinstance(entry.spec, EncoderSpec)} - {None}
)
MIXED = [
    "sparse/1+rans/1",
    "sparse/1+float16/1+rans/1",
    "sparse/1+rice/1",
    "sparse/1+rice/1+rice/1",
    "sparse/1+gaps/1+qsgd/1",
    "sparse/1+identity/1",
    "sparse/1+sparse/1",
    "sparse/1+",
    "sparse/1+mixed_qsgd/1",
    "qsgd/1+rice/1",
    "qsgd/1+qsgd/1",
    "qsgd/1+rans/1+rans/1",
    "mixed_qsgd/1+rans/1",
    "identity/1+identity/1",
    "identity/1+rans/1",
    "identity/1+rans/1",
    "float16/1+rans/1",
    "rans/1",
    "rice/1",
    "+",
    "+qsgd/1",
    "nobody/1",
    "x" * 64,
]


@functools.cache
def golden():
    return {name: GOLDEN[name].read_bytes() for name in GOLDEN}


@pytest.fixture(autouse=True, scope="module")
def _imported():
    """Imports all readers of payloads first, because imports allocate memory, too."""
    for entry in catalog().entries:
        if isinstance(entry.spec, EncoderSpec) and entry.status == "ok":
            entry.spec.resolve()
    for payload in golden().values():
        fedplug.decode(payload)


def read(payload):
    """The finite array that `decode` returns within the limit, or None if it refuses the payload."""
    tracemalloc.start()
    try:
        array = fedplug.decode(payload, max_bytes=MAX_BYTES)
    except PayloadError:
        array = None
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MAX_BYTES + 8 * len(payload) + SLACK
    if array is not None:
        assert array.nbytes <= MAX_BYTES
        assert array.dtype.kind in "biu" or kernels.all_finite(array)
    return array


def read_everywhere(payload):
    """Decodes with `decode` and adds with `Sum.add`, which must agree."""
    array = read(payload)
    if array is not None and array.dtype.kind not in "biu":
        total = fedplug.Sum(array.shape, array.dtype)
        total.add(payload)
        assert total.value().tobytes() == (array + array.dtype.type(0)).tobytes()
        place = np.empty_like(array)
        assert fedplug.decode(payload, out=place).tobytes() == array.tobytes()
    return array


@pytest.mark.parametrize("name", golden())
def test_every_golden_payload_is_read_without_a_configuration(name):
    facts = json.loads(GOLDEN[name].with_suffix(".json").read_text(encoding="utf-8"))
    array = read_everywhere(golden()[name])
    assert (array.dtype.name, list(array.shape)) == (facts["dtype"], facts["shape"])
    assert array.tobytes().hex() == facts["decoded"]


def test_there_are_golden_payloads_of_plugins_too():
    assert len({path.parents[1] for path in GOLDEN.values()}) == 2


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_a_body_that_was_forged_is_refused_or_read(data):
    container = wire.unframe(golden()[data.draw(st.sampled_from(list(golden())))])
    body = bytearray(container.body)
    for _ in range(data.draw(st.integers(1, 3))):
        kind = data.draw(st.sampled_from(["flip", "cut", "count", "leb128", "append", "random"]))
        at = data.draw(st.integers(0, len(body)))
        if kind == "flip" and at < len(body):
            body[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "cut":
            del body[at:]
        elif kind == "count":
            number = data.draw(st.sampled_from([0x7FFFFFFF, 0xFFFFFFFF, 0x08000000, 0]))
            body[at : at + 4] = number.to_bytes(4, "little")
        elif kind == "leb128":
            body[at : at + 1] = data.draw(
                st.sampled_from([b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\x80\x00", b"\xff" * 6])
            )
        elif kind == "append":
            body += data.draw(st.binary(max_size=9))
        else:
            body[at:] = data.draw(st.binary(max_size=40))
    read_everywhere(wire.frame(bytes(body), container.wire_id, container.dtype, container.shape))


shapes = st.lists(
    st.one_of(st.integers(0, 40), st.sampled_from([2**16, 2**31 - 1, 2**31, 2**32 - 1])), max_size=5
) | st.lists(st.sampled_from([0, 1, 2**32 - 1]), max_size=32)


@given(
    st.sampled_from([*WIRE_IDS, *MIXED])
    | st.lists(st.sampled_from(WIRE_IDS), min_size=1, max_size=4).map("+".join),
    st.sampled_from(sorted(wire.DTYPE_CODES)),
    shapes,
    st.binary(max_size=60) | st.sampled_from([wire.unframe(payload).body for payload in golden().values()]),
)
@settings(max_examples=600, deadline=None)
def test_any_header_before_any_body_is_refused_or_read(wire_id, dtype, shape, body):
    if len(wire_id) <= wire.MAX_WIRE_ID:
        read_everywhere(wire.frame(body, wire_id, dtype, shape))


@pytest.mark.parametrize("wire_id", MIXED)
def test_wire_ids_that_nothing_writes_are_refused(wire_id):
    with pytest.raises(
        PayloadError,
        match=f"the wire id '{re.escape(wire_id)}'|^(mixed_qsgd/1|identity/1|float16/1) has no symbols",
    ):
        fedplug.decode(wire.frame(bytes(12), wire_id, "float32", (3,)))


@pytest.mark.parametrize("shape", [(0, 2**32 - 1), (0, *[2**32 - 1] * 31), (2**31, 2**32 - 1, 0, 2**31)])
@pytest.mark.parametrize("expression", ["identity", "topk(0.5)", "qsgd(4)"])
def test_an_array_without_elements_may_say_any_shape_that_an_array_can_have(expression, shape):
    empty = wire.unframe(fedplug.codec(expression).encode(np.zeros(0, np.float32))[0])
    payload = wire.frame(empty.body, empty.wire_id, "float32", shape)
    total = fedplug.Sum(0)
    with pytest.raises(PayloadError):
        total.add(payload)
    try:
        expected = np.zeros(shape, np.float32)
    except ValueError:
        with pytest.raises(PayloadError, match="no array can have"):
            fedplug.decode(payload)
    else:
        assert fedplug.decode(payload).shape == expected.shape


def test_a_few_bytes_stand_for_no_more_than_the_limit():
    zeros = np.zeros(2**20, np.float32)
    payload, _ = fedplug.codec("topk(count=1)").encode(zeros)
    assert len(payload) < 60
    needed = 4 * 2**20 + 9  # the zeros and one entry: its value, its index and a comparison
    message = r"float32\[1048576\], 4194304 bytes, and takes up to 4194313 to decode; max_bytes is 4194312"
    with pytest.raises(PayloadError, match=message):
        fedplug.decode(payload, max_bytes=needed - 1)
    assert fedplug.decode(payload, max_bytes=needed).tobytes() == zeros.tobytes()
    assert fedplug.decode(payload, out=zeros, max_bytes=0) is zeros


# tracemalloc does not see the kernels' memory, so the process may allocate 200 MB more than it has.
LIMITED = """
import resource, sys
import numpy as np
import fedplug
from fedplug import wire
from fedplug.errors import PayloadError
from fedplug.registry.resolve import catalog
from fedplug.registry.specs import EncoderSpec

good = fedplug.codec("topk(0.5) | qsgd(4) | rans").encode(np.ones(64))[0]
fedplug.decode(good)
has = 1024 * int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1])
resource.setrlimit(resource.RLIMIT_AS, (has + 200_000_000, -1))
ids = [e.spec.wire_id for e in catalog().entries if isinstance(e.spec, EncoderSpec) and e.spec.wire_id]
ids += ["sparse/1", *(f"sparse/1+{one}" for one in ids), *(f"{one}+rans/1" for one in ids)]
ids += [f"sparse/1+{one}+rans/1+gaps/1" for one in ("qsgd/1", "sign/1", "bfp/1")]
bodies = [b"", bytes(12), b"\\xff" * 12, b"\\xff\\xff\\xff\\xff\\x07" * 3, wire.unframe(good).body]
heads = (b"\\xfe\\xff\\xff\\xff\\x07\\x08", b"\\x01\\x08", b"\\x04\\x09", b"\\x08\\x14")
bodies += [head + bytes(range(40)) for head in heads]
refused = 0
for wire_id in ids:
    for body in bodies:
        for dtype in ("float32", "bfloat16", "float64"):
            for shape in [(2**31 - 1,), (2**31,), (2**16, 2**15), (2**32 - 1,) * 9]:
                payload = wire.frame(body, wire_id, dtype, shape)
                try:
                    fedplug.decode(payload, max_bytes=100_000_000)
                except PayloadError:
                    refused += 1
print(refused == len(ids) * len(bodies) * 12, len(ids) > 30)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_shapes_beyond_all_memory_are_refused_before_any_is_asked_for(python):
    result = python("-c", LIMITED)
    assert result.stdout == "True True\n", result.stderr[-2000:]
