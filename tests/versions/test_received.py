"""Tests that a receiver applies a message completely or not at all, from disk as well."""

from __future__ import annotations

import contextlib
import sqlite3
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published import assert_same_bits, closed, model, opened

import fedplug
from fedplug import kernels, wire
from fedplug.differences.arrays import encode_array
from fedplug.errors import ArgumentError, BaseVersionError, PayloadError
from fedplug.wire.message import Contents, Entry, version_of


@pytest.fixture(scope="module")
def messages():
    """The first version with its snapshot, and the second with the changes."""
    server = fedplug.Broadcaster()
    first = server.publish(model())
    snapshot = server.message()
    second = server.publish(model(step=1))
    return first, snapshot, second, server.message(first), server.model


def receiver_of(snapshot, **options):
    receiver = fedplug.Receiver(**options)
    receiver.apply(snapshot)
    return receiver


def test_a_message_delivered_twice_changes_nothing(messages):
    _, snapshot, second, changes, expected = messages
    receiver = receiver_of(snapshot)
    for _ in range(2):
        assert_same_bits(receiver.apply(changes), expected)
        assert receiver.version == second


def test_an_older_snapshot_brings_the_older_version_back(messages):
    first, snapshot, _, changes, _ = messages
    receiver = receiver_of(snapshot)
    receiver.apply(changes)
    receiver.apply(snapshot)
    assert receiver.version == first


def test_a_stored_model_is_there_after_a_restart(tmp_path, messages):
    _, snapshot, second, changes, expected = messages
    url = f"sqlite:///{tmp_path}/s"
    with fedplug.open_store(url) as store:
        receiver_of(snapshot, store=store, client_id="a")
    with fedplug.open_store(url) as store:
        receiver = fedplug.Receiver(store, "a")
        receiver.apply(changes)
        assert fedplug.Receiver(store, "b").version is None
    with fedplug.open_store(url) as store:
        restarted = fedplug.Receiver(store, "a")
        assert restarted.version == second
        assert_same_bits(restarted.model, expected)


def test_a_stored_model_has_any_dtype_of_a_message():
    dtypes = "complex128", "longdouble", "M8[s]", "U3", ml_dtypes.int4, ml_dtypes.float8_e4m3b11fnuz
    arrays = {str(dtype): np.arange(4).reshape(2, 2).astype(dtype) for dtype in dtypes}
    server = fedplug.Broadcaster()
    server.publish(arrays)
    with fedplug.open_store("memory://") as store:
        receiver_of(server.message(), store=store, client_id="a")
        assert_same_bits(fedplug.Receiver(store, "a").model, arrays)


def test_every_flipped_or_missing_byte_is_refused_and_changes_nothing(messages):
    first, snapshot, _, changes, _ = messages
    receiver = receiver_of(snapshot)
    generator = np.random.default_rng(0)
    for place in generator.integers(len(changes), size=200):
        bad = bytearray(changes)
        bad[place] ^= 1 << generator.integers(8)
        for data in (bytes(bad), changes[:place], changes + b"x"):
            with pytest.raises(PayloadError):
                receiver.apply(data)
    assert receiver.version == first


@given(st.data())
def test_hostile_payloads_are_refused_or_change_nothing(messages, data):
    first, snapshot, _, changes, _ = messages
    receiver = receiver_of(snapshot)
    known, sent = opened(data.draw(st.sampled_from([snapshot, changes])))
    payloads = {name: bytearray(payload) for name, payload in sent.items()}
    name = data.draw(st.sampled_from(sorted(payloads)))
    bad = payloads[name]
    for _ in range(data.draw(st.integers(1, 3))):
        bad[data.draw(st.integers(0, len(bad) - 5))] = data.draw(st.integers(0, 255))
    bad[-4:] = struct.pack("<I", kernels.crc32(bytes(bad[:-4])))
    message = closed(known, {name: bytes(payload) for name, payload in payloads.items()})
    try:
        receiver.apply(message)
    except PayloadError:
        assert receiver.version == first
    else:
        assert receiver.version == known.version


def forged(messages, **changes):
    known, payloads = opened(messages[3])
    return closed(known._replace(**changes), payloads)


def test_a_message_that_leads_to_another_model_is_refused(messages):
    receiver = receiver_of(messages[1])
    with pytest.raises(PayloadError, match=r"leads to version .*, not to 0123456789abcdef as it says"):
        receiver.apply(forged(messages, version="0123456789abcdef"))
    with pytest.raises(BaseVersionError):
        receiver.apply(forged(messages, base="0123456789abcdef"))


def test_changes_of_unknown_arrays_are_refused(messages):
    receiver = receiver_of(messages[1])
    known, payloads = opened(messages[3])
    entries = [*known.entries, Entry("new", in_old=True, in_new=True)]
    with pytest.raises(PayloadError, match=r"it lacks the arrays \['new'\]"):
        receiver.apply(closed(known._replace(entries=entries), {**payloads, "new": payloads["linear.bias"]}))


