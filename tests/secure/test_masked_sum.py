"""Tests rounds of a masked sum: exact sums, nothing lost, refused inputs; and its integers as bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedplug
from fedplug.errors import (
    ArgumentError,
    CapabilityError,
    ConfigError,
    NonFiniteError,
    PayloadError,
    StateError,
)
from fedplug.secure import MaskedSum, pack, unpack

LIKE = {"kernel": np.zeros((20, 30), np.float32), "bias": np.zeros(30, np.float64)}
SIZE = 630
RANKS = pytest.mark.parametrize("rank", [None, 2], ids=["entries", "directions"])


def masked_sum(rank=None, like=LIKE, **arguments):
    config = {"fraction": 0.2 if rank else 0.1, "clients": 5, "rank": rank}
    config.update(arguments)
    return MaskedSum(fedplug.encoder("sharedk", **config), like)


def updates(rng, count=5):
    return [
        {name: rng.normal(size=x.shape).astype(x.dtype) for name, x in LIKE.items()} for _ in range(count)
    ]


UPDATE = updates(np.random.default_rng(0))[0]


def sent(masked, update=UPDATE, **weight):
    """What a client sends in the first round."""
    message = masked.message(masked.init_server())
    return masked.encode(update, masked.init_client(), message, **weight)[0]


def flat(update):
    return np.concatenate([x.reshape(-1) for x in update.values()]).astype(np.float64)


@RANKS
def test_the_sum_under_masks_is_the_mean_of_what_the_residuals_lack(rank):
    masked, rng = masked_sum(rank), np.random.default_rng(0)
    server, clients = masked.init_server(), [masked.init_client() for _ in range(5)]
    for _ in range(4):
        given_updates, message, total = (
            updates(rng),
            masked.message(server),
            np.zeros(masked.length, np.int64),
        )
        before = np.mean([state["residual"] for state in clients], axis=0)
        ring = 2**masked.bits
        masks = rng.integers(0, ring, (5, masked.length))
        for number, update in enumerate(given_updates):
            vector, clients[number] = masked.encode(update, clients[number], message)
            data = pack((vector + masks[number] - masks[number - 1]) % ring, masked.bits)
            assert len(data) == (masked.length * masked.bits + 7) // 8
            total += unpack(data, masked.length, masked.bits)
        mean, server = masked.decode(total % ring, server)
        assert (mean.clients, {name: x.dtype for name, x in mean.update.items()}) == (
            5,
            {name: x.dtype for name, x in LIKE.items()},
        )
        after = np.mean([state["residual"] for state in clients], axis=0)
        expected = np.mean([flat(update) for update in given_updates], axis=0) + before - after
        np.testing.assert_allclose(flat(mean.update), expected, atol=1e-5)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=5))
def test_weights_count_up_to_the_largest(weights):
    masked, rng = masked_sum(max_weight=100, bits=24, largest=8), np.random.default_rng(len(weights))
    limit, given_updates = (2**23 - 1) // 5, updates(rng, len(weights))
    each = zip(given_updates, weights, strict=True)
    vectors = [sent(masked, update, weight=weight) for update, weight in each]
    mean, _ = masked.decode(sum(vectors), masked.init_server())
    counted = np.minimum(weights, 100)
    expected = np.average([flat(update) for update in given_updates], axis=0, weights=counted)
    found = flat(mean.update)
    np.testing.assert_allclose(found[found != 0], expected[found != 0], atol=1e-3)
    assert mean.weight == pytest.approx(counted.sum(), abs=len(weights) * 100 / limit)


def test_huge_values_are_limited_and_never_wrap():
    masked = masked_sum(bits=8)
    huge = {name: np.full(x.shape, 1e30, x.dtype) for name, x in LIKE.items()}
    server, client = masked.init_server(), masked.init_client()
    vector, client = masked.encode(huge, client, masked.message(server))
    mean, after = masked.decode(5 * vector, server)
    assert set(flat(mean.update)) == {0.0, 1.0}
    assert (mean.clients, mean.clipped, float(after["largest"])) == (5, 5 * min(63, 127 // 5), 4.0)
    assert client["residual"].min() == np.float32(1e30)


@RANKS
@pytest.mark.parametrize(("clients", "bits"), [(1, 4), (9, 7), (5, 15)])
@pytest.mark.parametrize("size", [lambda number: 0.3, lambda number: 1000 if number > 40 else 1e-3])
def test_the_largest_magnitude_follows_the_updates(rank, clients, bits, size):
    """Equal updates are the worst case: their residuals and the errors of rounding add up."""
    masked = masked_sum(rank, clients=clients, bits=bits)
    server, client, given_sum = masked.init_server(), masked.init_client(), 0.0
    for number in range(100):
        update = {name: np.full(x.shape, size(number), x.dtype) for name, x in LIKE.items()}
        given_sum += size(number)
        vector, client = masked.encode(update, client, masked.message(server))
        _, server = masked.decode(clients * vector, server)
    assert size(99) < server["largest"].max() < 1000 * size(99)
    assert abs(client["residual"]).mean() < 0.7 * given_sum


@RANKS
def test_the_sensitivity_is_the_norm_of_the_clipped_sum_and_not_of_the_clipped_update(rank):
    """Differential privacy needs a bound on what a client adds, and a residual is in it."""
    masked, rng = masked_sum(rank, clients=1), np.random.default_rng(0)
    (update,) = updates(rng, 1)
    unit = (flat(update) / np.linalg.norm(flat(update))).astype(np.float32)

    def longest(limit):
        server, residual, norms = masked.init_server(), np.zeros(SIZE, np.float32), []
        for _ in range(30):
            carried = unit + residual
            clipped = carried * min(1, limit / np.linalg.norm(carried))
            parts = dict(zip(LIKE, np.split(clipped, [600]), strict=True))
            shaped = {name: parts[name].reshape(x.shape).astype(x.dtype) for name, x in LIKE.items()}
            vector, after = masked.encode(shaped, masked.init_client(), masked.message(server))
            residual = after["residual"] + carried - clipped
            largest = server["largest"]
            mean, server = masked.decode(vector, server)
            norms.append(np.linalg.norm(flat(mean.update)) - np.sqrt(masked.length) * largest.max() / 2**14)
        return max(norms)

    assert longest(np.inf) > 1.5
    assert longest(1.0) <= 1.0


def test_the_magnitude_waits_for_a_client_with_long_updates():
    """It is absent in some rounds. Others that have few integers beside it make the magnitude halve."""
    masked = masked_sum(clients=1, bits=15)
    server = masked.init_server()
    largest = []
    for size in [100.0] * 20 + [1.0] * 10 + [1e-3] * 40:
        update = {name: np.full(x.shape, size, x.dtype) for name, x in LIKE.items()}
        vector, _ = masked.encode(update, masked.init_client(), masked.message(server))
        _, server = masked.decode(vector, server)
        largest.append(float(server["largest"]))
    assert largest[29] > 0.5 * largest[19] > 100
    assert 1e-3 < largest[-1] < 10


def test_the_weight_is_the_number_of_clients_without_a_largest_weight():
    masked = masked_sum()
    vector = sent(masked, weight=7)
    assert masked.decode(3 * vector, masked.init_server())[0].weight == pytest.approx(3)


@pytest.mark.parametrize("weight", [1e-300, 1e300, 10**400], ids=["tiny", "huge", "no_float"])
def test_weights_beyond_float32_count_as_the_least_or_the_most(weight):
    vector = sent(masked_sum(max_weight=100, bits=15), weight=weight)
    assert vector[-4] == (1 if weight < 1 else (2**14 - 1) // 5)


@pytest.mark.parametrize("largest", [1e-30, 1e30])
def test_magnitudes_at_the_end_of_their_range_are_used(largest):
    masked = masked_sum(largest=largest)
    update = {name: np.full(x.shape, largest, x.dtype) for name, x in LIKE.items()}
    server, client = masked.init_server(), masked.init_client()
    for _ in range(2):
        vector, client = masked.encode(update, client, masked.message(server))
        mean, server = masked.decode(vector, server)
        assert np.isfinite(flat(mean.update)).all()
        assert mean.clients == 1


def test_means_that_a_dtype_cannot_hold_are_limited():
    like = {"half": np.zeros(4, np.float16)}
    masked = MaskedSum("sharedk(1.0, clients=1, largest=1e6)", like)
    client, server = {"residual": np.full(4, 9e5, np.float32)}, masked.init_server()
    vector, _ = masked.encode(like, client, masked.message(server))
    mean, _ = masked.decode(vector, server)
    assert mean.update["half"].tolist() == [np.finfo(np.float16).max] * 4


def test_a_client_without_an_update_changes_nothing():
    masked, server = masked_sum(), masked_sum().init_server()
    vector = sent(masked)
    alone, _ = masked.decode(vector, server)
    together, _ = masked.decode(vector + masked.no_update(), server)
    np.testing.assert_equal(together.update, alone.update)
    assert (together.clients, together.weight) == (1, alone.weight)
    nobody, after = masked.decode(masked.no_update(), server)
    assert not flat(nobody.update).any()
    assert (nobody.clients, after["round_num"], after["largest"]) == (0, 1, server["largest"])


@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (3, 10, 20)])
def test_directions_follow_the_updates(shape):
    """The sum of two rank-one updates arrives with a sixth of the matrix's numbers in a round."""
    rng, like = np.random.default_rng(0), {"kernel": np.zeros(shape, np.float32)}
    masked = masked_sum(2, like, clients=1, bits=12)
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    update = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, columns))
    given_update = {"kernel": update.reshape(shape).astype(np.float32)}
    server, client = masked.init_server(), masked.init_client()
    assert masked.length - 5 == 2 * 20 + 2 * 30
    for _ in range(30):
        vector, client = masked.encode(given_update, client, masked.message(server))
        mean, server = masked.decode(vector, server)
        given_update = like  # only in the first round
    assert np.linalg.norm(client["residual"]) < 0.05 * np.linalg.norm(update)
    assert not np.array_equal(mean.update["kernel"], like["kernel"])


