"""Compressed updates inside Flower's SecAgg+, with its real protocol and clients that drop out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fedplug_flower.secagg import CompressedSecAggMod, CompressedSecAggWorkflow
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import FitRes, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import DifferentialPrivacyClientSideFixedClipping, FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from local_flower import Model, Nodes, arrays, assert_same, new_model, record, update_of
from local_secagg import ENCODER, MASKED, SETUP, SHARE, UNMASK, Training, client_app, configs, fed_avg, losing

from fedplug.errors import CapabilityError
from fedplug.secure import MaskedSum

CLIENTS = (1, 2, 3, 4, 5)


@pytest.fixture
def nodes(nodes: Nodes) -> Nodes:
    """Returns five clients."""
    nodes.add(*CLIENTS, app=client_app())
    return nodes


class Unchanged(FedAvg):
    """Returns the mean as it gets it: FedAvg averages equal models again, with rounding."""

    rejected: tuple[int, ...] = ()

    def aggregate_fit(
        self, server_round: int, results: list[tuple[Any, FitRes]], failures: Any
    ) -> tuple[Parameters | None, dict[str, Any]]:
        _, metrics = super().aggregate_fit(server_round, results, failures)
        return None if server_round in self.rejected else results[0][1].parameters, metrics


class Checked:
    """A training whose models must be those of sums that are computed without any protocol."""

    def __init__(self, nodes: Nodes, encoder: str = ENCODER, **options: float) -> None:
        self.train = training(nodes, encoder, **options)
        self.begin(new_model(), encoder)

    def begin(self, model: Model, encoder: str = ENCODER) -> None:
        """Begins with a model and without residuals."""
        self.train.model = by_position(model)
        self.masked = MaskedSum(encoder, by_position(model))
        self.server: Mapping[str, Any] = self.masked.init_server()
        self.residuals = {node: self.masked.init_client() for node in range(1, 100)}

    def round(self, number: int, counted: tuple[int, ...] = CLIENTS, weight: int = 1) -> None:
        """Runs a round. The residuals of the counted clients change, and all others stay as they are."""
        before, message = self.train.model, self.masked.message(self.server)
        vectors = []
        for node in counted:
            change = by_position(update_of(node, number))
            update = {n: ((before[n] + change[n]) - before[n]).astype(np.float32) for n in before}
            vector, self.residuals[node] = self.masked.encode(
                update, self.residuals[node], message, weight=weight * node
            )
            vectors.append(self.masked.signed(vector))
        mean, self.server = self.masked.decode(np.sum(vectors, axis=0), self.server)
        after = self.train.round(number)
        sums = {name: before[name] + mean.update[name] for name in before}
        assert_same(after, {name: array.astype(after[name].dtype) for name, array in sums.items()})


def by_position(model: Model) -> Model:
    return {str(place): array for place, array in enumerate(model.values())}


def training(nodes: Nodes, encoder: str = ENCODER, shares: float = 1.0, threshold: float = 0.6) -> Training:
    strategy = Unchanged(
        fraction_evaluate=0.0,
        on_fit_config_fn=lambda number: {"round": number},
        fit_metrics_aggregation_fn=lambda found: {"loss": found[0][1]["loss"], "weights": str(found)},
    )
    return Training(nodes, CompressedSecAggWorkflow(shares, threshold, encoder), strategy=strategy)


def spoiling(key: str, change: Callable[[dict[str, Any]], Any], *liars: int) -> Callable[[Message], Message]:
    """Returns a network that changes the replies of nodes at a stage, given by a key in the reply."""

    def spoiled(reply: Message) -> Message:
        found = configs(reply)
        if reply.metadata.src_node_id in liars and key in found:
            change(found)
            reply.content["secaggplus_configs"] = ConfigRecord(found)
        return reply

    return spoiled


def raising(node: int, number: int) -> Model:
    """Fails in training in round 2, on node 3."""
    if (node, number) == (3, 2):
        raise RuntimeError("out of memory")
    return update_of(node, number)


@pytest.mark.parametrize(
    ("update", "lost", "counted"),
    [
        (update_of, [], CLIENTS),
        (raising, [], (1, 2, 4, 5)),
        (update_of, [(3, SETUP)], (1, 2, 4, 5)),
        (update_of, [(3, SHARE)], (1, 2, 4, 5)),
        (update_of, [(3, MASKED)], (1, 2, 4, 5)),
        (update_of, [(3, UNMASK)], CLIENTS),
        (update_of, [(2, MASKED), (3, UNMASK)], (1, 3, 4, 5)),
        (update_of, [(1, SETUP), (3, SHARE)], (2, 4, 5)),
    ],
    ids=["none", "in training", "setup", "share", "vector", "unmask", "vector and unmask", "setup and share"],
)
def test_the_sum_is_that_of_the_integers_of_the_clients_that_remain(
    nodes: Nodes, update: Any, lost: list[tuple[int, str]], counted: tuple[int, ...]
) -> None:
    """A client that drops out in round 2 keeps its residual, and is there again in rounds 3 and 4."""
    nodes.add(*CLIENTS, app=client_app(update))
    checked = Checked(nodes)
    for number in range(1, 5):
        nodes.on_the_way = losing(*(lost if number == 2 else []))
        checked.round(number, counted if number == 2 else CLIENTS)


@pytest.mark.parametrize("stage", [SETUP, SHARE, MASKED])
def test_each_client_may_share_with_a_few_neighbours_only(nodes: Nodes, stage: str) -> None:
    nodes.on_the_way = losing((3, stage))
    Checked(nodes, shares=3, threshold=2).round(1, (1, 2, 4, 5))


def test_a_round_with_too_few_clients_changes_nothing(nodes: Nodes) -> None:
    """Nor in a second run of the workflow, whose rounds Flower counts from 1 again."""
    checked = Checked(nodes)
    checked.round(1)
    for number in (2, 1):
        nodes.on_the_way = losing(*[(node, UNMASK) for node in (1, 2, 3)])
        before = checked.train.model
        assert_same(checked.train.round(number), before)
        nodes.on_the_way = lambda reply: reply
        checked.round(number + 1)


def test_a_round_that_the_strategy_rejects_confirms_no_update(nodes: Nodes) -> None:
    checked = Checked(nodes)
    checked.train.context.strategy.rejected = (2,)
    checked.round(1)
    checked.train.round(2)
    checked.round(3)


def test_a_restarted_node_with_a_new_id_continues_with_its_residual(nodes: Nodes) -> None:
    def change(node: int, number: int) -> Model:
        return update_of({100: 1}.get(node, node), number)

    for node in CLIENTS:
        nodes.add(node, app=client_app(change), **{"partition-id": node})
    checked = Checked(nodes)
    checked.round(1)
    checked.round(2)
    nodes.remove(1)
    nodes.add(100, app=client_app(change), **{"partition-id": 1})
    checked.round(3)


@pytest.mark.parametrize("by", ["0.05", "0.2, bits=10, rank=2"])
def test_weights_are_masked_and_bounded(nodes: Nodes, by: str) -> None:
    checked = Checked(nodes, f"sharedk({by}, clients=8, max_weight=40)")
    for number in (1, 2):
        checked.round(number, weight=10)  # node 5 has 50 examples
    metrics = checked.train.context.history.metrics_distributed_fit
    assert metrics["weights"][0][1] == str([(1, {"loss": 0.5})] * 5)


def test_what_a_client_sends(nodes: Nodes) -> None:
    """The masked stage's reply has the packed vector, the metrics, and nothing that depends on the update."""
    seen: list[tuple[RecordDict, dict[str, Any]]] = []

    def keep(reply: Message) -> Message:
        if MASKED in configs(reply):
            seen.append((reply.content, configs(reply)))
        return reply

    nodes.on_the_way = keep
    checked = Checked(nodes)
    checked.round(1)
    assert len(seen) == 5
    for content, protocol in seen:
        (packed,) = protocol[MASKED]
        assert len(packed) == math.ceil((1 + checked.masked.length) * 9 / 8)
        assert protocol.keys() == {MASKED}
        assert {key: dict(value) for key, value in content.items() if key != "secaggplus_configs"} == {
            "fitres.parameters": {},
            "fitres.num_examples": {"num_examples": 1},
            "fitres.metrics": {"loss": 0.5},
            "fitres.status": {"code": 0, "message": ""},
        }
    assert len({protocol[MASKED][0] for _, protocol in seen}) == 5
    metrics = checked.train.context.history.metrics_distributed_fit
    assert metrics["fedplug-uplink-bytes"] == [(1, 5 * len(packed))]
    assert metrics["fedplug-dense-bytes"] == [(1, 5 * 8 * 1530)]