def test_changes_in_a_snapshot_are_refused(messages):
    receiver = receiver_of(messages[1])
    entries = [Entry("conv.weight", in_old=False, in_new=True)]
    with pytest.raises(PayloadError, match=r"array 'conv.weight': a snapshot cannot have"):
        receiver.apply(forged(messages, entries=entries, base=None))


@pytest.mark.parametrize("encoder", ["auto", "lossless"])
def test_a_model_above_the_limit_is_refused(encoder):
    server = fedplug.Broadcaster(encoder)
    server.publish({"small": np.ones(10, np.float32), "large": np.ones(10_000, np.float32)})
    receiver = fedplug.Receiver(max_bytes=20_000)
    with pytest.raises(PayloadError, match=r"array 'large'.*max_bytes"):
        receiver.apply(server.message())
    assert receiver.version is None


def exact(array):
    return encode_array(None, array)


def encoded(array):
    return fedplug.codec("identity").encode(array)[0]


@pytest.mark.parametrize("payload_of", [exact, encoded])
def test_a_limit_counts_the_arrays_that_a_message_does_not_change(payload_of):
    receiver, held = fedplug.Receiver(max_bytes=1000), {f"a{i}": np.zeros(1, np.uint8) for i in range(50)}

    def apply(names, base):
        payloads = {name: payload_of(held[name]) for name in names}
        entries = [Entry(name, base is not None, in_new=True) for name in names]
        receiver.apply(closed(Contents(entries, base, version_of(held)), payloads))

    apply(held, base=None)
    held["a0"] = np.zeros(951, np.uint8)
    apply(["a0"], receiver.version)
    for name, size in (("a1", 2), ("a0", 952)):
        last = held[name]
        held[name] = np.zeros(size, np.uint8)
        with pytest.raises(PayloadError, match=f"array '{name}': .*max_bytes"):
            apply([name], receiver.version)
        held[name] = last
    held["a0"], held["a1"] = np.zeros(1, np.uint8), np.zeros(951, np.uint8)
    apply(["a0", "a1"], receiver.version)
    assert sum(array.nbytes for array in receiver.model.values()) == 1000


def test_a_stored_model_above_the_limit_takes_only_a_smaller_one(messages):
    _, snapshot, _, changes, _ = messages
    with fedplug.open_store("memory://") as store:
        receiver_of(snapshot, store=store, client_id="a")
        receiver = fedplug.Receiver(store, "a", max_bytes=100)
        with pytest.raises(PayloadError, match="max_bytes"):
            receiver.apply(changes)
        small = fedplug.Broadcaster()
        small.publish({"w": np.ones(20, np.float32)})
        assert list(receiver.apply(small.message())) == ["w"]


@pytest.mark.parametrize("shape", [(2**31 - 1,) * 3 + (0,), (0, *[2**32 - 1] * 31), (2**32 - 1,) * 4])
def test_an_array_of_an_impossible_shape_is_refused(shape):
    payload = wire.frame(struct.pack("<BIIB", 0, 0, 0, 3) + b"<f8", "diff/1", "uint8", shape)
    with pytest.raises(PayloadError, match="which no array can have"):
        fedplug.patch(np.zeros(0), payload, max_bytes=np.inf)
    with pytest.raises(PayloadError, match="which no array can have"):
        fedplug.decode(wire.frame(b"", "identity/1", "uint64", shape), max_bytes=np.inf)
    snapshot = closed(Contents([Entry("w", in_old=False, in_new=True)], None, "12" * 8), {"w": payload})
    with pytest.raises(PayloadError, match=r"array 'w': .* which no array can have"):
        fedplug.Receiver().apply(snapshot)


@pytest.mark.parametrize("name", ["\ud800", "x" * 65_536, "ä" * 40_000])
def test_names_that_no_message_can_carry_are_refused_when_they_are_given(name):
    for give in (fedplug.Broadcaster().publish, lambda model: fedplug.diff({}, model)):
        with pytest.raises(ArgumentError, match="the name"):
            give({name: np.ones(3, np.float32)})


def test_a_receiver_refuses_wire_ids_that_it_does_not_expect(messages):
    receiver = fedplug.Receiver(wire_ids={"qsgd/1"})
    with pytest.raises(PayloadError, match=r"array 'conv.weight'.*expected qsgd/1"):
        receiver.apply(messages[1])


def test_something_else_than_a_store_is_refused():
    with pytest.raises(ArgumentError, match="it must be a store"):
        fedplug.Receiver("sqlite:///x")


def test_a_stored_model_that_is_damaged_is_sent_again_as_a_snapshot(tmp_path, messages, caplog):
    _, snapshot, _, _, _ = messages
    url = f"sqlite:///{tmp_path}/s"
    with fedplug.open_store(url) as store:
        receiver_of(snapshot, store=store, client_id="a")
    with contextlib.closing(sqlite3.connect(tmp_path / "s/state.sqlite3", isolation_level=None)) as database:
        database.execute("UPDATE states SET checksum = checksum + 1")
    with fedplug.open_store(url) as store:
        assert fedplug.Receiver(store, "a").version is None
    assert "the stored model is damaged" in caplog.text
