"""Tests that `max_bytes` covers the memory of decoding, also of kernels. Encoder suites compare times.

tracemalloc does not see the memory of kernels. So each payload is written in one forked process and decoded
in another, and the growth of its largest resident memory is compared.
"""

from __future__ import annotations

import json
import sys

import pytest

from fedplug.registry.resolve import catalog
from fedplug.registry.specs import EncoderSpec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a fork begins ru_maxrss anew")

WIDEST = 2**31 - 1
SCRATCH = 4 * 2**20  # for two threads, and Python's own memory
EXPRESSIONS = [
    "identity",
    "planes",
    "topk(1.0)",
    "topk(1.0) | identity | rice",
    "topk(0.5) | gaps",
    "topk(1.0) | float16 | gaps",
    "topk(1.0) | qsgd(8, block_size=1) | rans",
    f"topk(1.0, chunk={WIDEST}) | offsets({WIDEST})",
    "topk(1.0, chunk=2) | offsets(2)",
    "topk(1.0, chunk=4096) | codebook(2) | offsets(4096)",
    "randomk(1.0)",
    "randomk(1.0) | sign | rans | seeded",
    "randomk(1.0) | qsgd(2) | rans | seeded",
    "qsgd(8)",
    "qsgd(2, block_size=1) | rans",
    "mixed_qsgd(3.5, block_size=1)",
    "qsgd(rounding='nearest')",
    "bfp(8) | rans",
    "bfp(2, block_size=1) | rans",
    "sign | rans",
    "codebook(8)",
    "bounded(0.00004) | rans",
    "bfloat16",
    "sharedk(1.0, clients=1, bits=24)",
    "countsketch(1.0, rows=15)",
]

SCRIPT = """
import json, os, resource, sys
import numpy as np
import fedplug
from fedplug.codecs import decoding

SIZE = 2**20
def forked(function):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        try:
            result = function()
        except BaseException as error:
            result = repr(error)
        os.write(theirs, json.dumps(result).encode())
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        result = json.loads(file.read())
    os.wait()
    return result

def array(size, dtype):
    return np.random.default_rng(0).standard_normal((size // 512, 512)).astype(dtype)

def write(text, size, dtype):
    payload = fedplug.codec(text, min_size=0).encode(array(size, dtype))[0]
    open(sys.argv[1], "wb").write(payload)

def written(text, size, dtype):
    refused = forked(lambda: write(text, size, dtype))
    if refused:
        raise SystemExit(f"{text}: {refused}")
    return open(sys.argv[1], "rb").read()

def measured(payload):
    def decode():
        plan, body = decoding.opened(payload, None)
        needed = plan.reader.peak_bytes(body, plan.spec, plan.size)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        fedplug.decode(payload, max_bytes=needed)
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        return plan.wire_id, needed, grown
    return decode

known = {entry.name for entry in fedplug.registry.resolve.catalog().entries}
for text in json.loads(sys.argv[2]):
    if text.startswith("countsketch") and "countsketch" not in known:
        continue
    for dtype in ("float32", "float16"):
        fedplug.decode(fedplug.codec(text, min_size=0).encode(array(2**13, dtype))[0])  # imports
        print(json.dumps([text, dtype, *forked(measured(written(text, SIZE, dtype)))]), flush=True)
"""


@pytest.fixture(scope="module")
def costs(tmp_path_factory, python):
    """The wire id, the limit and the memory of each expression and dtype."""
    path = tmp_path_factory.mktemp("payload") / "payload"
    # Freed memory leaves the process at once, so that the next array counts again.
    environment = {"FEDPLUG_NUM_THREADS": "2", "MALLOC_MMAP_THRESHOLD_": "65536"}
    run = python("-c", SCRIPT, path, json.dumps(EXPRESSIONS), **environment)
    assert run.returncode == 0, run.stderr[-3000:]
    found = {}
    for line in run.stdout.splitlines():
        text, dtype, *rest = json.loads(line)
        found.setdefault(text, {})[dtype] = rest
    return found


@pytest.fixture(params=EXPRESSIONS)
def cost(request, costs):
    if request.param not in costs:
        pytest.skip("the plugin is not installed")
    return costs[request.param]


def test_max_bytes_counts_the_memory_of_kernels_too(cost):
    for dtype, (_, needed, grown) in cost.items():
        assert grown <= needed + SCRATCH, dtype


def test_the_limit_is_not_far_above_the_memory_that_is_needed(cost):
    for dtype, (_, needed, grown) in cost.items():
        assert needed <= 3 * grown, dtype


def test_every_wire_id_is_measured(costs):
    measured = {
        part for cost in costs.values() for wire_id, *_ in cost.values() for part in wire_id.split("+")
    }
    specs = [
        entry.spec for entry in catalog().entries if entry.builtin and isinstance(entry.spec, EncoderSpec)
    ]
    assert {spec.wire_id for spec in specs if spec.wire_id} - {"rice/1"} <= measured
