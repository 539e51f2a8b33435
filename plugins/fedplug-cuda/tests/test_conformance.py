"""The checks of the encoder suite that use the device: some run there, two compare it with NumPy arrays."""

from pathlib import Path

import fedplug_cuda
import pytest

import fedplug
from fedplug.testing import EncoderSuite

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"
HAS_GOLDEN = "topk(0.3, chunk=64, decay=0.5)"
EXPRESSIONS = (
    HAS_GOLDEN,
    "topk(0.3) | qsgd(8, block_size=16)",
    "topk(linear(0.3, 0.1, 2), scope='model')",
    "randomk(0.3)",
    "randomk(0.3, error_feedback=True) | sign",
)

pytestmark = pytest.mark.skipif(
    fedplug_cuda.problem() is not None, reason=f"no CUDA device: {fedplug_cuda.problem()}"
)


COMPARED = (
    "test_numpy_arrays_and_tensors_give_the_same_bits",
    "test_tensors_are_encoded_together_alike_on_all_arrays_and_in_graphs",
)
ON_NUMPY = [
    name
    for name in EncoderSuite.checks()
    if name not in COMPARED and not hasattr(getattr(EncoderSuite, name), "on_each")
]


def suite(expression):
    """Returns a suite for an encoder, which leaves other arrays to the core's tests."""
    options = {
        "make_encoder": lambda self: fedplug.encoder(expression),
        "executes_on": lambda self: ("numpy", "cuda"),
        "shapes": ((), (0,), (70,)),
        "dtypes": ("float32", "bfloat16"),
        "golden": GOLDEN if expression == HAS_GOLDEN else None,
        **dict.fromkeys(ON_NUMPY),
    }
    return type(f"Test {expression}", (EncoderSuite,), {**options, "__module__": __name__})


globals().update({f"Test {expression}": suite(expression) for expression in EXPRESSIONS})
