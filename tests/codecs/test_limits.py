"""Tests the wire ids and memory limits of receivers, and that decoding threads do not hold the lock."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

import fedplug
from fedplug import wire
from fedplug.codecs import BUILT_IN
from fedplug.errors import ArgumentError, PayloadError

SIZE = 2**18
SLACK = 2**16  # memory of Python itself


def peak_of(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_model_sum_takes_no_more_than_a_second_model_of_sparse_payloads_that_are_full():
    names = [f"array {number}" for number in range(8)]
    payload, _ = fedplug.codec("randomk(1.0) | sign | rans | seeded").encode(np.ones(SIZE, np.float32))
    total = fedplug.ModelSum(dict.fromkeys(names, SIZE))
    assert len(payload) < 300
    of_one = 4 * SIZE
    assert peak_of(lambda: total.add(dict.fromkeys(names, payload))) <= (len(names) + 3) * of_one + SLACK
    assert (total.value()[names[0]] == 1).all()


def test_a_full_sparse_payload_adds_the_same_bits_as_its_entries():
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    x[::7] = -0.0
    payload, _ = fedplug.codec("randomk(0.9)").encode(x)
    total = fedplug.Sum(1000)
    total.add(payload, 0.3)
    decoded = fedplug.decode(payload)
    expected = np.zeros(1000, np.float32)
    expected[decoded != 0] += (np.float32(0.3) * decoded)[decoded != 0]
    assert total.value().tobytes() == expected.tobytes()


def receivers(wire_ids):
    """All ways to receive a payload of 100 elements with these expected wire ids."""
    return {
        "decode": lambda payload: fedplug.decode(payload, wire_ids=wire_ids),
        "decode with out": lambda payload: fedplug.decode(payload, out=np.empty(100), wire_ids=wire_ids),
        "decode_model": lambda payload: fedplug.decode_model({"w": payload}, wire_ids=wire_ids),
        "decode_model by name": lambda payload: fedplug.decode_model(
            {"w": payload}, wire_ids={"w": wire_ids}
        ),
        "Sum": lambda payload: fedplug.Sum(100, "float64", wire_ids=wire_ids).add(payload),
        "ModelSum": lambda payload: fedplug.ModelSum({"w": 100}, "float64", wire_ids=wire_ids).add(
            {"w": payload}
        ),
        "ModelSum by name": lambda payload: fedplug.ModelSum(
            {"w": 100}, "float64", wire_ids={"w": wire_ids}
        ).add({"w": payload}),
        "ModelSum.like": lambda payload: fedplug.ModelSum.like({"w": np.zeros(100)}, wire_ids=wire_ids).check(
            {"w": payload}
        ),
    }


@pytest.mark.parametrize("receiver", receivers(None))
def test_a_receiver_takes_the_wire_ids_that_it_expects_and_no_other(receiver):
    expected, other = (fedplug.codec(name).encode(np.ones(100))[0] for name in ("topk(0.1)", "qsgd(4)"))
    receive = receivers({"sparse/1", "identity/1"})[receiver]
    receive(expected)
    with pytest.raises(PayloadError, match="the wire id 'qsgd/1'; expected identity/1, sparse/1"):
        receive(other)
    receivers(None)[receiver](other)


def test_a_payload_that_is_not_expected_is_refused_before_its_body_is_read():
    with pytest.raises(PayloadError, match="the wire id 'topk/9'; expected sparse/1"):
        fedplug.decode(wire.frame(b"nonsense", "topk/9", "float32", (2**31,)), wire_ids={"sparse/1"})


@pytest.mark.parametrize(
    ("wire_id", "own"),
    [
        ("sparse/1", True),
        ("sparse/1+qsgd/1+rans/1", True),
        ("identity/1", True),
        ("countsketch/1", False),
        ("", False),
        ("topk/1", False),
    ],
)
def test_the_wire_ids_of_fedplugs_own_encoders(wire_id, own):
    assert (wire_id in BUILT_IN) is own


def test_an_encoder_of_a_plugin_is_not_built_in():
    pytest.importorskip("fedplug_sketch")
    payload, _ = fedplug.codec("countsketch(0.1)").encode(np.ones(100, np.float32))
    with pytest.raises(
        PayloadError, match="'countsketch/1'; expected the wire ids of fedplug's own encoders"
    ):
        fedplug.decode(payload, wire_ids=BUILT_IN)


def test_a_codec_estimates_each_array():
    model = {
        "kernel": np.zeros((100, 10), np.float32),
        "bias": np.zeros(10, np.float32),
        "steps": np.zeros(100, np.int64),
        "bn.running_mean": np.zeros(100, np.float32),
    }
    codec = fedplug.codec({"bias*": "sign", "*": "topk(0.1) | qsgd(4)"})
    expected = codec.wire_ids(model)
    exactly = frozenset({"identity/1"})
    assert expected == {
        "kernel": {"sparse/1+qsgd/1", "identity/1"},
        "bias": exactly,
        "steps": exactly,
        "bn.running_mean": exactly,
    }
    payloads, _ = codec.encode_model(model)
    total = fedplug.ModelSum.like(model, wire_ids=expected)
    total.add(payloads)
    total.add(fedplug.codec("identity").encode_model(model)[0])
    other, _ = fedplug.codec("qsgd(4)").encode_model(model)
    with pytest.raises(
        PayloadError, match=r"tensor 'kernel': .* wire id 'qsgd/1'; expected identity/1, sparse/"
    ):
        total.add(other)


def test_wrong_expectations_are_refused():
    payload, _ = fedplug.codec("identity").encode(np.ones(3))
    with pytest.raises(ArgumentError, match="wire_ids is 'identity/1'; give a set"):
        fedplug.decode(payload, wire_ids="identity/1")
    with pytest.raises(ArgumentError, match=r"tensor 'w': wire_ids does not name it; it names \['v'\]"):
        fedplug.ModelSum({"w": 3}, wire_ids={"v": {"identity/1"}})
    with pytest.raises(PayloadError, match=r"payloads of \['u'\], which wire_ids does not name"):
        fedplug.decode_model({"u": payload}, wire_ids={"w": {"identity/1"}})


@pytest.mark.parametrize("model", [False, True], ids=["Sum", "ModelSum"])
def test_a_payload_that_takes_long_does_not_keep_others_waiting(model, monkeypatch):
    """The first thread stays in the decoder until the other has added its payload."""
    from fedplug.codecs import accumulator

    total = fedplug.ModelSum({"w": 100}) if model else fedplug.Sum(100)
    payload, _ = fedplug.codec("qsgd(4)").encode(np.ones(100, np.float32))
    update = {"w": payload} if model else payload
    inside, leave, read = threading.Event(), threading.Event(), accumulator.read

    def slow(*payload, **options):
        received = read(*payload, **options)
        if not inside.is_set():
            inside.set()
            assert leave.wait(30)
        return received

    monkeypatch.setattr(accumulator, "read", slow)
    first = threading.Thread(target=total.add, args=(update,))
    first.start()
    assert inside.wait(30)
    other = threading.Thread(target=total.add, args=(update, 2.0))
    other.start()
    other.join(30)
    assert total.count == 1
    leave.set()
    first.join(30)
    assert (total.count, total.weight) == (2, 3.0)
