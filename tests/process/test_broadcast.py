"""Encoded broadcasts: every client ends with the model the server says it sent, and bytes are those sent."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.errors import CapabilityError, ComputationError
from fedplug.process import build_encoded_distributor, build_weighted_fed_avg
from fedplug.process.aggregation.encoded_aggregation import model_encoder
from fedplug.process.distribution.broadcast import build_encoded_broadcast
from fedplug.process.distribution.distributors import build_distributor
from fedplug.runtime import use_runtime

pytestmark = pytest.mark.usefixtures("inprocess")

MODEL = tff.to_type({"w": tff.TensorType(np.float32, [200]), "steps": tff.TensorType(np.int32)})
DENSE = 4 * 200 + 4
ROUNDS = 10


def model(seed):
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=200).astype(np.float32), "steps": np.int32(seed)}


def build(encoder="topk(0.1)", value_type=MODEL):
    encoding = model_encoder(fedplug.encoder(encoder), value_type, 64)
    return build_encoded_broadcast(value_type, encoding, "reference")


@pytest.fixture(scope="module")
def parts():
    with use_runtime("inprocess"):
        return build()


@pytest.fixture(scope="module")
def history(parts):
    with use_runtime("inprocess"):
        return broadcasts(parts, ROUNDS)


def broadcasts(parts, rounds):
    """The messages of rounds in which the model changes, and what the server says it sent, of each round."""
    state, messages, sent = parts.init(), [], []
    for number in range(rounds):
        output = parts.publish(model(number), state)
        state = output["state"]
        messages.append(output["message"])
        sent.append(state["sent"])
    return messages, sent


def length(message):
    return sum(len(buffer) for buffer in message["buffers"])


def test_who_hears_every_message_has_the_sent_model_bit_for_bit(parts, history) -> None:
    messages, sent = history
    held = parts.init()["sent"]
    for message, expected in zip(messages, sent, strict=True):
        held = parts.receive(held, message)
        tf.nest.map_structure(np.testing.assert_array_equal, dict(held), dict(expected))


def test_the_first_message_is_the_model_itself_and_later_ones_are_short(history) -> None:
    messages, sent = history
    tf.nest.map_structure(np.testing.assert_array_equal, dict(sent[0]), model(0))
    assert length(messages[0]) > DENSE
    assert max(map(length, messages[1:])) < DENSE / 4


def test_what_is_left_out_comes_later_so_a_model_at_rest_is_reached(parts) -> None:
    state = parts.publish(model(0), parts.init())["state"]
    for _ in range(12):
        state = parts.publish(model(1), state)["state"]
    np.testing.assert_allclose(state["sent"]["w"], model(1)["w"], atol=1e-6)
    assert state["sent"]["steps"] == 1


@pytest.mark.parametrize(("heard", "absent"), [(0, 0), (0, 5), (1, 0), (1, 2), (3, 1), (2, 7)])
def test_a_client_that_missed_rounds_catches_up_with_what_is_shorter(parts, history, heard, absent) -> None:
    """``heard`` rounds, then ``absent`` missed ones, then one it takes part in."""
    messages, sent = (part[: heard + absent + 1] for part in history)
    position, held = parts.init_client(), parts.init()["sent"]
    for message in messages[:heard]:
        position = parts.catch_up(position, message)["position"]
        held = parts.receive(held, message)
    told = parts.catch_up(position, messages[-1])
    replay, whole = sum(map(length, messages[heard:])), length(messages[0])
    assert told["downlink_bytes"] == (whole if heard == 0 else min(replay, whole))
    assert told["position"] == messages[-1]["position"]
    for message in messages[heard:]:  # the one way; the other is to be given what the server sent, whole
        held = parts.receive(held, message)
    tf.nest.map_structure(np.testing.assert_array_equal, dict(held), dict(sent[-1]))


def test_catching_up_goes_both_ways_in_this_test(history) -> None:
    lengths = [length(message) for message in history[0]]
    assert sum(lengths[1:3]) < lengths[0] < sum(lengths[2:])


def test_encoders_with_error_feedback_do_not_feed_back_twice(history) -> None:
    _, sent = broadcasts(build("topk(0.1, error_feedback=False)"), 3)
    tf.nest.map_structure(np.testing.assert_array_equal, dict(sent[-1]), dict(history[1][2]))


@pytest.mark.parametrize("encoder", ["randomk(0.1)", "terngrad"])
def test_an_encoder_that_would_blow_up_is_refused_with_one_that_would_not(encoder) -> None:
    with pytest.raises(CapabilityError, match=r"cannot encode a broadcast.*for instance topk\(0.1\)"):
        build(encoder)


@pytest.mark.parametrize("encoder", ["identity", "qsgd(8)", "sign", "topk(0.1) | qsgd(4) | rice", "dgc(0.1)"])
def test_encoders_that_come_closer_are_taken_and_do(encoder) -> None:
    parts = build(encoder)
    state = parts.publish(model(0), parts.init())["state"]
    before = np.linalg.norm(model(1)["w"] - model(0)["w"])
    for _ in range(10):
        state = parts.publish(model(1), state)["state"]
    assert np.linalg.norm(state["sent"]["w"] - model(1)["w"]) < before / 2


def test_a_model_with_a_nan_is_not_broadcast(parts) -> None:
    broken = {**model(0), "w": np.full(200, np.nan, np.float32)}
    with pytest.raises(ComputationError, match="the model to be broadcast holds a NaN"):
        parts.publish(broken, parts.init())


def test_a_changed_message_is_refused(parts, history) -> None:
    messages, _ = history
    buffers = [np.array(buffer) for buffer in messages[1]["buffers"]]
    buffers[0][-1] ^= 1
    with pytest.raises(ComputationError, match="checksum"):
        parts.receive(parts.init()["sent"], {**messages[1], "buffers": tuple(buffers)})


def test_the_distributor_of_a_tff_process_sends_differences_and_counts_them(model_fn, sgd, dataset) -> None:
    with tf.Graph().as_default():
        weights_type = tff.types.to_type(tff.learning.models.weights_type_from_model(model_fn))
    outputs = {}
    for runtime in ("inprocess", "native"):
        with use_runtime(runtime):
            process = tff.learning.algorithms.build_weighted_fed_avg(
                model_fn, sgd, model_distributor=build_encoded_distributor(weights_type, "topk(0.1)")
            )
            state, counts = process.initialize(), []
            for _ in range(3):
                output = process.next(state, [dataset(1), dataset(2)])
                state = output.state
                counts.append(int(output.metrics["distributor"]["downlink_bytes"]))
            outputs[runtime] = (counts, [np.asarray(w) for w in state.global_model_weights.trainable])
    counts, weights = outputs["inprocess"]
    assert counts[0] > 3 * counts[1]
    assert counts == outputs["native"][0]
    for ours, theirs in zip(weights, outputs["native"][1], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_plain_distributor_counts_the_bytes_of_the_model_as_it_is() -> None:
    process = build_distributor(MODEL)

    @tff.federated_computation(
        process.next.type_signature.parameter[1], tff.FederatedType(np.int32, tff.CLIENTS)
    )
    def send(value, clients):
        return process.next(process.initialize(), value).measurements

    assert send(model(0), [1, 2, 3])["downlink_bytes"] == 3 * DENSE


@pytest.fixture(scope="module")
def two_way(model_fn, sgd):
    with use_runtime("inprocess"):
        return build_weighted_fed_avg(model_fn, sgd, encoder="topk(0.1)", broadcast_encoder="topk(0.1)")


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
    assert short < whole / 3
    latest = int(third["state"].distributor["position"]) - int(second["state"].distributor["position"])
    assert down[2] == latest + (short + latest) + whole  # one that was there, one that missed one, a new one
    assert len({int(client["broadcast"]) for client in third["client_states"]}) == 1
    assert third["metrics"]["aggregator"]["uplink_bytes"] > 0


def test_clients_train_on_the_model_as_sent(two_way, model_fn, sgd, dataset) -> None:
    """What it learns is what the client of a plain process learns that starts from there."""
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


def test_a_broadcast_encoder_that_sends_everything_changes_nothing(model_fn, sgd, dataset) -> None:
    """The sums of differences differ from the model in the last bits only."""
    results = []
    for encoder in (None, "identity"):
        process = build_weighted_fed_avg(model_fn, sgd, broadcast_encoder=encoder)
        state, clients = process.initialize(), [process.initialize_client()]
        for _ in range(3):
            output = process.next(state, [dataset(1)], clients)
            state, clients = output["state"], output["client_states"]
        results.append([np.asarray(w) for w in state.global_model_weights.trainable])
    for plain, encoded in zip(*results, strict=True):
        np.testing.assert_allclose(plain, encoded, atol=1e-6)