def test_a_matrix_goes_by_entries_where_these_are_fewer():
    like = {"flat": np.zeros((2, 30), np.float32), "scalar": np.zeros((), np.float32)}
    assert masked_sum(2, like).length == round(0.2 * 61) + 4
    empty = {**like, "empty": np.zeros((0, 5), np.float32)}
    assert masked_sum(2, empty).length == round(0.2 * 61) + 4


@RANKS
def test_a_damaged_message_is_refused(rank):
    masked = masked_sum(rank)
    message = masked.message(masked.init_server())
    for place in range(len(message)):
        damaged = message[:place] + bytes([message[place] ^ 64]) + message[place + 1 :]
        with pytest.raises(PayloadError):
            masked.encode(UPDATE, masked.init_client(), damaged)
    with pytest.raises(PayloadError, match=r"wrong length|another encoder"):
        masked_sum(None if rank else 2).encode(UPDATE, masked.init_client(), message)


@pytest.mark.parametrize(
    ("arguments", "like"),
    [
        ({"seed": 1}, LIKE),
        ({"bits": 16}, LIKE),
        ({}, dict(reversed(LIKE.items()))),
        ({}, {**LIKE, "kernel": np.zeros((30, 20), np.float32)}),
    ],
    ids=["seed", "bits", "order", "shape"],
)
def test_a_message_of_another_sum_is_refused(arguments, like):
    other = masked_sum(like=like, **arguments)
    with pytest.raises(PayloadError, match="another encoder"):
        other.encode(like, other.init_client(), masked_sum().message(masked_sum().init_server()))


