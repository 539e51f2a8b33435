"""Runs the encoder suite on every built-in encoder."""

from __future__ import annotations

from pathlib import Path

import fedplug
from fedplug.testing import EncoderSuite

GOLDEN = Path(__file__).parents[1] / "golden"


class WholeSuite(EncoderSuite):
    """Tests the encoder of an expression with all shapes and dtypes, and in a TFF process."""

    golden = GOLDEN
    expression = ""

    def make_encoder(self):
        return fedplug.encoder(self.expression)


class TestIdentity(WholeSuite):
    expression = "identity"


class TestTopK(WholeSuite):
    conservation_tolerance = 0.0
    expression = "topk(0.3)"


class TestMixedQSGD(WholeSuite):
    shapes = ((0,), (600,))
    dtypes = ("float32",)
    expression = "mixed_qsgd(3.3, block_size=16)"  # a tensor has two parts


class FamilySuite(WholeSuite):
    """Tests fewer tensors, and does not start TFF."""

    shapes = ((600,),)
    dtypes = ("float32", "bfloat16")
    check_tff = False


class TestTopKByCount(FamilySuite):
    shapes = ((7,),)
    conservation_tolerance = 0.0
    expression = "topk(count=5)"


class TestTopKWithoutErrorFeedback(FamilySuite):
    shapes = ((7,),)
    expression = "topk(0.3, error_feedback=False)"


class TestRaw(FamilySuite):
    conservation_tolerance = 0.0
    expression = "raw"


class TestQSGD(FamilySuite):
    shapes = ((), (0,), (1,), (3, 5), (600,))
    dtypes = EncoderSuite.dtypes
    expression = "qsgd(4, block_size=16)"
    check_tff = True


class TestScheduledQSGD(FamilySuite):
    shapes = ((70,),)
    dtypes = ("float32",)
    expression = "qsgd(step([4, 2], [1]), block_size=16)"


class TestBlockwise8(FamilySuite):
    expression = "blockwise8(block_size=16)"


class TestBlockFloatingPoint(FamilySuite):
    shapes = ((), (0,), (1,), (3, 5), (600,))
    dtypes = EncoderSuite.dtypes
    expression = "bfp(5, block_size=16)"
    check_tff = True


class TestBlockFloatingPointRans(FamilySuite):
    expression = "bfp(4) | rans"


class TestEden(FamilySuite):
    shapes = ((0,), (600,))
    expression = "eden(3)"
    check_tff = True


class TestPowerSGD(FamilySuite):
    shapes = ((), (0,), (7,), (3, 5), (2, 0, 3), (4, 5, 7), (61, 67))
    dtypes = EncoderSuite.dtypes
    expression = "powersgd(1, min_ratio=1)"
    check_tff = True


class TestTernGrad(FamilySuite):
    expression = "terngrad"


class TestSign(FamilySuite):
    expression = "sign"


class TestQSGDRans(FamilySuite):
    expression = "qsgd(2, block_size=1024) | rans"
    check_tff = True


class TestBFloat16(FamilySuite):
    expression = "bfloat16"


class TestCodebook(FamilySuite):
    expression = "codebook(3)"


class TestBounded(FamilySuite):
    shapes = ((), (0,), (1,), (3, 5), (600,))
    dtypes = EncoderSuite.dtypes
    expression = "bounded(0.01)"


class TestQSGDAdaptive(FamilySuite):
    expression = "qsgd(4, block_size=1024) | adaptive"
    check_tff = True


class TestBoundedRans(FamilySuite):
    expression = "bounded(0.001, error_feedback=True) | rans"
    check_tff = True


class TestSparseLoCo(FamilySuite):
    expression = "topk(count=3, chunk=8, decay=0.95) | codebook(2) | rans"
    decay = 0.95
    check_tff = True


class TestChunkedTopK(FamilySuite):
    conservation_tolerance = 0.0
    expression = "topk(0.3, chunk=8)"


class TestDecayingTopK(FamilySuite):
    conservation_tolerance = 0.0
    decay = 0.5
    expression = "topk(0.3, decay=0.5)"


class TestRandomK(FamilySuite):
    expression = "randomk(0.3)"


class TestThreshold(FamilySuite):
    conservation_tolerance = 0.0
    expression = "threshold(0.5)"


class TestDGC(FamilySuite):
    golden = None  # its layout is that of threshold, which has golden payloads
    expression = "dgc(0.3, warmup_rounds=2)"


class TestSTC(FamilySuite):
    expression = "stc(0.3)"


class PipelineSuite(FamilySuite):
    """Tests fewer tensors, because the suites above test the stages on the others."""

    shapes = ((70,),)
    dtypes = ("float32",)


class TestTopKGaps(PipelineSuite):
    conservation_tolerance = 0.0
    expression = "topk(0.3) | gaps"


class TestTopKQSGDRice(PipelineSuite):
    expression = "topk(0.3) | qsgd(8, block_size=16) | rice"
    check_tff = True


class TestTopKTernGradAdaptive(PipelineSuite):
    expression = "topk(0.3) | terngrad | adaptive"


class TestTopKTernGradRansRice(PipelineSuite):
    expression = "topk(0.3) | terngrad | rans | rice"


class TestScheduledTopKOfModel(PipelineSuite):
    conservation_tolerance = 0.0
    expression = "topk(linear(0.3, 0.1, 2), scope='model')"
    check_tff = True


class TestTopKShortest(PipelineSuite):
    conservation_tolerance = 0.0
    expression = "topk(0.3) | shortest"


class TestThresholdTernGradBitmap(PipelineSuite):
    expression = "threshold(0.5) | terngrad | bitmap"


class TestChunkedTopKCodebookOffsets(PipelineSuite):
    expression = "topk(count=3, chunk=8) | codebook(2) | offsets(8)"


class TestRandomKFloat16Bitpack(PipelineSuite):
    expression = "randomk(0.3) | float16 | bitpack"


class TestRandomKQSGD(PipelineSuite):
    expression = "randomk(0.3) | qsgd(3)"


class TestRandomKWithErrorFeedbackSign(PipelineSuite):
    expression = "randomk(0.3, error_feedback=True) | sign"


class AroundSuite(FamilySuite):
    """Tests encoders that wrap other encoders; the inner encoder has the golden payloads."""

    golden = None
    shapes = ((), (0,), (70,))
    dtypes = ("float32",)


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
