"""Measures bytes, error and speed of encoders on two updates, for the table of docs/which-encoder.md.

    python -m benchmarks.which_encoder        # writes benchmarks/results/which_encoder.md, in a minute

Bytes and error are of a real update: the change of a network in one pass over scikit-learn's handwritten
digits. Speed is of a million random numbers, because the update is too small to time. The encoders are those
of ``fedplug bench`` and a few more; nothing is tuned to either update. It needs no TensorFlow.
"""

from __future__ import annotations

import datetime
import itertools
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from benchmarks.tables import code, table
from fedplug.diagnostics.bench import measure
from fedplug.diagnostics.environment import environment
from fedplug.diagnostics.updates import Update, random_update

RESULTS = Path(__file__).parent / "results" / "which_encoder.md"
ROUNDS = 20
TIMED = 1_000_000
HIDDEN = 512
ENCODERS = (
    "identity",
    "bfloat16",
    "qsgd(8, block_size=256, rounding='nearest')",
    "qsgd(8)",
    "qsgd(4) | rans",
    "bounded(0.02) | rans",
    "codebook(2) | rans",
    "sign",
    "topk(0.1, scope='model') | qsgd(8)",
    "topk(0.01, scope='model')",
    "topk(0.01, scope='model') | qsgd(8)",
    "topk(0.01, scope='model') | qsgd(4) | rans",
    "topk(0.01)",
    "stc(0.01)",
    "randomk(0.01)",
)

_MADE = """# Which encoder?

Made by `python -m benchmarks.which_encoder` on {date}: {processor}, {cores} cores, {simd},
{threads} kernel threads, load {load:.1f} when it began.

Bytes and NMSE are of what one pass over scikit-learn's digits changes in a network of {elements:,} float32
(64-{hidden}-10, Adam): bytes per element with all headers, and the squared error relative to the update.
"After {rounds} rounds": the same update {rounds} times, error and update both summed, so that it shows what
error feedback makes good. GB/s are of {timed:,} normally distributed float32, bytes of the dense array
over the median time from array to payload, and back.

"""


def digits_update() -> Update:
    """The change of the network in the second pass over the data."""
    images, labels = load_digits(return_X_y=True)
    network = MLPClassifier((HIDDEN,), random_state=0)
    before, after = (
        [x.copy() for x in (*network.coefs_, *network.intercepts_)]
        for network in (network.partial_fit(images / 16, labels, classes=range(10)) for _ in range(2))
    )
    names = ("hidden/kernel", "classes/kernel", "hidden/bias", "classes/bias")
    arrays = {
        name: (new - old).astype(np.float32) for name, old, new in zip(names, before, after, strict=True)
    }
    return Update("one pass over the digits", arrays)


def row(expression: str, digits: Update, numbers: Update) -> list[str]:
    first, later = (measure(expression, digits, rounds=rounds) for rounds in (1, ROUNDS))
    timed = measure(expression, numbers)
    return [
        code(expression),
        f"{first.bytes_per_element:.4f}",
        f"{4 / first.bytes_per_element:.0f}x",
        f"{first.nmse:.2g}",
        f"{later.nmse:.2g}",
        f"{timed.encode_gb_per_second:.2f}",
        f"{timed.decode_gb_per_second:.2f}",
    ]


def main() -> None:
    load, here, digits = os.getloadavg()[0], environment(), digits_update()
    head = ["encoder", "bytes/element", "fewer bytes", "NMSE", f"NMSE after {ROUNDS} rounds"]
    numbers = random_update(TIMED)
    rows = (row(expression, digits, numbers) for expression in ENCODERS)
    made = _MADE.format(
        date=datetime.date.today(),
        processor=here["processor"],
        cores=os.cpu_count(),
        simd=here["simd"],
        threads=here["kernel_threads"],
        load=load,
        elements=digits.elements,
        hidden=HIDDEN,
        rounds=ROUNDS,
        timed=TIMED,
    )
    text = made + table(itertools.chain([[*head, "encode GB/s", "decode GB/s"]], rows))
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
