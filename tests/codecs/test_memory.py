"""Tests that a steady loop allocates no memory of the array's size, where that is promised."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import fedplug

SIZE = 2**20
ARRAY = 4 * SIZE  # bytes


def peak_of(loop):
    """The peak memory in bytes of a second run, as traced in Python and NumPy, minus the memory before it."""
    tracemalloc.start()
    loop()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    loop()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before


@pytest.fixture(scope="module")
def updates():
    random = np.random.default_rng(0)
    return [random.standard_normal(SIZE, np.float32) for _ in range(3)]


@pytest.mark.parametrize(
    "expression",
    [
        "topk(0.001)",
        "topk(0.001) | qsgd(4)",
        "topk(0.001) | qsgd(4) | rans",
        "randomk(0.001, error_feedback=True)",
    ],
)
@pytest.mark.parametrize("turns", [False, True], ids=["in place", "two states take turns"])
def test_a_sparse_loop_takes_a_small_part_of_the_array(expression, turns, updates):
    codec, total, place = fedplug.codec(expression), fedplug.Sum(SIZE), np.empty(SIZE, np.float32)
    states = [codec.encode(updates[0])[1] for _ in range(2)]

    def loop():
        for round_num, x in enumerate(updates):
            if turns:
                payload, after = codec.encode(x, states[1], round_num, out=states[0])
                states[:] = states[1], after
            else:
                payload, states[1] = codec.encode(x, states[1], round_num, in_place=True)
            fedplug.decode(payload, out=place)
            total.add(payload)
            total.add(payload, 0.5)

    assert peak_of(loop) < ARRAY / 20


@pytest.mark.parametrize(
    "expression",
    [
        "qsgd(8)",
        "qsgd(2)",
        "qsgd(rounding='nearest')",
        "sign(error_feedback=False)",
        "float16",
        "bfloat16",
        "identity",
    ],
)
def test_a_dense_loop_takes_its_payloads(expression, updates):
    """Each payload is allocated once and decoded into its destination."""
    codec, total, place = fedplug.codec(expression), fedplug.Sum(SIZE), np.empty(SIZE, np.float32)
    size = len(codec.encode(updates[0])[0])

    def loop():
        for round_num, x in enumerate(updates):
            payload = codec.encode(x, None, round_num)[0]
            fedplug.decode(payload, out=place)
            total.add(payload)
            total.add(payload, 0.5)
            del payload

    assert peak_of(loop) < size + 300_000


def test_a_round_of_a_model_takes_a_small_part_of_it(updates):
    """The next residual takes the place of the last one, and a server's means that of its last means."""
    model = {"kernel": updates[0], "bn.running_var": updates[1][:100]}
    means = {name: np.empty_like(array) for name, array in model.items()}
    codec, total = fedplug.codec("topk(0.001)"), fedplug.ModelSum.like(model)
    state = codec.encode_model(model)[1]

    def loop():
        nonlocal state
        payloads, state = codec.encode_model(model, state, 1, in_place=True)
        total.add(payloads)
        fedplug.decode_model(payloads, out=means)
        total.mean(out=means)

    assert peak_of(loop) < ARRAY / 20


def test_a_client_in_a_store_copies_no_residual_to_read_it(updates):
    """The next residual is computed from the stored one, and copied into the store."""
    with fedplug.open_store("memory://") as store:
        client = fedplug.ClientCodec(fedplug.codec("topk(0.001)"), store, "7")
        receipt = None

        def loop():
            nonlocal receipt
            client.settle(receipt)
            receipt = client.encode_model({"kernel": updates[0]})[1]

        loop()
        assert peak_of(loop) < 2.1 * ARRAY


def test_a_difference_is_applied_in_given_memory(updates):
    place, message = np.empty_like(updates[0]), fedplug.diff(updates[0], updates[0] + 1)
    assert peak_of(lambda: fedplug.patch(updates[0], message, out=place)) < ARRAY / 20


def test_payloads_of_a_narrower_dtype_are_added_in_blocks(updates):
    codec, total = fedplug.codec("identity"), fedplug.Sum(SIZE, np.float64)
    payload, _ = codec.encode(updates[0])

    def loop():
        total.add(payload)
        total.add(payload, 0.5)

    assert peak_of(loop) < 400_000


@pytest.mark.parametrize("turns", [False, True], ids=["in place", "two states take turns"])
def test_the_error_feedback_of_a_dense_quantizer_takes_one_array_for_a_while(turns, updates):
    """The array holds what is decoded; the sum with the residual is in the memory of the next residual."""
    codec = fedplug.codec("sign")
    states = [codec.encode(updates[0])[1] for _ in range(2)]

    def loop():
        for round_num, x in enumerate(updates):
            if turns:
                states.append(codec.encode(x, states[1], round_num, out=states.pop(0))[1])
            else:
                states[1] = codec.encode(x, states[1], round_num, in_place=True)[1]

    assert peak_of(loop) < 1.2 * ARRAY


def test_a_codec_keeps_no_arrays_of_the_models_it_has_seen(updates):
    codec = fedplug.codec("topk(0.001)")
    tracemalloc.start()
    codec.encode_model({"x": updates[0]})
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < ARRAY / 20
