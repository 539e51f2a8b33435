"""Writes the seeds of the fuzz targets, csrc/tests/fuzz/corpus, from the golden payloads of the encoders.

    python csrc/tests/fuzz/make_corpus.py

A seed is an input in the format of the target with that name; see the `Take` calls in its source.
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import ml_dtypes  # noqa: F401  # bfloat16 by its name
import numpy as np

from fedplug import kernels, wire

HERE = Path(__file__).parent
GOLDEN = HERE.parents[2] / "tests" / "golden"
# In the order of ValueForm.
FORMS = ["float16", "bfloat16", "qsgd", "nearest", "sign", "codebook", "bounded", "bfp"]
DTYPES = ["float32", "float64", "float16", "bfloat16"]  # in the order of the targets
INDEX_FORMS = ["rice", "gaps"]  # in the order of IndexForm
INDICES = {"none": [], "dense": range(40), "sparse": [3, 70, 71, 300, 399]}


def payloads():
    """One payload of every format that the reader in C knows, whole."""
    dense = ["identity-1", "float16-1", "bfloat16-1", "qsgd-1", "bfp-1", "sign-1"]
    other = ["qsgd-1-rans-1", "bfp-1-rans-1", "sparse-1", "sparse-1-qsgd-1", "sparse-1-qsgd-1-rans-1"]
    for number, name in enumerate([*dense, *other, "sparse-1-sign-1"]):
        found = sorted((GOLDEN / name).glob("*.payload"))
        yield name, found[number % len(found)].read_bytes()
    fields, sum_above_4096 = struct.pack("<BBf", 2, 9, 1.0), bytes([7, 12, 2, 0, 0, 0, 0, 2])
    body = fields + sum_above_4096 + bytes(16)
    yield "frequencies-above-their-sum", wire.frame(body, "qsgd/1+rans/1", "float32", (10,))
    yield "many-symbols", (GOLDEN / "qsgd-1-rans-1" / "bfloat16-600.payload").read_bytes()


def values():
    """The bodies of the value codes."""
    for form in FORMS:
        for path in sorted((GOLDEN / f"{form}-1").glob("*.json")):
            golden = json.loads(path.read_text())
            config = golden["config"]
            block = int(config.get("block_size", 1)).bit_length() - 1
            body = kernels.unframe(path.with_suffix(".payload").read_bytes())[-1].tobytes()
            dtype, count = DTYPES.index(golden["dtype"]), int(np.prod(golden["shape"]))
            one_in = round(1 / config.get("rel", 0.01)) - 2
            head = struct.pack(
                "<3BHBHB", FORMS.index(form), config.get("bits", 8), block, one_in, dtype, count, 0
            )
            yield f"{form}-{path.stem}", head + bytes(body)
    zeros = struct.pack("<3BHBHB", FORMS.index("sign"), 8, 0, 98, DTYPES.index("float32"), 1, 0)
    yield "sign-minus-zero", zeros + struct.pack("<fB", -0.0, 1)


def index_codes():
    """Indices close together, far apart, and none."""
    size = 400
    for number, form in enumerate(INDEX_FORMS):
        for name, indices in INDICES.items():
            code = kernels.encode_indices(np.array(indices, np.int32), size, form=form)
            yield f"{form}-{name}", struct.pack("<BHBi", number, len(indices), 0, size) + bytes(code)


def symbols():
    """A code of few and of many different symbols."""
    count, levels = 100, {1: [1] * 13, 4: [0x10, 0x00] * 25, 8: list(range(100))}
    for bits, packed in levels.items():
        code = kernels.encode_symbols(np.array(packed, np.uint8), count, bits=bits)
        yield f"bits{bits}", struct.pack("<BBH", bits - 1, 1, count) + bytes(code)


def differences():
    """Few changes, many and none in words of every size, and whole arrays."""
    layouts = [(2, 7), (2, 10), (4, 23), (8, 52), (1, 3), (1, 7), (4, 31), (8, 63)]  # as in the target
    count = 200
    for number, (size, mantissa) in enumerate(layouts):
        state, old = 7, []
        for _ in range(count * size):  # the generator of the target
            old.append(state >> 24)
            state = (state * 1664525 + 1013904223) % 2**32
        before = np.array(old, np.uint8)
        for name, stride in [("few", 40), ("many", 3), ("none", count)]:
            after = before.copy()
            after[size * stride // 2 :: size * stride] += 1
            for kind, base in [(0, before), (128, None)]:
                if base is None and name != "few":
                    continue
                code = kernels.encode_difference(base, after, size, mantissa)
                head = struct.pack("<BHI", kind + number, count, 7)
                yield f"{size}-{mantissa}-{name if kind == 0 else 'whole'}", head + code.tobytes()


def sums():
    """Three payloads, of both dtypes, with weights and without."""
    for wide, weighted in [(0, 0), (1, 1)]:
        head = struct.pack("<BHBBHBBB", wide, 4000, 0, 3, 60, weighted, 0, 1)
        yield f"wide{wide}-weighted{weighted}", head + bytes([0, 5, 5, 7]) + bytes([1, 2, 3] * 20)


def main() -> None:
    """Replaces the folder."""
    corpus = HERE / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    targets = {
        "decode_values_fuzz": values,
        "decode_difference_fuzz": differences,
        "decode_indices_fuzz": index_codes,
        "decode_payload_fuzz": payloads,
        "decode_symbols_fuzz": symbols,
        "scatter_decode_fuzz": sums,
    }
    for target, seeds in targets.items():
        (corpus / target).mkdir(parents=True)
        for name, content in seeds():
            (corpus / target / name).write_bytes(content)


if __name__ == "__main__":
    main()
