"""Encoded broadcasts: every client ends with the model the server says it sent, and bytes are those sent."""

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
from fedplug.tff.process.distribution.broadcast import build_encoded_broadcast
from fedplug.tff.process.distribution.distributors import build_distributor
from fedplug.tff.process.distribution.reference import Held
from fedplug.tff.runtime import use_runtime

pytestmark = pytest.mark.usefixtures("inprocess")

MODEL = tff.to_type({"w": tff.TensorType(np.float32, [200]), "steps": tff.TensorType(np.int32)})
DENSE = 4 * 200 + 4
W = 0  # the place of "w" among the tensors
ROUNDS = 8


def model(seed):
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=200).astype(np.float32), "steps": np.int32(seed)}


def build(encoder="topk(0.1)", value_type=MODEL, snapshot=None, lowering="fused"):
    encoding = model_encoder(fedplug.encoder(encoder), value_type, 64)
    return build_encoded_broadcast(value_type, encoding, lowering, snapshot)


MEMORY = "artemis('randomk(0.25)', rate=0.25)"
ENCODERS = ["topk(0.1)", "topk(0.1) | qsgd(4) | rans", "bfp(5) | rans", "sign", MEMORY]


@pytest.fixture(scope="module", params=ENCODERS)
def parts(request):
    with use_runtime("inprocess"):
        return build(request.param)


@pytest.fixture(scope="module")
def history(parts):
    with use_runtime("inprocess"):
        return broadcasts(parts, ROUNDS)


def broadcasts(parts, rounds):
    """The messages of rounds in which the model drifts, and what clients then hold."""
    state, messages, held = parts.init(), [], []
    drifting = model(0)
    for number in range(rounds):
        output = parts.publish(drifting, state)
        state = output["state"]
        messages.append(output["message"])
        held.append(Held(tuple(leaves(state["sent"])), tuple(map(tf.constant, state.get("memory", ())))))
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


def test_who_hears_every_message_has_the_reference_model_bit_for_bit(parts, history) -> None:
    messages, expected = history
    held = parts.reference.read(messages[0]["snapshots"], messages[0]["messages"])
    same(held, expected[0])
    for message, then in zip(messages[1:], expected[1:], strict=True):
        held = parts.reference.follow(held, message["messages"], message["snapshots"], message["round_num"])
        same(held, then)


@pytest.mark.parametrize(
    "encoder", [pytest.param("topk(0.1) | qsgd(4) | rans", marks=pytest.mark.slow), MEMORY]
)
def test_stock_tensorflow_sends_the_same(encoder) -> None:
    """Of graphs that need no compiled op; they take ten times as long to build as the others."""
    same(*(broadcasts(build(encoder, lowering=lowering), 2) for lowering in ("fused", "reference")))


def test_who_comes_in_at_any_round_has_it_from_the_snapshot(parts, history) -> None:
    for message, expected in zip(*history, strict=True):
        same(parts.reference.read(message["snapshots"], message["messages"]), expected)


@pytest.mark.parametrize("heard", [0, 3, ROUNDS - 2])
def test_who_missed_rounds_has_it_from_the_entries_that_changed_since(parts, history, heard) -> None:
    """Of what snapshots stand for: the reference model or, where there is one, its memory."""
    messages, held = history
    old, new = (
        [(held[at].memory if at_memory else held[at].reference)[W], held[at].reference[1]]
        for at in (heard, -1)
        for at_memory in [bool(parts.reference.memory_rate)]
    )
    last = messages[-1]
    changes = parts.reference.changes(last["snapshots"], last["changed"], np.int32(heard))
    whole = parts.reference.read(last["snapshots"], last["messages"])
    whole = [(whole.memory or whole.reference)[W], whole.reference[1]]
    merged = [
        coder.decode(tf.constant(buffer), before) if coder and len(buffer) < len(snapshot) else after
        for coder, buffer, snapshot, before, after in zip(
            parts.reference.change_coders, changes, last["snapshots"], old, whole, strict=True
        )
    ]
    same(merged, new)


