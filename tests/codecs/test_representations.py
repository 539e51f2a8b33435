"""Tests that what users print says in a line what it is, and that what they mix up is explained."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.errors import ArgumentError, CapabilityWarning, ConfigError

MODEL = {"kernel": np.ones((100, 10), np.float32), "bias": np.ones(10, np.float32)}


def test_components_are_written_as_expressions():
    for text in (
        "budget(encoder='topk(fraction=0.1, error_feedback=True) | rice', bytes_per_client=2000)",
        "rules([{'encoder': 'identity', 'match': '*/bias'}, {'encoder': 'float16', 'match': '*'}])",
        "topk(fraction=0.1, error_feedback=True) | qsgd(bits=8, block_size=512, seed=0)",
    ):
        assert repr(fedplug.encoder(text)) == text


def test_objects_say_what_they_hold(tmp_path):
    payloads, _ = fedplug.codec("sign").encode_model(MODEL)
    total = fedplug.ModelSum.like(MODEL)
    total.add(payloads, weight=2)
    assert repr(total) == "ModelSum(2 arrays, weight=2)"
    assert repr(fedplug.Sum((3, 5))) == "Sum(float32[3, 5], weight=0)"
    server, receiver = fedplug.Broadcaster("bfp(5)"), fedplug.Receiver()
    assert repr(server) == "Broadcaster('bfp(bits=5, block_size=512)', version=None)"
    receiver.apply(server.message(None)) if server.publish(MODEL) else None
    assert repr(receiver) == f"Receiver(version={server.version!r})"
    metrics = fedplug.TensorMetrics()
    fedplug.codec("sign").encode_model(MODEL, metrics=metrics)
    assert repr(metrics) == "TensorMetrics(2 arrays)"
    with fedplug.open_store(f"sqlite:///{tmp_path}/state") as store:
        assert repr(store) == f"<sqlite store at {tmp_path}/state>"
    with fedplug.open_store("memory://") as store:
        client = fedplug.ClientCodec(fedplug.codec("float16"), store, "c1")
        assert (repr(store), repr(client)) == ("<memory store>", "ClientCodec('float16', 'client c1')")


@pytest.mark.parametrize(
    ("payload", "advice"),
    [
        (MODEL, "not a dict; `fedplug.decode_model` takes payloads by name"),
        ((b"", {}), "not a tuple; give the first of the pair that `Codec.encode` returns"),
        (3, "not a int$"),
    ],
)
def test_decode_says_which_function_takes_what_it_was_given(payload, advice):
    with pytest.raises(ArgumentError, match=f"a payload is bytes or a buffer, {advice}"):
        fedplug.decode(payload)


@pytest.mark.parametrize("name", ["topk", "randomk"])
def test_the_whole_number_one_warns_and_the_fraction_does_not(name, recwarn):
    fedplug.encoder(f"{name}(linear(0.1, 1.0, 5))")
    fedplug.encoder(f"{name}(1.0)")
    assert not recwarn
    with pytest.warns(CapabilityWarning, match=rf"{name}\(1\) sends every .* {name}\(count=1\) one"):
        fedplug.encoder(f"{name}(1)")


def test_the_default_encoder_warns_of_nothing(recwarn):
    fedplug.codec("auto").encode_model({"kernel": np.ones((30, 40), np.float32)})
    assert not recwarn


@pytest.mark.parametrize("name", ["topk", "randomk"])
def test_a_whole_number_is_no_fraction(name):
    with pytest.raises(
        ConfigError, match=rf"{name}\(0\.5\) is 50 % of .* and {name}\(count=50\) is a number"
    ):
        fedplug.encoder(f"{name}(50)")
    with pytest.raises(ConfigError, match=rf"at most 1: {name}\(count=250\) is a number of entries"):
        fedplug.encoder(f"{name}(250)")
