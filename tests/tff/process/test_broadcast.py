"""Tests encoded broadcasts: every client has the server's reference model, and byte counts are exact."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.errors import CapabilityError, ComputationError, ConfigError
from fedplug.tff import structures
from fedplug.tff.process import build_encoded_distributor, build_weighted_fed_avg
from fedplug.tff.process.aggregation.encoded_aggregation import model_encoder
from fedplug.tff.process.broadcaster import GraphBroadcaster, build_distributor

pytestmark = pytest.mark.usefixtures("inprocess")

MODEL = tff.to_type({"w": tff.TensorType(np.float32, [200]), "steps": tff.TensorType(np.int32)})
DENSE = 4 * 200 + 4
ROUNDS = 8


def model(seed):
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=200).astype(np.float32), "steps": np.int32(seed)}


def build(encoder="bfp(5) | rans", value_type=MODEL, lowering="fused"):
    encoding = model_encoder(fedplug.encoder(encoder), value_type, 64)
    return GraphBroadcaster(value_type, encoding, lowering)


@pytest.fixture(scope="module")
def parts(inprocess):
    return build("bfp(4)")


@pytest.fixture(scope="module")
def history(parts):
    return broadcasts(parts, ROUNDS)


def broadcasts(parts, rounds):
    """Returns the messages of rounds in which the model drifts, and the reference models."""
    state, messages, held = parts.init(), [], []
    drifting = model(0)
    for number in range(rounds):
        output = parts.publish(drifting, state)
        state = output["state"]
        messages.append(output["server_message"])
        held.append(leaves(state["sent"]))
        drifting = {
            "w": drifting["w"] + np.float32(0.05) * model(100 + number)["w"],
            "steps": np.int32(number + 1),
        }
    return messages, held


def leaves(value):
    return [tf.constant(leaf) for leaf in structures.flatten(value, MODEL)]


def same(found, expected):
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(one).tobytes(), np.asarray(other).tobytes())


def sizes(buffers):
    return np.array([len(buffer) for buffer in buffers])


def test_a_client_that_joins_in_any_round_has_the_reference_model_from_the_snapshot(parts, history) -> None:
    for message, expected in zip(*history, strict=True):
        same(parts.encoder.decode(message["snapshots"]), expected)


@pytest.mark.parametrize("heard", [0, ROUNDS - 2])
def test_a_client_that_missed_rounds_has_it_from_the_changed_entries(parts, history, heard) -> None:
    messages, held = history
    last = messages[-1]
    changes = parts.changes(last["snapshots"], last["changed"], np.int32(heard))
    merged = [
        coder.decode(tf.constant(buffer), before) if coder and len(buffer) < len(snapshot) else after
        for coder, buffer, snapshot, before, after in zip(
            parts.change_coders, changes, last["snapshots"], held[heard], held[-1], strict=True
        )
    ]
    same(merged, held[-1])


@pytest.mark.parametrize("heard", [-1, ROUNDS - 2])
def test_a_client_is_sent_the_shorter_form_and_never_more_than_a_snapshot(parts, history, heard) -> None:
    messages, _ = history
    client = parts.init_client()
    for message in messages[: heard + 1]:
        client = parts.catch_up(client, message)["client"]
    last = messages[-1]
    caught_up = parts.catch_up(client, last)
    snapshot = expected = sizes(last["snapshots"])
    if heard >= 0:
        expected = sizes(parts.changes(last["snapshots"], last["changed"], np.int32(heard)))
    assert caught_up["downlink_bytes"] == expected.sum() <= snapshot.sum()
    assert caught_up["client"]["round_num"] == last["round_num"] == ROUNDS - 1


def test_the_error_of_a_snapshot_does_not_accumulate() -> None:
    parts = build()
    alone = parts.publish(model(1), parts.init())["state"]
    state = parts.init()
    for seed in (0, 2, 1):
        state = parts.publish(model(seed), state)["state"]
    same(state["sent"], alone["sent"])


@pytest.mark.parametrize("encoder", ["topk(0.1)", "qsgd(2)"])
def test_an_encoder_that_is_too_coarse_for_a_model_is_refused_with_one_that_is_not(encoder) -> None:
    with pytest.raises(CapabilityError, match=r"cannot encode a broadcast.*such as bfp\(5\) \| rans"):
        build(encoder)


def test_rate_control_is_refused() -> None:
    with pytest.raises(ConfigError, match="no rate control; use an encoder without a budget"):
        build("budget('qsgd(8)', 500)")


def test_statistics_are_sent_exactly() -> None:
    type_of = tff.TensorType(np.float32, [200])
    value_type = tff.to_type({"conv/kernel": type_of, "bn/moving_variance": type_of})
    parts = build(value_type=value_type)
    sent = {name: np.square(model(0)["w"]) for name in ("conv/kernel", "bn/moving_variance")}
    received = parts.publish(sent, parts.init())["state"]["sent"]
    assert np.array_equal(received["bn/moving_variance"], sent["bn/moving_variance"])
    assert not np.array_equal(received["conv/kernel"], sent["conv/kernel"])


def test_a_model_with_a_nan_is_not_broadcast() -> None:
    parts = build()
    broken = {**model(0), "w": np.full(200, np.nan, np.float32)}
    with pytest.raises(ComputationError, match="the model to be broadcast holds a NaN"):
        parts.publish(broken, parts.init())


@pytest.mark.slow
def test_the_distributor_of_a_tff_process_counts_the_changed_entries(model_fn, sgd, dataset) -> None:
    with tf.Graph().as_default():
        weights_type = tff.types.to_type(tff.learning.models.weights_type_from_model(model_fn))
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, sgd, model_distributor=build_encoded_distributor(weights_type, "bfp(5) | rans")
    )
    state, counts = process.initialize(), []
    for _ in range(3):
        output = process.next(state, [dataset(1), dataset(2)])
        state = output.state
        counts.append(int(output.metrics["distributor"]["downlink_bytes"]))
    assert counts[0] > 1.2 * counts[1]  # headers are a large part of a small model


def test_a_plain_distributor_counts_the_bytes_of_the_model() -> None:
    process = build_distributor(MODEL)

    @tff.federated_computation(
        process.next.type_signature.parameter[1], tff.FederatedType(np.int32, tff.CLIENTS)
    )
    def send(value, clients):
        return process.next(process.initialize(), value).measurements

    assert send(model(0), [1, 2, 3])["downlink_bytes"] == 3 * DENSE


@pytest.fixture(scope="module")
def two_way(model_fn, sgd, inprocess):
    return build_weighted_fed_avg(model_fn, sgd, encoder="topk(0.1)", broadcast_encoder="bfp(4)")


def test_averaging_with_a_broadcast_encoder_counts_both_ways_and_keeps_how_far_clients_heard(
    two_way, dataset
) -> None:
    state, new = two_way.initialize(), two_way.initialize_client()
    first = two_way.next(state, [dataset(1), dataset(2)], [new, new])
    both = first["client_states"]
    second = two_way.next(first["state"], [dataset(1)], [both[0]])
    third = two_way.next(
        second["state"], [dataset(1), dataset(2), dataset(3)], [*second["client_states"], both[1], new]
    )
    down = [int(output["metrics"]["distributor"]["downlink_bytes"]) for output in (first, second, third)]
    whole, short = down[0] // 2, down[1]
    assert short < 0.7 * whole
    # One client missed nothing, one missed a round, and one is new.
    assert whole + 2 * short < down[2] < 2 * whole + short
    assert {int(client["broadcast"]["round_num"]) for client in third["client_states"]} == {2}
    assert third["metrics"]["aggregator"]["uplink_bytes"] > 0


def test_clients_train_on_the_model_as_sent(two_way, model_fn, sgd, dataset) -> None:
    """A client learns what it would learn in a plain process that starts from the broadcast model."""
    plain = build_weighted_fed_avg(model_fn, sgd, encoder="topk(0.1)")
    new = two_way.initialize_client()
    state = two_way.next(two_way.initialize(), [dataset(1)], [new])["state"]
    ours = two_way.next(state, [dataset(2)], [new])
    start = plain.initialize()
    start = tff.learning.templates.LearningAlgorithmState(
        ours["state"].distributor["sent"],
        distributor=start.distributor,
        client_work=start.client_work,
        aggregator=start.aggregator,
        finalizer=start.finalizer,
    )
    theirs = plain.next(start, [dataset(2)], [plain.initialize_client()])
    for before, after, base, result in zip(
        *(s.global_model_weights.trainable for s in (state, ours["state"], start, theirs["state"])),
        strict=True,
    ):
        np.testing.assert_allclose(np.subtract(after, before), np.subtract(result, base), atol=1e-6)


def test_the_code_on_the_page_is_run(model_fn, sgd) -> None:
    page = Path(__file__).parents[3] / "docs" / "broadcast.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    weights_type = tff.learning.models.weights_type_from_model(model_fn)
    names = {"model_fn": model_fn, "sgd": sgd, "weights_type": weights_type, "tff": tff, "fedplug": fedplug}
    for block in blocks:
        exec(block, names)
    assert isinstance(names["distributor"], tff.learning.templates.DistributionProcess)
    assert isinstance(names["process"], tff.learning.templates.LearningProcess)
