"""Runs the encoder suite on every built-in encoder."""

from __future__ import annotations

import re
from pathlib import Path

import fedplug
from fedplug.registry.resolve import catalog
from fedplug.testing import EncoderSuite

GOLDEN = Path(__file__).parents[1] / "golden"
SIZES = ((), (0,), (1,), (3, 5), (600,))

WHOLE = {"golden": GOLDEN}
FAMILY = {"golden": GOLDEN, "shapes": ((600,),), "dtypes": ("float32", "bfloat16"), "check_tff": False}
EVERY_DTYPE = {**FAMILY, "shapes": SIZES, "dtypes": EncoderSuite.dtypes}
# The suites of the stages test other shapes and dtypes.
PIPELINE = {**FAMILY, "shapes": ((70,),), "dtypes": ("float32",)}
# The inner encoder has the golden payloads.
AROUND = {"shapes": ((), (0,), (70,)), "dtypes": ("float32",), "check_tff": False}

EXACT = {"conservation_tolerance": 0.0}
IN_TFF = {"check_tff": True}

# The costly checks of all others are slow, see conftest.py.
ONE_OF_EACH_KIND = (
    "topk(0.3)",
    "qsgd(4, block_size=16)",
    "topk(0.3) | qsgd(8, block_size=16) | rice",
    "ef21('topk(0.3)')",
)

SUITES = {
    "identity": WHOLE,
    "topk(0.3)": {**WHOLE, **EXACT},
    # A tensor has two parts.
    "mixed_qsgd(3.3, block_size=16)": {**WHOLE, "shapes": ((0,), (600,)), "dtypes": ("float32",)},
    "topk(count=5)": {**FAMILY, **EXACT, "shapes": ((7,),)},
    "topk(0.3, error_feedback=False)": {**FAMILY, "shapes": ((7,),)},
    "qsgd(4, block_size=16)": {**EVERY_DTYPE, **IN_TFF},
    "qsgd(step([4, 2], [1]), block_size=16)": PIPELINE,
    "qsgd(5, block_size=16, rounding='nearest')": FAMILY,
    "bfp(5, block_size=16)": {**EVERY_DTYPE, **IN_TFF},
    "bfp(4) | rans": FAMILY,
    "sharedk(0.3, clients=4)": {
        **FAMILY,
        **IN_TFF,
        "shapes": ((), (0,), (7,), (3, 5), (600,)),
        "dtypes": ("float32",),
    },
    "planes": FAMILY,
    "sign": FAMILY,
    "qsgd(2, block_size=1024) | rans": {**FAMILY, **IN_TFF},
    "bfloat16": FAMILY,
    "codebook(3)": FAMILY,
    "bounded(0.01)": EVERY_DTYPE,
    "bounded(0.01, error_feedback=True) | rans": {**FAMILY, **IN_TFF, "golden": None},
    "bounded(0.001, error_feedback=True) | rans": FAMILY,
    "topk(count=3, chunk=8, decay=0.95) | codebook(2) | rans": {**FAMILY, "decay": 0.95},
    "topk(0.3, chunk=8)": {**FAMILY, **EXACT},
    "topk(0.3, decay=0.5)": {**FAMILY, **EXACT, "decay": 0.5},
    "randomk(0.3)": FAMILY,
    "stc(0.3)": FAMILY,
    "topk(0.3) | gaps": {**PIPELINE, **EXACT},
    "topk(0.3) | qsgd(8, block_size=16) | rice": {**PIPELINE, **IN_TFF},
    "topk(linear(0.3, 0.1, 2), scope='model')": {**PIPELINE, **EXACT, **IN_TFF},
    "topk(count=3, chunk=8) | codebook(2) | offsets(8)": PIPELINE,
    "randomk(0.3) | float16 | rice": PIPELINE,
    "randomk(0.3) | qsgd(3)": PIPELINE,
    "randomk(0.3, error_feedback=True) | sign": PIPELINE,
    "ef21('topk(0.3)')": {**AROUND, **IN_TFF, "dtypes": EncoderSuite.dtypes},
    "ef21(\"topk(0.3, scope='model') | qsgd(8, block_size=16) | rans\")": AROUND,
    "ef21('sign')": AROUND,
    "ef21('identity')": AROUND,
}


def suite(expression, attributes):
    """Returns a suite for the encoder of an expression, named after it."""
    options = {
        "make_encoder": lambda self: fedplug.encoder(expression),
        "costly_checks_are_slow": expression not in ONE_OF_EACH_KIND,
    }
    return type(f"Test {expression}", (EncoderSuite,), {**options, **attributes, "__module__": __name__})


globals().update({f"Test {text}": suite(text, attributes) for text, attributes in SUITES.items()})


def test_every_built_in_encoder_has_a_suite():
    # seeded is the coder of randomk's indices. The others assign encoders to the tensors of a model.
    elsewhere = {"seeded", "pipeline", "auto", "rules", "budget"}
    names = {e.name for e in catalog().entries if e.builtin and e.kind == "encoder"} - elsewhere
    assert names <= {word for text in SUITES for word in re.findall(r"[a-z_0-9]+", text)}
