"""The encoder suite and the golden payloads, on the device and on NumPy arrays, which it compares."""

from pathlib import Path

import fedplug_cuda
import pytest

import fedplug
from fedplug.testing import EncoderSuite

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"
SUITES = {
    "topk(0.3) | qsgd(8, block_size=16)": {},
    "topk(0.3, chunk=64, decay=0.5)": {"decay": 0.5, "conservation_tolerance": 0.0, "golden": GOLDEN},
    "topk(linear(0.3, 0.1, 2), scope='model')": {"conservation_tolerance": 0.0},
    "randomk(0.3)": {},
    "randomk(0.3, error_feedback=True) | sign": {},
}

pytestmark = pytest.mark.skipif(
    fedplug_cuda.problem() is not None, reason=f"no CUDA device: {fedplug_cuda.problem()}"
)


def suite(expression, attributes):
    """Returns a suite for the encoder of an expression, which leaves TensorFlow to the core's tests."""
    options = {
        "make_encoder": lambda self: fedplug.encoder(expression),
        "executes_on": lambda self: ("numpy", "cuda"),
        "shapes": ((), (0,), (70,)),
        "dtypes": ("float32", "bfloat16"),
        "check_tff": False,
        **attributes,
    }
    return type(f"Test {expression}", (EncoderSuite,), {**options, "__module__": __name__})


globals().update({f"Test {text}": suite(text, attributes) for text, attributes in SUITES.items()})
