"""Encoders around encoders keep the promises of `fedplug.encoders.base`, on what they are around."""

from __future__ import annotations

from typing import ClassVar

import fedplug
from fedplug.testing import EncoderSuite


class AroundSuite(EncoderSuite):
    """For what an expression describes; the payloads are those of the inner encoder, which are golden."""

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


class TestArtemis(AroundSuite):
    expression = "artemis('qsgd(4, block_size=16)', rate=0.25)"
    check_tff = True


class TestArtemisOfARandomSubset(AroundSuite):
    expression = "artemis('randomk(0.5)', rate=0.25)"


class TestStale(AroundSuite):
    expression = "stale('topk(0.3)', decay=0.5, drop_after=4)"
    conservation_tolerance = 0.0
    after_missing: ClassVar[dict[int, float]] = {1: 0.5, 4: 0.0625, 5: 0.0, 9: 0.0}
    check_tff = True


class TestStaleDGC(AroundSuite):
    expression = "stale('dgc(0.3)', decay=0.9)"


class TestStaleOfAModel(AroundSuite):
    expression = "stale(\"topk(0.3, scope='model') | qsgd(8, block_size=16)\", drop_after=0)"
    after_missing: ClassVar[dict[int, float]] = {1: 0.0}


class TestStaleSigns(AroundSuite):
    expression = "stale('sign', decay=0.5)"
    after_missing: ClassVar[dict[int, float]] = {1: 0.5, 3: 0.125}