@pytest.mark.parametrize("heard", [-1, 0, 3, ROUNDS - 2])
def test_a_client_is_sent_the_cheapest_and_never_more_than_a_snapshot(parts, history, heard) -> None:
    messages, _ = history
    client = parts.init_client()
    for message in messages[: heard + 1]:
        client = parts.catch_up(client, message)["client"]
    last = messages[-1]
    told = parts.catch_up(client, last)
    beside = sizes(last["messages"]) if parts.reference.memory_rate else 0
    snapshot = sizes(last["snapshots"]) + beside
    if heard < 0:
        expected = snapshot
    else:
        merged = sizes(parts.reference.changes(last["snapshots"], last["changed"], np.int32(heard))) + beside
        replay = sum(sizes(message["messages"]) for message in messages[heard + 1 :])
        by_differences = [place in parts.reference.by_differences for place in range(2)]
        expected = np.minimum(merged, np.where(by_differences, replay, snapshot))
    assert told["downlink_bytes"] == expected.sum() <= snapshot.sum()
    assert told["client"]["round_num"] == last["round_num"] == ROUNDS - 1


def test_each_form_is_the_cheapest_for_somebody() -> None:
    """A cheap message, few entries that changed, a snapshot: in this test they all win."""
    parts = build("topk(0.02) | sign")
    messages, _ = broadcasts(parts, ROUNDS)
    last = messages[-1]
    merged = [
        sizes(parts.reference.changes(last["snapshots"], last["changed"], np.int32(heard)))[W]
        for heard in range(ROUNDS - 1)
    ]
    replay = [sum(sizes(m["messages"])[W] for m in messages[heard + 1 :]) for heard in range(ROUNDS - 1)]
    assert replay[-1] < merged[-1]
    assert merged[0] < min(replay[0], sizes(last["snapshots"])[W])


@pytest.mark.parametrize(("encoder", "step"), [("topk(0.1)", 1 / 32), ("bfp(5)", 1 / 4)])
def test_what_is_left_out_comes_later_so_a_model_at_rest_is_reached(encoder, step) -> None:
    """Up to half a step of the snapshot, which is where the difference to it ends."""
    parts = build(encoder)
    state = parts.publish(model(0), parts.init())["state"]
    for _ in range(15):
        state = parts.publish(model(1), state)["state"]
    assert np.abs(state["sent"]["w"] - model(1)["w"]).max() <= step / 2
    assert state["sent"]["steps"] == 1


def test_a_model_at_rest_is_a_few_bytes_for_who_has_it() -> None:
    parts, state = build("bfp(5)"), None
    for _ in range(3):
        state = (output := parts.publish(model(0), parts.init() if state is None else state))["state"]
    client = {"round_num": np.int32(1), "position": np.zeros(2, np.int64)}
    new = parts.init_client()
    known, unknown = (parts.catch_up(c, output["message"])["downlink_bytes"] for c in (client, new))
    assert known < 140 < unknown


def test_encoders_with_error_feedback_do_not_feed_back_twice() -> None:
    found = [broadcasts(build(f"topk(0.1, error_feedback={on})"), 3)[1] for on in (False, True)]
    same(found[0][2], found[1][2])


def test_the_way_of_a_tensor_follows_from_its_encoder_and_from_the_snapshot_that_is_asked_for() -> None:
    assert build("qsgd(8)").reference.by_differences == ()
    assert build("bfp(4)").reference.by_differences == ()
    assert build("sign").reference.by_differences == (W,)  # too coarse for a model
    assert build("topk(0.1)").reference.by_differences == (W,)
    assert build("qsgd(4)", snapshot="bfp(6)").reference.by_differences == (W,)
    assert build("identity", snapshot="bfp(6)").reference.by_differences == ()


