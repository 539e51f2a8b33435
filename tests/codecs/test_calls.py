"""Encoding takes few Python calls: the arguments were checked and the stages arranged when the model was new.

Every array and every group of arrays costs calls, so the limits are of one array, and of each further one.
"""

import sys

import numpy as np
import pytest

import fedplug


def calls_of(codec, model):
    """Counts the Python functions that run while a known model is encoded, with its state."""
    _, state = codec.encode_model(model)
    _, state = codec.encode_model(model, state, 1)
    count = 0

    def tell(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(tell)
    try:
        codec.encode_model(model, state, 2)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("encoder", "of_one", "of_each"),
    [
        ("topk(0.01) | qsgd(8)", 30, 6),
        ("topk(0.01)", 25, 6),
        ("topk(0.01, scope='model') | qsgd(8)", 30, 6),
        ("qsgd(8)", 20, 2),
        ("auto", 30, 6),
        ("bfp(5) | rans", 25, 2),
    ],
)
def test_encoding_a_known_model_takes_few_python_calls(encoder, of_one, of_each):
    codec = fedplug.codec(encoder)
    draw = np.random.default_rng(0).normal
    arrays = {f"layer{i}": draw(size=(40, 40)).astype(np.float32) for i in range(5)}
    one = calls_of(codec, {"layer0": arrays["layer0"]})
    assert one <= of_one
    assert calls_of(codec, arrays) <= one + 4 * of_each