P256 = ec.generate_private_key(ec.SECP256R1()).public_key()

HOSTILE: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "no second key": (SETUP, lambda found: found.pop("pk2")),
    "a key that is none": (SETUP, lambda found: found.update(pk1=b"none")),
    "a text as key": (SETUP, lambda found: found.update(pk1="none")),
    "a key of another curve": (SETUP, lambda found: found.update(pk2=public_key_to_bytes(P256))),
    "one key twice": (SETUP, lambda found: found.update(pk2=found["pk1"])),
    "too few ciphertexts": (SHARE, lambda found: found[SHARE].pop()),
    "no ciphertexts": (SHARE, lambda found: found.pop(SHARE)),
    "ciphertexts of numbers": (SHARE, lambda found: found.update({SHARE: [1, 2, 3, 4]})),
    "ciphertexts for others": (SHARE, lambda found: found.update(dsts=[7, 8, 9, 10])),
    "two ciphertexts for one": (SHARE, lambda found: found.update(dsts=[1, 1, 3, 4])),
    "a short vector": (MASKED, lambda found: found.update({MASKED: [found[MASKED][0][:-1]]})),
    "two vectors": (MASKED, lambda found: found.update({MASKED: found[MASKED] * 2})),
    "a vector of ones": (MASKED, lambda found: found.update({MASKED: [b"\xff" * len(found[MASKED][0])]})),
    "no vector": (MASKED, lambda found: found.update({MASKED: []})),
    "a text as vector": (MASKED, lambda found: found.update({MASKED: "none"})),
    "shares of nobody": (UNMASK, lambda found: found.update(nids=[1, 2, 3, 4, 99])),
    "too few shares": (UNMASK, lambda found: found[UNMASK].pop()),
    "no shares": (UNMASK, lambda found: found.pop(UNMASK)),
    "empty shares": (UNMASK, lambda found: found.update({UNMASK: [b""] * 5})),
    "zeros": (UNMASK, lambda found: found.update({UNMASK: [bytes(len(x)) for x in found[UNMASK]]})),
    "a wrong bit in each share": (
        UNMASK,
        lambda found: found.update({UNMASK: [x[:-1] + bytes([x[-1] ^ 1]) for x in found[UNMASK]]}),
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_reply_to_any_stage_costs_at_most_the_update_of_its_client(
    nodes: Nodes, log: list[str], case: str
) -> None:
    stage, change = HOSTILE[case]
    nodes.on_the_way = spoiling(stage, change, 2)
    checked = Checked(nodes)
    for number in (1, 2):
        checked.round(number, CLIENTS if stage == UNMASK else (1, 3, 4, 5))
    assert ["of node 2 is refused" in line for line in log] == [True, True]


def reverse_shares(found: dict[str, Any]) -> None:
    """Gives shares of the right form wrong content."""
    found[UNMASK] = [share[:4] + share[:3:-1] for share in found[UNMASK]]


def test_wrong_shares_of_two_clients_of_five_are_left_out(nodes: Nodes) -> None:
    nodes.on_the_way = spoiling(UNMASK, reverse_shares, 2, 4)
    Checked(nodes).round(1)


def test_a_round_whose_secrets_are_lost_is_halted_and_the_next_is_not(nodes: Nodes, log: list[str]) -> None:
    checked = Checked(nodes)
    before = checked.train.model
    nodes.on_the_way = spoiling(UNMASK, reverse_shares, 2, 3, 4)
    assert_same(checked.train.round(1), before)
    assert "the sum cannot be unmasked: the shares of the secret of node 1 do not fit each other" in log[0]
    assert "round 1: no update was accepted, so the model stays as it is" in log[1]
    nodes.on_the_way = lambda reply: reply
    checked.round(2)


def test_a_round_that_all_clients_leave_says_why(nodes: Nodes, log: list[str]) -> None:
    def failing(node: int, number: int) -> Model:
        raise RuntimeError("out of memory")

    nodes.add(*CLIENTS, app=client_app(failing))
    train = training(nodes)
    before = train.model
    assert_same(train.round(1), before)
    (line,) = log
    assert "round 1: no update was accepted, so the model stays as it is" in line
    assert "node 1 and 4 more" in line
    assert "out of memory" in line


def test_a_strategy_that_makes_the_model_float64_changes_nothing(nodes: Nodes) -> None:
    class Doubling(Unchanged):
        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
            found, metrics = super().aggregate_fit(server_round, results, failures)
            wide = [array.astype(np.float64) for array in parameters_to_ndarrays(found)]
            return ndarrays_to_parameters(wide), metrics

    checked = Checked(nodes)
    checked.train.context.strategy = Doubling(
        fraction_evaluate=0.0, on_fit_config_fn=lambda number: {"round": number}
    )
    for number in (1, 2, 3):
        checked.round(number)
    assert checked.train.model["0"].dtype == np.float64


def test_a_second_run_with_another_model_begins_without_residuals(nodes: Nodes) -> None:
    checked = Checked(nodes)
    for seed in (0, 1):
        checked.begin(new_model(seed))
        for number in (1, 2):
            checked.round(number)


def test_a_sum_that_is_not_valid_is_refused(nodes: Nodes, log: list[str]) -> None:
    """The client sends numbers that SecAgg+ cannot tell from masked ones."""
    nodes.on_the_way = spoiling(
        MASKED, lambda found: found.update({MASKED: [bytes(len(found[MASKED][0]))]}), 2
    )
    checked = Checked(nodes)
    before = checked.train.model
    assert_same(checked.train.round(1), before)
    (line,) = log
    assert "round 1 is refused, the model stays as it is" in line
    nodes.on_the_way = lambda reply: reply
    checked.round(2)


def test_more_clients_than_the_ring_has_room_for_are_refused(nodes: Nodes) -> None:
    train = training(nodes, "sharedk(0.05, clients=4)")
    with pytest.raises(ValueError, match="sampled 5 clients, and a sum of more than 4 could wrap"):
        train.round(1)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("mod_range", 2**16, "would change the integers .*'mod_range': 65536"),
        ("max_weight", 2.0, "would change the integers .*'max_weight': 2.0"),
        ("clipping_range", 3.0, "would change the integers .*'clipping_range': 3.0"),
        ("sample_num", 9, "the server adds 9 clients, and a sum of more than 8 could wrap"),
    ],
)
def test_a_client_refuses_a_set_up_whose_sum_is_not_exact(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, key: str, value: float, message: str
) -> None:
    original = CompressedSecAggMod.__call__

    def changed(self: Any, sent: Message, context: Context, call_next: Any) -> Message:
        found = sent.content.config_records["secaggplus_configs"]
        if "mod_range" in found:
            found[key] = value
        return original(self, sent, context, call_next)

    monkeypatch.setattr(CompressedSecAggMod, "__call__", changed)
    reasons = errors_of(nodes)
    training(nodes).round(1)
    assert len(reasons) == 5
    assert all(re.search(message, reason) for reason in reasons)