def test_a_memory_follows_as_in_mcm_and_clients_train_on_it_and_the_last_message() -> None:
    """Algorithm 1 of the paper in NumPy: w is what clients train on, h the memory, which snapshots round."""
    parts, h, w = build(MEMORY), None, None
    state = parts.init()
    for seed in range(4):
        output = parts.publish(model(seed), state)
        state, message = output["state"], output["message"]
        h = model(seed)["w"] if h is None else h + np.float32(0.25) * (w - h)
        h = fedplug.decode(fedplug.codec("bfp(8) | rans").encode(h)[0])
        w = h + fedplug.decode(np.asarray(message["messages"][W]).tobytes())
        np.testing.assert_array_equal(state["memory"][0], h)
        np.testing.assert_array_equal(state["sent"]["w"], w)


def test_a_memory_comes_near_to_a_model_at_rest_and_so_does_what_an_unbiased_encoder_sends() -> None:
    parts = build(MEMORY)
    state = parts.publish(model(0), parts.init())["state"]
    target = model(1)["w"]
    before = np.linalg.norm(state["sent"]["w"] - target)
    for _ in range(40):
        state = parts.publish(model(1), state)["state"]
    for found in (state["memory"][0], state["sent"]["w"]):
        assert np.linalg.norm(found - target) < before / 5


def test_ef21_of_a_broadcast_is_ef21_p_the_way_by_differences() -> None:
    named, plain = (broadcasts(build(encoder), 4) for encoder in ("ef21('topk(0.1)')", "topk(0.1)"))
    same(named[1], plain[1])
    assert build("ef21('bfp(4)')").reference.by_differences == (W,)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("artemis('randomk(0.1)', rate=0.5)", r"a memory that moves at 0.5 would.*at most 0\.\d"),
        ("rules({'w': \"artemis('qsgd(4)')\", '*': \"artemis('qsgd(4)', rate=0.2)\"})", "the same rate"),
    ],
    ids=["too fast", "two rates"],
)
def test_a_memory_that_would_go_away_from_the_model_is_refused(encoder, message) -> None:
    two = tff.to_type({name: tff.TensorType(np.float32, [200]) for name in ("v", "w")})
    encoding = model_encoder(fedplug.encoder(encoder), two, 64, ["v", "w"])
    with pytest.raises(CapabilityError, match=message):
        build_encoded_broadcast(two, encoding, "fused")


@pytest.mark.parametrize(
    ("snapshot", "error", "message"),
    [
        ("topk(0.5)", CapabilityError, r"cannot encode snapshots.*for instance bfp\(8\)"),
        ("sign", CapabilityError, "cannot encode snapshots"),
        ("budget('qsgd(8)', 500)", ConfigError, "without a budget"),
    ],
)
def test_a_snapshot_that_could_not_stand_for_the_model_is_refused(snapshot, error, message) -> None:
    with pytest.raises(error, match=message):
        build("topk(0.1)", snapshot=fedplug.encoder(snapshot))


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


@pytest.mark.parametrize("encoder", ["topk(0.1)", "bfp(5) | rans"])
def test_statistics_are_sent_exactly(encoder) -> None:
    type_of = tff.TensorType(np.float32, [200])
    value_type = tff.to_type({"conv/kernel": type_of, "bn/moving_variance": type_of})
    parts = build(encoder, value_type)
    state = parts.init()
    for number in range(3):
        sent = {name: np.square(model(number)["w"]) for name in ("conv/kernel", "bn/moving_variance")}
        state = parts.publish(sent, state)["state"]
        assert np.array_equal(state["sent"]["bn/moving_variance"], sent["bn/moving_variance"])
        assert not np.array_equal(state["sent"]["conv/kernel"], sent["conv/kernel"])


def test_a_model_with_a_nan_is_not_broadcast() -> None:
    parts = build()
    broken = {**model(0), "w": np.full(200, np.nan, np.float32)}
    with pytest.raises(ComputationError, match="the model to be broadcast holds a NaN"):
        parts.publish(broken, parts.init())


def test_a_changed_message_is_refused() -> None:
    parts = build("topk(0.1)")
    messages, (held, _) = broadcasts(parts, 2)
    for form in ("messages", "snapshots"):
        buffers = [np.array(buffer) for buffer in messages[1][form]]
        buffers[W][-1] ^= 1
        sent_now = {**messages[1], form: [tf.constant(buffer) for buffer in buffers]}
        read = {
            "messages": lambda now: parts.reference.follow(held, now["messages"], now["snapshots"], 1),
            "snapshots": lambda now: parts.reference.read(now["snapshots"], now["messages"]),
        }[form]
        with pytest.raises(tf.errors.InvalidArgumentError, match="checksum"):
            read(sent_now)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["topk(0.1)", MEMORY])
