"""Runs the encoder suite on encoders that wrap other encoders."""

from __future__ import annotations

import fedplug
from fedplug.testing import EncoderSuite


class AroundSuite(EncoderSuite):
    """A suite for the encoder of an expression. The inner encoder has the golden payloads."""

    shapes = ((), (0,), (70,))
    dtypes = ("float32",)
    check_tff = False
    expression = ""

    def make_encoder(self):
        return fedplug.encoder(self.expression)


class TestEF21(AroundSuite):
    expression = "ef21('topk(0.3)')"
    dtypes = EncoderSuite.dtypes
    check_tff = True


class TestEF21OfAModel(AroundSuite):
    expression = "ef21(\"topk(0.3, scope='model') | qsgd(8, block_size=16) | rans\")"


class TestEF21OfSigns(AroundSuite):
    expression = "ef21('sign')"


class TestEF21OfEverything(AroundSuite):
    expression = "ef21('identity')"


class TestEF21WithMomentum(AroundSuite):
    expression = "ef21('topk(0.3)', momentum=0.9)"
    check_tff = True
