"""Runs the encoder suite on the built-in encoders."""

from __future__ import annotations

from pathlib import Path

from fedplug.encoders import Identity, Pipeline, TopK
from fedplug.testing import EncoderSuite

GOLDEN = Path(__file__).parents[1] / "golden"


class TestIdentity(EncoderSuite):
    golden = GOLDEN

    def make_encoder(self):
        return Identity()


class TestTopK(EncoderSuite):
    golden = GOLDEN
    conservation_tolerance = 0.0

    def make_encoder(self):
        return Pipeline([TopK(0.3)])


class TestTopKByCount(EncoderSuite):
    shapes = ((7,),)
    dtypes = ("float32",)
    check_tff = False
    conservation_tolerance = 0.0

    def make_encoder(self):
        return Pipeline([TopK(count=5)])


class TestTopKWithoutErrorFeedback(EncoderSuite):
    shapes = ((7,),)
    dtypes = ("float32",)
    check_tff = False

    def make_encoder(self):
        return Pipeline([TopK(0.3, error_feedback=False)])