def test_the_distributor_of_a_tff_process_sends_differences_and_counts_them(
    encoder, model_fn, sgd, dataset
) -> None:
    with tf.Graph().as_default():
        weights_type = tff.types.to_type(tff.learning.models.weights_type_from_model(model_fn))
    outputs = {}
    for runtime in ("inprocess", "native"):
        with use_runtime(runtime):
            process = tff.learning.algorithms.build_weighted_fed_avg(
                model_fn, sgd, model_distributor=build_encoded_distributor(weights_type, encoder)
            )
            state, counts = process.initialize(), []
            for _ in range(3):
                output = process.next(state, [dataset(1), dataset(2)])
                state = output.state
                counts.append(int(output.metrics["distributor"]["downlink_bytes"]))
            outputs[runtime] = (counts, [np.asarray(w) for w in state.global_model_weights.trainable])
    counts, weights = outputs["inprocess"]
    assert counts[0] > 1.5 * counts[1]  # a small model: much is headers
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
    assert short < 0.6 * whole
    assert whole + 2 * short < down[2] < 2 * whole + short  # one that missed nothing, one a round, a new one
    assert {int(client["broadcast"]["round_num"]) for client in third["client_states"]} == {2}
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


def test_the_code_on_the_page_is_run(model_fn, sgd) -> None:
    page = Path(__file__).parents[3] / "docs" / "broadcast.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    weights_type = tff.learning.models.weights_type_from_model(model_fn)
    names = {"model_fn": model_fn, "sgd": sgd, "weights_type": weights_type, "tff": tff, "fedplug": fedplug}
    for block in blocks:
        exec(block, names)
    assert isinstance(names["distributor"], tff.learning.templates.DistributionProcess)
    assert isinstance(names["process"], tff.learning.templates.LearningProcess)


@pytest.mark.slow
def test_auto_of_a_broadcast_is_an_encoder_of_models(model_fn, sgd) -> None:
    auto, named = (
        build_weighted_fed_avg(model_fn, sgd, broadcast_encoder=encoder, min_size=1)
        for encoder in ("auto", "bfp(5) | rans")
    )
    assert auto.signature["broadcast_encoder"] == named.signature["broadcast_encoder"]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoder",
    ["topk(0.2) | qsgd(4)", "artemis('qsgd(4)', rate=0.2)"],
    ids=["differences", "memory"],
)
def test_a_training_that_was_interrupted_sends_the_same_afterwards(
    encoder, model_fn, sgd, dataset, tmp_path
) -> None:
    """What clients have heard, which entries changed when, and memories are in the store with the rest."""
    clients = {str(number): dataset(number) for number in range(4)}

    def train(rounds, store):
        encoders = {"*/bias": "bfp(4)", "*": encoder}
        process = build_weighted_fed_avg(model_fn, sgd, broadcast_encoder=encoders, min_size=1)
        found = {}
        trainer = fedplug.Trainer(process, clients, clients_per_round=2, store=store)
        state = trainer.run(rounds, lambda number, _, metrics: found.update({number: metrics}))
        return state, {number: int(m["distributor"]["downlink_bytes"]) for number, m in found.items()}

    straight, counts = train(5, None)
    for rounds in (3, 5):
        with fedplug.open_store(f"sqlite:///{tmp_path}/store") as store:
            resumed, sent = train(rounds, store)
    assert sent == {number: counts[number] for number in (4, 5)}
    for ours, theirs in zip(
        (straight.distributor["sent"], straight.global_model_weights),
        (resumed.distributor["sent"], resumed.global_model_weights),
        strict=True,
    ):
        tf.nest.map_structure(np.testing.assert_array_equal, ours.trainable, theirs.trainable)