def test_a_sum_that_no_clients_can_have_is_refused():
    masked = masked_sum()
    server, vector = masked.init_server(), sent(masked)
    assert masked.decode(vector.astype(np.int16), server)[0].clients == 1
    for place in (0, masked.length - 2):  # a value, and the number of values at the limit
        wrong = vector.copy()
        wrong[place] = (2**14 - 1) // 5 + 1
        with pytest.raises(PayloadError, match="at most 5 clients"):
            masked.decode(wrong, server)


@RANKS
def test_a_server_state_of_another_form_is_refused(rank):
    masked = masked_sum(rank)
    server = masked.init_server()
    without = {key: x for key, x in server.items() if key != "round_num"}
    for state in (
        {},
        without,
        {**server, "largest": np.float64(1)},
        masked_sum(None if rank else 2).init_server(),
    ):
        with pytest.raises(StateError, match="server"):
            masked.message(state)
        with pytest.raises(StateError, match="server"):
            masked.decode(masked.no_update(), state)


def test_what_does_not_fit_is_refused():
    masked = masked_sum()
    with pytest.raises(ArgumentError, match="not in the form of the model"):
        sent(masked, {**UPDATE, "bias": UPDATE["bias"][:-1]})
    for bias in (UPDATE["bias"] * np.nan, UPDATE["bias"] + 1e300):
        with pytest.raises(NonFiniteError):
            sent(masked, {**UPDATE, "bias": bias})
    for weight in (0, -1, np.nan, np.inf, "3", None, np.ones(2)):
        with pytest.raises(ArgumentError, match="must be a number above 0"):
            sent(masked, weight=weight)
    for state in ({}, None):
        with pytest.raises(StateError, match="'residual'"):
            masked.encode(UPDATE, state, masked.message(masked.init_server()))
    with pytest.raises(ArgumentError, match="67 integers"):
        masked.decode(np.zeros(5, np.int64), masked.init_server())
    with pytest.raises(PayloadError, match="at most 5 clients"):
        masked.decode(6 * sent(masked), masked.init_server())


