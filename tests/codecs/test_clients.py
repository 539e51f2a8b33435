"""`ClientCodec`: a residual moves on when, and only when, the server accepted the payload."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.errors import ArgumentError, NonFiniteError, StateError, StoreError, StoreMismatchError

ENCODER = "topk(0.1) | qsgd(5)"


def update(seed, size=200):
    random = np.random.default_rng(seed)
    return {"kernel": random.standard_normal((size, 3)).astype(np.float32), "bias": np.ones(3, np.float32)}


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/state"
    with fedplug.open_store(url) as opened:
        yield opened


def client_of(store, client_id="7", encoder=ENCODER):
    return fedplug.ClientCodec(fedplug.codec(encoder), store, client_id)


def plain(seeds):
    """The payloads of a client all of whose updates are accepted."""
    codec, state, sent = fedplug.codec(ENCODER), None, []
    for round_num, seed in enumerate(seeds):
        payloads, state = codec.encode_model(update(seed), state, round_num)
        sent.append(payloads)
    return sent


def test_accepted_payloads_are_those_of_the_codec_itself(store):
    client, accepted, sent = client_of(store), None, []
    for round_num in range(4):
        assert client.settle(accepted) is (round_num > 0)
        payloads, accepted = client.encode_model(update(round_num), round_num)
        sent.append(payloads)
    assert sent == plain(range(4))


def test_a_payload_that_was_not_accepted_does_not_lose_the_residual(store):
    client = client_of(store)
    first, receipt = client.encode_model(update(0), 0)
    assert client.settle(receipt)
    lost, lost_receipt = client.encode_model(update(8), 1)
    assert not client.settle(receipt)  # the server still names the one before
    second, _ = client.encode_model(update(1), 1)
    assert [first, second] == plain([0, 1])
    assert lost != second
    assert not client.settle(lost_receipt)  # too late


def test_before_anything_is_accepted_there_is_no_residual(store):
    client = client_of(store)
    first, _ = client.encode_model(update(0), 0)
    client.settle(None)
    again, _ = client.encode_model(update(0), 0)
    assert first == again


def test_a_message_that_is_delivered_twice_has_the_same_answer(store):
    client = client_of(store)
    _, receipt = client.encode_model(update(0), 0)
    answers = []
    for _ in range(2):
        client.settle(receipt)
        answers.append(client.encode_model(update(1), 1))
    assert answers[0] == answers[1]


def test_it_outlives_the_process(tmp_path):
    url, accepted, sent = f"sqlite:///{tmp_path}/state", None, []
    for round_num in range(4):
        with fedplug.open_store(url) as store:
            client = client_of(store)
            assert client.pending == accepted
            client.settle(accepted)
            payloads, accepted = client.encode_model(update(round_num), round_num)
            sent.append(payloads)
    assert sent == plain(range(4))


def test_a_decision_after_which_nothing_was_encoded_is_open_again(tmp_path):
    url = f"sqlite:///{tmp_path}/state"
    with fedplug.open_store(url) as store:
        _, receipt = client_of(store).encode_model(update(0), 0)
    for decision in (None, receipt):
        with fedplug.open_store(url) as store:
            client = client_of(store)
            assert client.settle(decision) is (decision is not None)
            assert client.pending is None
    with fedplug.open_store(url) as store:
        client = client_of(store)
        assert client.pending == receipt
        client.settle(receipt)
        assert client.encode_model(update(1), 1)[0] == plain([0, 1])[1]


def test_clients_share_a_store_and_nothing_else(store):
    one, other = client_of(store, "one"), client_of(store, "other")
    _, receipt = one.encode_model(update(0), 0)
    assert other.pending is None
    assert not other.settle(receipt)
    assert one.settle(receipt)
    assert other.encode_model(update(0), 0)[0] == plain([0])[0]


def test_an_open_decision_comes_first(store):
    client = client_of(store)
    _, receipt = client.encode_model(update(0), 0)
    with pytest.raises(ArgumentError, match=f"payload {receipt} of this client is not settled; call settle"):
        client.encode_model(update(1), 1)
    assert client.pending == receipt


def test_an_error_leaves_the_state_as_it_was(store):
    client = client_of(store)
    _, receipt = client.encode_model(update(0), 0)
    client.settle(receipt)
    bad = update(1)
    bad["kernel"][3, 1] = np.nan
    with pytest.raises(NonFiniteError, match="'kernel'"):
        client.encode_model(bad, 1)
    with pytest.raises(StateError, match="kernel/residual"):
        client.encode_model(update(1, size=201), 1)
    assert client.pending is None
    assert client.encode_model(update(1), 1)[0] == plain([0, 1])[1]


def test_the_state_of_another_codec_is_refused(store):
    client_of(store).encode_model(update(0), 0)
    with pytest.raises(StoreMismatchError, match="topk"):
        client_of(store, encoder="topk(0.2)")


def test_a_closed_store_says_so():
    store = fedplug.open_store("memory://")
    store.close()
    with pytest.raises(StoreError, match="closed"):
        client_of(store)


def test_an_encoder_without_memory_has_nothing_to_lose(store):
    client = client_of(store, encoder="qsgd(4)")
    first, receipt = client.encode_model(update(0), 0)
    assert client.settle(receipt)
    second, other = client.encode_model(update(0), 0)
    assert first == second
    assert receipt == other


def test_a_receipt_is_of_bytes_and_round(store):
    client, receipts = client_of(store, encoder="identity"), set()
    for seed, round_num in [(0, 0), (1, 0), (0, 1)]:
        _, receipt = client.encode_model(update(seed), round_num)
        client.settle(receipt)
        receipts.add(receipt)
    assert len(receipts) == 3
