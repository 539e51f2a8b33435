"""Tests `encode` and `decode`: any encoder, float and shape; decoding needs no configuration."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fedplug
from fedplug import wire
from fedplug.encoders import Encoder
from fedplug.errors import ArgumentError, CapabilityError
from fedplug.ops.types import ArraySpec
from fedplug.registry.resolve import catalog
from fedplug.registry.specs import EncoderSpec

DTYPES = [np.dtype(name) for name in ("float32", "float64", "float16", ml_dtypes.bfloat16)]
SHAPES = [(), (0,), (3, 0, 2), (1,), (7,), (12, 25), (3, 1, 5)]

OTHER_THAN_BY_DEFAULT = [
    "qsgd(3, block_size=64, seed=7)",
    "qsgd(step([8, 2, 5], [1, 2]))",
    "qsgd(6, block_size=1048576) | rans",
    "qsgd(8, block_size=8, rounding='nearest')",
    "qsgd(5, block_size=16, rounding='nearest') | rans",
    "mixed_qsgd(2.7, block_size=32, seed=3)",
    "sign | rans",
    "sign(error_feedback=False)",
    "topk(0.3) | sign",
    "topk(0.2) | qsgd(2, block_size=4) | rans | gaps",
    "topk(0.2) | qsgd(2, seed=5) | gaps",
    "topk(0.2) | float16 | rice",
    "topk(1.0)",
    "topk(linear(0.5, 0.1, 2)) | bfloat16",
    "randomk(0.4, seed=11, error_feedback=True) | qsgd(8, block_size=2, rounding='nearest')",
    "randomk(0.4, seed=11) | qsgd(4)",
    "stc(0.1)",
]


def built_in():
    """All built-in encoders alone, and the examples in their specs."""
    for entry in catalog().entries:
        if isinstance(entry.spec, EncoderSpec) and entry.distribution == "fedplug":
            yield from entry.spec.examples or (entry.spec.name,)


def expressions():
    codecs = {text: fedplug.encoder(text) for text in [*built_in(), *OTHER_THAN_BY_DEFAULT]}
    return [text for text, encoder in codecs.items() if isinstance(encoder, Encoder)]


EXPRESSIONS = expressions()


def assert_same(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()


def update(dtype, shape, seed=0):
    """Normally distributed numbers with ties, zeros of both signs and a few large entries."""
    random = np.random.default_rng(seed)
    x = np.asarray(random.standard_normal(shape))
    x = np.where(random.random(shape) < 0.2, np.sign(x) * 0.0, x)
    x = np.where(random.random(shape) < 0.1, np.round(x) * 8, x)
    return x.astype(dtype)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_codec_does_in_few_kernels_what_its_encoder_does_stage_by_stage(expression):
    codec, encoder = fedplug.codec(expression), fedplug.encoder(expression)
    for number, dtype in enumerate(DTYPES):
        for shape in SHAPES:
            spec = ArraySpec(shape, dtype)
            state, alone = None, encoder.init_state(spec)
            for round_num in range(3):
                x = update(dtype, shape, number + round_num)
                payload, state = codec.encode(x, state, round_num)
                encoded, alone = encoder.encode(x, alone, round_num)
                body = encoder.to_wire(encoded, spec)
                assert payload == wire.frame(body, encoder.wire_id, dtype.name, shape)
                for key, array in alone.items():
                    assert_same(state[key], array)
                assert_same(fedplug.decode(payload), encoder.decode(encoder.from_wire(body, spec), spec))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_results_that_are_written_over_given_arrays_have_the_same_bits(expression):
    codec = fedplug.codec(expression)
    for dtype in (DTYPES[0], DTYPES[3]):
        for shape in ((), (0,), (12, 25)):
            fresh = over = spare = None
            for round_num in range(3):
                x = update(dtype, shape, round_num)
                payload, fresh = codec.encode(x, fresh, round_num)
                same_payload, over = codec.encode(x, over, round_num, in_place=True)
                assert same_payload == payload
                assert over.keys() == fresh.keys()
                for key in fresh:
                    assert_same(over[key], fresh[key])
                place = np.full(shape, 3, dtype)
                assert fedplug.decode(payload, out=place) is place
                assert_same(place, fedplug.decode(payload))
                before, spare = spare, {key: np.copy(array) for key, array in fresh.items()}
                again, written = codec.encode(x, fresh, round_num + 1)
                in_spare, taken = codec.encode(x, fresh, round_num + 1, out=before)
                assert in_spare == again
                for key in written:
                    assert_same(taken[key], written[key])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"])
def test_arrays_of_other_types_are_sent_uncompressed(dtype):
    x = np.arange(24).reshape(2, 12).astype(dtype)
    payload, state = fedplug.codec("topk(0.1) | qsgd(4)").encode(x)
    assert state == {}
    assert wire.unframe(payload).wire_id == "identity/1"
    assert_same(fedplug.decode(payload), x)
    assert_same(fedplug.decode(payload, out=np.ones_like(x)), x)


def test_a_decoded_array_belongs_to_the_caller():
    for expression in ("identity", "topk(1.0)", "qsgd(8)", "float16"):
        buffer = bytearray(fedplug.codec(expression).encode(np.ones(9, np.float32))[0])
        decoded = fedplug.decode(buffer)
        assert decoded.flags.writeable
        before = decoded.copy()
        buffer[-9:] = bytes(9)
        assert_same(decoded, before)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_any_buffer_is_read(kind):
    payload, _ = fedplug.codec("topk(0.5)").encode(np.arange(5.0))
    assert fedplug.decode(kind(payload)).tolist() == [0, 0, 2, 3, 4]


def test_the_round_decides_seeds_and_schedules():
    x = update(np.float32, (500,))
    codec = fedplug.codec("qsgd(3)")
    assert codec.encode(x, round_num=1) == codec.encode(x, round_num=1)
    assert codec.encode(x, round_num=1)[0] != codec.encode(x, round_num=2)[0]
    fading = fedplug.codec("topk(linear(0.5, 0.1, 2), error_feedback=False)")
    sent = [np.count_nonzero(fedplug.decode(fading.encode(x + 9, None, number)[0])) for number in range(4)]
    assert sent == [250, 150, 50, 50]
    assert codec.encode(x, round_num=np.int64(7))[0] == codec.encode(x, round_num=7)[0]


@pytest.mark.parametrize("round_num", [-1, 2**31, 1.5, "3", None, float("nan")])
def test_a_round_is_a_whole_number(round_num):
    with pytest.raises(ArgumentError, match=r"round_num is .*; it must be a whole number"):
        fedplug.codec("topk(0.5)").encode(np.ones(3), None, round_num)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros(4, np.float32), r"out is float32\[4\]; the result is float32\[2, 2\]"),
        (np.zeros((2, 2)), r"out is float64\[2, 2\]; the result is float32\[2, 2\]"),
        (np.zeros((2, 2), ">f4"), r"out is >f4\[2, 2\]; the result is float32\[2, 2\]"),
        (np.zeros((4, 2), np.float32)[::2], "out is not C-contiguous"),
        (np.frombuffer(bytes(16), np.float32).reshape(2, 2), "out is not C-contiguous, aligned and writable"),
        ([[0, 0], [0, 0]], "out is list; the result is"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(out, message):
    payload, _ = fedplug.codec("sign").encode(np.ones((2, 2), np.float32))
    with pytest.raises(ArgumentError, match=message):
        fedplug.decode(payload, out=out)


def test_a_list_is_no_place_for_the_arrays_of_a_model():
    arrays = {"a": np.ones(3, np.float32)}
    payloads, _ = fedplug.codec("identity").encode_model(arrays)
    total = fedplug.ModelSum.like(arrays)
    total.add(payloads)
    with pytest.raises(ArgumentError, match="out is a mapping of arrays by name, not a list"):
        fedplug.decode_model(payloads, out=[arrays["a"]])
    with pytest.raises(ArgumentError, match="out is a mapping of arrays by name, not a list"):
        total.mean(out=[arrays["a"]])


def test_a_codec_of_rules_is_for_models():
    with pytest.raises(ArgumentError, match=r"for the arrays of a model; call encode_model"):
        fedplug.codec("rules({'*': 'topk(0.3)'})").encode(np.ones(3))


def test_encoders_for_tensorflow_only_are_refused():
    class Elsewhere(type(fedplug.encoder("identity"))):
        @property
        def capabilities(self):
            return fedplug.encoder("topk(0.1)").capabilities.__class__()

    with pytest.raises(CapabilityError, match="executes in TensorFlow only"):
        fedplug.codec(Elsewhere())
