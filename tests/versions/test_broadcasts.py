"""Tests that receivers hold the bits of the server's reference model, whatever they missed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published import assert_same_bits, model, opened

import fedplug
from fedplug.errors import ArgumentError, BaseVersionError, CapabilityError, ConfigError

ENCODERS = ["auto", "lossless", "qsgd(8)", "bfp(4) | rans", "bfloat16"]
ROUNDS = 6


def kind_of(message):
    return opened(message)[0].kind


@pytest.mark.parametrize("encoder", ENCODERS)
@given(st.lists(st.sets(st.integers(0, 3)), min_size=ROUNDS, max_size=ROUNDS))
def test_receivers_of_a_version_hold_the_same_bits_whatever_they_missed(encoder, present):
    server = fedplug.Broadcaster(encoder, keep=3)
    receivers = [fedplug.Receiver() for _ in range(4)]
    for step, who in enumerate(present):
        version = server.publish(model(step=step))
        for receiver in (receivers[each] for each in who):
            assert_same_bits(receiver.apply(server.message(receiver.version)), server.model)
            assert receiver.version == version


def test_lossless_versions_have_the_bits_of_the_published_model():
    server, receiver = fedplug.Broadcaster("lossless"), fedplug.Receiver()
    for step in range(3):
        server.publish(model(step=step))
        assert_same_bits(receiver.apply(server.message(receiver.version)), model(step=step))


def test_lossy_versions_are_exact_but_for_the_encoded_weights():
    server = fedplug.Broadcaster("bfp(5) | rans")
    server.publish(model())
    for name, array in server.model.items():
        exact = name not in ("conv.weight", "linear.weight", "frozen.weight")
        assert (array.tobytes() == model()[name].tobytes()) == exact, name


def test_the_error_of_a_version_does_not_enter_the_next():
    server, direct = fedplug.Broadcaster("bfp(5)"), fedplug.Broadcaster("bfp(5)")
    for step in range(20):
        server.publish(model(step=step))
    direct.publish(model(step=19))
    assert_same_bits(server.model, direct.model)


def test_a_receiver_up_to_date_gets_47_bytes():
    server, receiver = fedplug.Broadcaster(), fedplug.Receiver()
    server.publish(model())
    receiver.apply(server.message())
    assert server.publish(model()) == receiver.version
    same = server.message(receiver.version)
    assert kind_of(same) == "same"
    assert len(same) == 47
    assert_same_bits(receiver.apply(same), server.model)


def test_arrays_that_have_not_changed_are_not_sent_again():
    server = fedplug.Broadcaster()
    version = server.publish(model())
    server.publish({**model(), "linear.bias": model(step=1)["linear.bias"]})
    assert list(opened(server.message(version))[1]) == ["linear.bias"]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_changes_are_never_longer_than_a_snapshot(encoder):
    server = fedplug.Broadcaster(encoder)
    versions = [server.publish(model(step=100 * step)) for step in range(4)]
    for version in versions[:-1]:
        assert kind_of(server.message(version)) == "changes"
        assert len(server.message(version)) <= len(server.message())


@pytest.mark.parametrize("encoder", ENCODERS)
def test_tied_weights_are_sent_once_and_stay_tied(encoder):
    server, alone, receiver = fedplug.Broadcaster(encoder), fedplug.Broadcaster(encoder), fedplug.Receiver()
    for step in range(3):
        weights = model(step=step)["conv.weight"]
        versions = [each.version for each in (server, alone)]
        server.publish({"embed": weights, "head": weights.copy()})
        alone.publish({"embed": weights})
        received = receiver.apply(server.message(receiver.version))
        assert received["embed"].tobytes() == received["head"].tobytes()
        for base, base_alone in ((None, None), versions):
            assert len(server.message(base)) <= len(alone.message(base_alone)) + 40


def test_small_steps_send_few_bytes():
    server = fedplug.Broadcaster("auto")
    version = server.publish(model())
    server.publish(model(step=0.5))
    assert len(server.message(version)) < len(server.message()) / 4


def test_all_receivers_of_a_version_get_the_same_bytes_encoded_once():
    server = fedplug.Broadcaster()
    version = server.publish(model())
    server.publish(model(step=1))
    assert server.message(version) is server.message(version)
    assert server.message() is server.message("0123456789abcdef")


@pytest.mark.parametrize("since", [None, "", "unknown", "0123456789abcdef", 7, [], {}, b""])
def test_an_unknown_version_gets_a_snapshot(since):
    server = fedplug.Broadcaster()
    server.publish(model())
    assert kind_of(server.message(since)) == "snapshot"


def test_a_version_that_is_no_longer_kept_gets_a_snapshot():
    server = fedplug.Broadcaster(keep=2)
    versions = [server.publish(model(step=step)) for step in range(3)]
    kinds = [kind_of(server.message(version)) for version in versions]
    assert kinds == ["snapshot", "changes", "same"]


def test_kept_versions_are_bounded_by_their_bytes():
    bytes_of_one = sum(array.nbytes for array in model().values())
    server = fedplug.Broadcaster("lossless", keep_bytes=2 * bytes_of_one)
    versions = [server.publish(model(step=step)) for step in range(6)]
    kinds = [kind_of(server.message(version)) for version in versions]
    assert kinds[0] == "snapshot"
    assert kinds[-2:] == ["changes", "same"]


@pytest.mark.parametrize("encoder", ["auto", "lossless"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int4", "complex64", "M8[s]", "S3"])
def test_arrays_of_dtypes_without_an_encoder_are_sent_exactly(encoder, dtype):
    server, receiver = fedplug.Broadcaster(encoder), fedplug.Receiver()
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(0)
    published = [
        {
            "weights": rng.standard_normal((40, 30)).astype(np.float32),
            "other": rng.integers(0, 8, (20, size * dtype.itemsize)).astype(np.uint8).view(dtype)[:, ::2],
            "scalar": np.zeros((), dtype),
        }
        for size in (40, 40, 60)
    ]
    for new, kind in zip(published, ["snapshot", "changes", "snapshot"], strict=True):
        server.publish(new)
        message = server.message(receiver.version)
        assert kind_of(message) == kind
        assert_same_bits(receiver.apply(message), server.model)
        for name in ("other", "scalar"):
            assert receiver.model[name].tobytes() == new[name].tobytes()
    with pytest.raises(ArgumentError, match="array 'object': an array of dtype object has no exact bytes"):
        server.publish({"object": np.array([None])})
    assert fedplug.Receiver().apply(server.message())


def test_a_model_with_other_arrays_is_sent_whole():
    server, receiver = fedplug.Broadcaster(), fedplug.Receiver()
    version = server.publish(model())
    receiver.apply(server.message())
    server.publish({**model(), "head": np.ones((30, 30), np.float32)})
    assert kind_of(server.message(version)) == "snapshot"
    assert_same_bits(receiver.apply(server.message(receiver.version)), server.model)


def test_a_restarted_server_recognizes_receivers_of_the_same_model():
    before, receiver = fedplug.Broadcaster(), fedplug.Receiver()
    before.publish(model())
    receiver.apply(before.message())
    after = fedplug.Broadcaster()
    after.publish(model())
    assert kind_of(after.message(receiver.version)) == "same"
    after.publish(model(step=1))
    assert kind_of(after.message(receiver.version)) == "changes"
    assert_same_bits(receiver.apply(after.message(receiver.version)), after.model)


def test_weights_that_become_infinite_and_finite_again_are_sent():
    server, receiver = fedplug.Broadcaster(), fedplug.Receiver()
    for value in (1.0, np.inf, np.nan, -0.0, 0.0):
        weights = model()["conv.weight"]
        weights[3, 3] = value
        server.publish({"conv.weight": weights})
        assert_same_bits(receiver.apply(server.message(receiver.version)), server.model)


def test_changing_arrays_after_a_call_changes_no_version():
    server, receiver = fedplug.Broadcaster("lossless"), fedplug.Receiver()
    mine = model()
    server.publish(mine)
    mine["conv.weight"][:] = 7
    assert_same_bits(receiver.apply(server.message()), model())
    for arrays in (server.model, receiver.model):
        with pytest.raises(ValueError, match="read-only"):
            arrays["conv.weight"][0, 0] = 1


def test_threads_publish_and_ask_at_the_same_time():
    server = fedplug.Broadcaster()
    server.publish(model())

    def follow():
        receiver = fedplug.Receiver()
        for _ in range(20):
            receiver.apply(server.message(receiver.version))

    with ThreadPoolExecutor(3) as threads:
        followers = [threads.submit(follow) for _ in range(3)]
        for step in range(10):
            server.publish(model(step=step))
    for follower in followers:
        follower.result()


def test_a_server_without_a_version_names_the_call_to_make():
    server = fedplug.Broadcaster()
    for ask in (server.message, lambda: server.model):
        with pytest.raises(ArgumentError, match=r"call publish\(model\) first"):
            ask()


@pytest.mark.parametrize(
    ("encoder", "error", "says"),
    [
        ("topk(0.01)", CapabilityError, "use an encoder that comes closer, such as bfp"),
        ("sign", CapabilityError, "use an encoder that comes closer, such as bfp"),
        ("budget('qsgd(8)', 5000)", ConfigError, "a broadcast has no rate control"),
    ],
)
def test_encoders_that_are_too_inexact_for_a_model_are_refused(encoder, error, says):
    with pytest.raises(error, match=says):
        fedplug.Broadcaster(encoder).publish(model())


def test_a_refused_model_leaves_the_versions_as_they_were():
    server = fedplug.Broadcaster()
    version = server.publish(model())
    with pytest.raises(ArgumentError, match="'text'"):
        server.publish({**model(), "text": "no array"})
    assert server.version == version
    assert_same_bits(fedplug.Receiver().apply(server.message()), server.model)


@pytest.mark.parametrize("fails", ["decode", "version_of", "_encoded"])
@pytest.mark.parametrize(
    "new", [model(step=1), {"other": np.ones((40, 30), np.float32)}], ids=["same", "other"]
)
def test_an_error_while_a_version_is_made_leaves_the_versions_as_they_were(fails, new, monkeypatch):
    def no_memory(*args, **kwargs):
        raise MemoryError

    server = fedplug.Broadcaster()
    first, version = server.publish(model(step=2)), server.publish(model())
    before, expected = server.message(first), server.model
    with monkeypatch.context() as patches:
        patches.setattr(f"fedplug.versions.broadcaster.{fails}", no_memory)
        with pytest.raises(MemoryError):
            server.publish(new)
    assert server.version == version
    assert server.message(first) == before
    assert_same_bits(server.model, expected)
    assert server.publish(model()) == version


def test_an_error_for_another_version_says_what_to_report():
    server, receiver = fedplug.Broadcaster(), fedplug.Receiver()
    first = server.publish(model())
    server.publish(model(step=1))
    with pytest.raises(BaseVersionError, match=f"receivers of version {first}, and this one has None"):
        receiver.apply(server.message(first))
    assert receiver.version is None


def test_an_array_without_a_negative_element_has_none_at_the_receiver():
    server, receiver = fedplug.Broadcaster("qsgd(4, block_size=64)"), fedplug.Receiver()
    rng = np.random.default_rng(0)
    for _ in range(3):
        moment = (rng.random(1000) ** 8 * 1e-3).astype(np.float32)
        weights = rng.standard_normal(1000).astype(np.float32)
        server.publish({"any name": moment, "weights": weights})
        received = receiver.apply(server.message(receiver.version))
        assert not (received["any name"] < 0).any()
        assert not np.array_equal(received["weights"], weights)