def test_configurations_that_leave_clients_too_few_integers_are_refused():
    with pytest.raises(ConfigError, match="from -6 to 6; use at least 8 bits for 7, or fewer clients"):
        fedplug.encoder("sharedk(0.1, clients=10, bits=7)")
    assert fedplug.encoder("sharedk(0.1, clients=9, bits=7)").limit == 7
    with pytest.raises(ConfigError, match="max_weight"):
        fedplug.encoder("sharedk(0.1, clients=9, max_weight=1e-40)")
    with pytest.raises(CapabilityError, match="sends no integers of a ring"):
        MaskedSum("topk(0.1)", LIKE)
    with pytest.raises(ArgumentError, match="'steps' is of int64"):
        MaskedSum("sharedk(0.1, clients=4)", {"steps": np.zeros(3, np.int64)})


def test_the_message_is_short():
    assert len(masked_sum().message(masked_sum().init_server())) == 51


@given(st.integers(1, 62), st.lists(st.integers(0, 2**62 - 1), max_size=20))
def test_packed_integers_are_one_number_of_so_many_bits(bits, numbers):
    numbers = [number % 2**bits for number in numbers]
    data = pack(numbers, bits)
    whole = sum(number << bits * place for place, number in enumerate(numbers))
    assert data == whole.to_bytes((bits * len(numbers) + 7) // 8, "little")
    assert unpack(data, len(numbers), bits).tolist() == numbers


@pytest.mark.parametrize("number", [-1, 16])
def test_an_integer_out_of_range_is_not_packed(number):
    with pytest.raises(ArgumentError, match=r"from 0 to 2\^4 - 1"):
        pack([number], 4)


@pytest.mark.parametrize("number", [1.5, 2.0, True, "1", 2**70])
def test_only_integers_are_packed(number):
    with pytest.raises(ArgumentError, match="pack takes integers"):
        pack([number], 4)


def test_integers_above_int64_are_not_taken_for_negative_ones():
    with pytest.raises(ArgumentError, match=r"from 0 to 2\^62 - 1"):
        pack(np.array([2**63 + 1], np.uint64), 62)


@pytest.mark.parametrize("data", [b"", b"\x21\x03\x00", b"\x21\x83"])
def test_bytes_of_another_length_or_with_unused_bits_are_refused(data):
    with pytest.raises(PayloadError, match="3 integers of 4 bits"):
        unpack(data, 3, 4)