def errors_of(nodes: Nodes) -> list[str]:
    """Returns a list that collects the errors of nodes."""
    reasons: list[str] = []

    def keep(reply: Message) -> Message:
        reasons.extend([reply.error.reason] if reply.has_error() else [])
        return reply

    nodes.on_the_way = keep
    return reasons


def test_the_mod_needs_the_workflow(nodes: Nodes) -> None:
    reasons = errors_of(nodes)
    train = Training(nodes, SecAggPlusWorkflow(1.0, 0.6))
    before = train.model
    assert_same(train.round(1), before)
    assert len(reasons) == 5
    assert all("the server's fit_workflow is not a CompressedSecAggWorkflow" in reason for reason in reasons)


def test_a_client_without_the_mod_is_left_out(nodes: Nodes, log: list[str]) -> None:
    nodes.add(2, app=client_app(mods=[secaggplus_mod]))
    Checked(nodes).round(1, (1, 3, 4, 5))
    (line,) = log
    assert "the masked vector of node 2 is refused" in line
    assert "needs CompressedSecAggMod" in line


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (lambda node, _: {**update_of(node, 1), "dense/bias": np.float32(np.nan)}, "NonFiniteError"),
        (lambda node, _: {**update_of(node, 1), "dense/bias": np.ones((2, 30), np.float32)}, "array '1' has"),
    ],
)
def test_a_client_whose_update_cannot_be_masked_drops_out(nodes: Nodes, update: Any, message: str) -> None:
    nodes.add(2, app=client_app(update))
    reasons = errors_of(nodes)
    Checked(nodes).round(1, (1, 3, 4, 5))
    (reason,) = reasons
    assert message in reason


