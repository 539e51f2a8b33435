"""Tests that `ClientCodec` moves a residual on if and only if the server accepted the payload."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.errors import ArgumentError, NonFiniteError, StoreError, StoreMismatchError

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
    assert not client.settle(receipt)  # the server still names the previous receipt
    second, _ = client.encode_model(update(1), 1)
    assert [first, second] == plain([0, 1])
    assert lost != second
    assert not client.settle(lost_receipt)  # too late


def test_there_is_no_residual_before_an_update_is_accepted(store):
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


def test_clients_share_a_store_and_nothing_else(store):
    one, other = client_of(store, "one"), client_of(store, "other")
    _, receipt = one.encode_model(update(0), 0)
    assert other.pending is None
    assert not other.settle(receipt)
    assert one.settle(receipt)
    assert other.encode_model(update(0), 0)[0] == plain([0])[0]


def test_an_object_that_does_not_know_the_last_payloads_of_its_client_encodes_nothing(store):
    first, second = client_of(store), client_of(store)
    _, receipt = second.encode_model(update(0), 0)
    with pytest.raises(ArgumentError, match="another object has encoded updates of client 7"):
        first.encode_model(update(0), 0)
    second.settle(receipt)
    assert second.encode_model(update(1), 1)[0] == plain([0, 1])[1]


def test_an_open_decision_comes_first(store):
    client = client_of(store)
    _, receipt = client.encode_model(update(0), 0)
    with pytest.raises(ArgumentError, match=f"payload {receipt} of this client is not settled; call settle"):
        client.encode_model(update(1), 1)
    assert client.pending == receipt


def test_an_error_does_not_change_the_state(store):
    client = client_of(store)
    _, receipt = client.encode_model(update(0), 0)
    client.settle(receipt)
    bad = update(1)
    bad["kernel"][3, 1] = np.nan
    with pytest.raises(NonFiniteError, match="'kernel'"):
        client.encode_model(bad, 1)
    with pytest.raises(ArgumentError, match="names are text"):
        client.encode_model({**update(1), 3: np.ones(3)}, 1)
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


def whole(seed):
    """An update of small whole numbers, whose sums are exact in every dtype."""
    return {"kernel": np.random.default_rng(seed).integers(-50, 50, (60, 40)).astype(np.float32)}


@pytest.mark.parametrize("between", [0, 1])
@pytest.mark.parametrize("late", [0, 1, 2])
@pytest.mark.parametrize("named", [False, True])
def test_a_message_of_an_older_round_changes_nothing(store, late, between, named):
    """This holds for every receipt, and whether or not the newest payload is known to be accepted."""
    client, receipts, sent = client_of(store, encoder="topk(0.05)"), [], []
    for round_num in range(4):
        client.settle(receipts[-1] if receipts else None)
        payloads, receipt = client.encode_model(whole(round_num), round_num)
        receipts.append(receipt)
        sent.append(payloads)
    if between:
        client.settle(receipts[3])
    client.settle(receipts[late - 1] if named and late else None)
    if late == 2 and not between:
        assert client.encode_model(whole(late), late) == (sent[2], receipts[2])
    else:
        with pytest.raises(
            ArgumentError, match=rf"round {late} is older than payload 3-.* nothing has changed"
        ):
            client.encode_model(whole(late), late)
    if not between:
        assert client.pending == receipts[3]
        assert client.settle(receipts[3])
    payloads, _ = client.encode_model(whole(4), 4)
    codec, state = fedplug.codec("topk(0.05)"), None
    for round_num in range(5):
        expected, state = codec.encode_model(whole(round_num), state, round_num)
    assert payloads == expected


def test_a_new_training_may_begin_at_round_0_again(store):
    client = client_of(store)
    _, receipt = client.encode_model(update(0), 5)
    client.settle(receipt)
    with pytest.raises(ArgumentError, match="round 0 is older than payload 5-"):
        client.encode_model(update(1), 0)
    client = fedplug.ClientCodec(fedplug.codec(ENCODER), store, "7", training="second")
    assert client.settle(receipt)
    payloads, _ = client.encode_model(update(1), 0)
    assert fedplug.decode_model(payloads).keys() == update(1).keys()
    client.settle(None)
    assert client.encode_model(update(1), 0)[0] == payloads  # the residual was carried over both times


MODELS = {
    "more": {"kernel": (20, 9), "head": (30, 5)},
    "fewer": {"bias": (70,)},
    "of another shape": {"kernel": (9, 20), "bias": (70,)},
    "of other names": {"core": (20, 9), "tail": (70,)},
    "small": {"kernel": (3,)},
}


@pytest.mark.parametrize("change", MODELS)
@pytest.mark.parametrize("encoder", ["topk(0.1)", "auto", "qsgd(4)"])
def test_the_arrays_of_a_model_may_change(store, change, encoder, caplog):
    def ones(shapes, seed):
        random = np.random.default_rng(seed)
        return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}

    before, after = {"kernel": (20, 9), "bias": (70,)}, MODELS[change]
    client, codec = client_of(store, encoder=encoder), fedplug.codec(encoder)
    payloads, receipt = client.encode_model(ones(before, 0), 0)
    client.settle(receipt)
    _, state = codec.encode_model(ones(before, 0), None, 0)
    fresh = codec.encode_model(ones(after, 1), None, 1)[1]
    kept = {
        name
        for name in after
        if before.get(name) == after[name] and any(key.startswith(f"{name}/") for key in fresh)
    }
    for round_num in (1, 2):
        payloads, receipt = client.encode_model(ones(after, round_num), round_num)
        if round_num == 1:
            zeros = {key: np.zeros_like(array) for key, array in fresh.items()}
            carried = {key: state[key] for key in fresh if key.partition("/")[0] in kept | {"codec"}}
            state = {**zeros, **carried}
        expected, state = codec.encode_model(ones(after, round_num), state or None, round_num)
        assert payloads == expected
        assert client.settle(receipt)
    dropped = {key.partition("/")[0] for key in codec.encode_model(ones(before, 0))[1]} - {"codec"} - kept
    assert [f"arrays {sorted(dropped)} are dropped" in record.message for record in caplog.records] == (
        [True] if dropped else []
    )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_a_change_of_the_dtype_alone_keeps_the_residual(store, dtype, caplog):
    """The numbers are whole, so that the sum of all updates is exact in every dtype."""
    client, total = client_of(store, encoder="topk(0.5)"), np.zeros((60, 40), np.float32)
    for round_num, now in enumerate(["float32", dtype, "float32", "float32", "float32"]):
        change = {"kernel": whole(0)["kernel"].astype(now)} if round_num < 2 else {"kernel": 0 * total}
        payloads, receipt = client.encode_model(change, round_num)
        assert client.settle(receipt)
        total += fedplug.decode_model(payloads)["kernel"].astype(np.float32)
    np.testing.assert_array_equal(total, 2 * whole(0)["kernel"])
    assert not caplog.records


def test_a_residual_that_another_dtype_cannot_hold_is_dropped(store, caplog):
    client = client_of(store, encoder="topk(0.5)")
    _, receipt = client.encode_model({"kernel": np.full(200, 1e300)}, 0)
    client.settle(receipt)
    client.encode_model({"kernel": np.ones(200, np.float32)}, 1)
    (record,) = caplog.records
    assert "the residuals of arrays ['kernel'] are dropped" in record.message


def test_a_codec_and_a_store_are_wanted(store):
    with pytest.raises(ArgumentError, match=r"codec is 'topk\(0.1\)'; it must be a Codec"):
        fedplug.ClientCodec("topk(0.1)", store, "7")
    with pytest.raises(ArgumentError, match="store is 'memory://'; it must be a store"):
        fedplug.ClientCodec(fedplug.codec("topk(0.1)"), "memory://", "7")