def test_a_model_of_another_form_is_refused(nodes: Nodes) -> None:
    train = training(nodes)
    train.round(1)
    train.model = {**new_model(), "dense/bias": np.zeros((31,), np.float32)}
    with pytest.raises(ValueError, match=r"array '1' of the model was float32\[30\] and is float32\[31\]"):
        train.round(2)
    train.model = {**new_model(), "more": np.zeros((3,), np.float32)}
    with pytest.raises(ValueError, match="array '3' of the model was None"):
        train.round(2)


def test_a_strategy_that_sends_other_arrays_is_refused(nodes: Nodes) -> None:
    class Other(FedAvg):
        def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> Any:
            return super().configure_fit(server_round, Parameters([], "numpy.ndarray"), client_manager)

    with pytest.raises(ValueError, match="other arrays than the model"):
        Training(nodes, CompressedSecAggWorkflow(1.0, 0.6, ENCODER), strategy=Other()).round(1)


def test_noise_for_clipped_updates_is_refused_because_integers_carry_a_residual(nodes: Nodes) -> None:
    private = DifferentialPrivacyClientSideFixedClipping(fed_avg(), 1.0, 0.5, 5)
    with pytest.raises(ValueError, match="carry a residual too, which no clipping bounds"):
        Training(nodes, CompressedSecAggWorkflow(1.0, 0.6, ENCODER), strategy=private).round(1)


@pytest.mark.parametrize("encoder", ["topk(0.01)", "identity"])
def test_other_encoders_are_refused_at_once(encoder: str) -> None:
    with pytest.raises(CapabilityError, match="integers of a ring"):
        CompressedSecAggWorkflow(1.0, 0.6, encoder)


def test_other_messages_pass_unchanged(nodes: Nodes) -> None:
    app = ClientApp(mods=[CompressedSecAggMod()])

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return Message(RecordDict(message.content), reply_to=message)

    nodes.add(1, app=app)
    content = RecordDict({"arrays": record(new_model())})
    (reply,) = nodes.send_and_receive([Message(content, dst_node_id=1, message_type="evaluate")])
    assert_same(arrays(reply.content["arrays"]), new_model())
