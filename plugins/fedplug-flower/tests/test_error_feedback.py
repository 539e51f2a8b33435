"""A client's residual changes only when the server has accepted the update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedplug_flower import Compressed
from fedplug_flower.records import Reply
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg
from local_flower import Model, Nodes, arrays, client_app, new_model, record, update_of

import fedplug

ENCODER = "topk(0.05) | qsgd(8)"


class Expected:
    """The expected payloads of a client: a codec with a state that the test updates."""

    def __init__(self, node: int) -> None:
        self.node, self.state = node, None
        self.codec = fedplug.codec(ENCODER)

    def payloads(self, model: Model, round_num: int, accepted: bool = True) -> dict[str, bytes]:
        update = {
            name: (model[name] + change) - model[name]
            for name, change in update_of(self.node, round_num).items()
        }
        payloads, state = self.codec.encode_model(update, self.state, round_num)
        if accepted:
            self.state = state
        return payloads


def sent(nodes: Nodes, node: int) -> dict[str, bytes]:
    return dict(Reply.read(nodes.replies[node].content, list(new_model())).payloads)


def test_a_lost_update_does_not_change_the_residual(nodes: Nodes) -> None:
    nodes.add(1, 2, 3)
    strategy, model = Compressed(FedAvg(), ENCODER), new_model()
    expected = Expected(1)
    for round_num in range(1, 6):
        lost = round_num in (2, 3)
        nodes.on_the_way = lambda reply, lost=lost: (
            None if lost and reply.metadata.src_node_id == 1 else reply
        )
        before = model
        model, _ = nodes.run_rounds(strategy, (round_num,), model)
        payloads = expected.payloads(before, round_num, accepted=not lost)
        assert lost or sent(nodes, 1) == payloads


def test_a_round_that_the_strategy_could_not_aggregate_leaves_all_residuals_as_they_were(
    nodes: Nodes,
) -> None:
    class Failing(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            aggregated = super().aggregate_train(server_round, replies)
            return (None, None) if server_round == 2 else aggregated

    nodes.add(1, 2)
    strategy, model = Compressed(Failing(), ENCODER, decode_each=False), new_model()
    expected = Expected(1)
    for round_num in range(1, 5):
        before = model
        model, _ = nodes.run_rounds(strategy, (round_num,), model)
        assert sent(nodes, 1) == expected.payloads(before, round_num, accepted=round_num != 2)


def test_a_restarted_node_with_a_new_id_continues(nodes: Nodes) -> None:
    def change(node: int, round_num: int) -> Model:
        return update_of({100: 1}.get(node, node), round_num)

    nodes.add(1, app=client_app(change), **{"partition-id": 0})
    nodes.add(2, app=client_app(change), **{"partition-id": 1})
    strategy, model = Compressed(FedAvg(), ENCODER), new_model()
    expected = Expected(1)
    for round_num in range(1, 5):
        if round_num == 3:
            nodes.remove(1)
            nodes.add(100, app=client_app(change), **{"partition-id": 0})
        before = model
        model, _ = nodes.run_rounds(strategy, (round_num,), model)
        assert sent(nodes, 1 if round_num < 3 else 100) == expected.payloads(before, round_num)


def test_nodes_of_one_machine_with_one_partition_id_keep_residuals_of_their_own(
    nodes: Nodes, log: list[str]
) -> None:
    """The nodes take part in the same round or in turn."""
    for node in (1, 2):
        nodes.add(node, **{"partition-id": 0})
    apps = dict(nodes.apps)
    strategy, model = Compressed(FedAvg(min_train_nodes=1, min_available_nodes=1), ENCODER), new_model()
    expected = {node: Expected(node) for node in apps}
    for round_num, asked in enumerate([(1,), (2,), (1,), (1, 2), (2,), (1, 2)], 1):
        before = model
        messages = list(strategy.configure_train(round_num, record(model), ConfigRecord(), nodes))
        chosen = [message for message in messages if message.metadata.dst_node_id in asked]
        aggregated, _ = strategy.aggregate_train(round_num, nodes.send_and_receive(chosen))
        model = arrays(aggregated)
        for node in asked:
            assert sent(nodes, node) == expected[node].payloads(before, round_num)
    (warning,) = [line for line in log if "same machine" in line]
    assert "partition-0.node-2 is on the same machine as partition-0.node-1;" in warning


def test_another_training_begins_without_a_residual_even_in_the_same_run(nodes: Nodes) -> None:
    nodes.add(1, 2)
    nodes.run_rounds(Compressed(FedAvg(), ENCODER), (1, 2), new_model())
    nodes.run_rounds(Compressed(FedAvg(), "topk(0.5)"), (1,), new_model())
    nodes.run_rounds(Compressed(FedAvg(), ENCODER), (1,), new_model())
    assert sent(nodes, 1) == Expected(1).payloads(new_model(), 1)


class Twice(FedAvg):
    """Asks every node twice in a round, as sampling with replacement may do."""

    def configure_train(self, *args: Any) -> Any:
        for message in super().configure_train(*args):
            for _ in range(2):
                content, node = RecordDict(dict(message.content)), message.metadata.dst_node_id
                yield Message(content, message_type="train", dst_node_id=node)


@pytest.mark.parametrize("broadcast_encoder", [None, "lossless"])
def test_a_node_that_is_asked_twice_in_a_round_loses_nothing(
    nodes: Nodes, broadcast_encoder: str | None
) -> None:
    """Updates are whole numbers, so received values and residual are exactly their sum."""
    zeros = {name: 0 * array for name, array in new_model().items()}
    total = dict(zeros)

    def change(node: int, round_num: int) -> Model:
        random = np.random.default_rng(int(sum(array.sum() for array in total.values())) % 1000)
        update = {name: random.integers(-50, 50, a.shape).astype(np.float32) for name, a in zeros.items()}
        for name, array in update.items():
            total[name] = total[name] + array
        return update

    nodes.add(1, app=client_app(lambda node, number: change(node, number) if number < 4 else zeros))
    inner = Twice(min_available_nodes=1, min_train_nodes=1)
    strategy = Compressed(inner, "topk(0.3)", broadcast_encoder=broadcast_encoder)
    model = zeros
    for round_num in range(1, 9):
        messages = strategy.configure_train(round_num, record(model), ConfigRecord(), nodes)
        replies = [reply for message in messages for reply in nodes.send_and_receive([message])]
        aggregated, metrics = strategy.aggregate_train(round_num, replies)
        model = arrays(aggregated)
        assert (metrics["fedplug-compressed"], metrics["fedplug-dense"]) == (1, 1)
    for name, array in total.items():  # the residual is sent in rounds 4 to 8
        np.testing.assert_array_equal(2 * model[name], array)


def test_a_second_start_with_the_last_model_continues_and_one_with_another_model_is_a_new_training(
    nodes: Nodes,
) -> None:
    """`Strategy.start` counts its rounds from 1 each time."""
    nodes.add(1, 2)
    strategy, expected, model = Compressed(FedAvg(), ENCODER), Expected(1), new_model()
    for sent_round, round_num in enumerate((1, 2, 3, 1, 2), 1):
        update = {n: (model[n] + change) - model[n] for n, change in update_of(1, round_num).items()}
        payloads, expected.state = expected.codec.encode_model(update, expected.state, sent_round)
        model, metrics = nodes.run_rounds(strategy, (round_num,), model)
        assert sent(nodes, 1) == payloads
        assert metrics["fedplug-compressed"] == 2
    nodes.run_rounds(strategy, (1,), new_model(5))
    assert sent(nodes, 1) == Expected(1).payloads(new_model(5), 1)


class Changing(FedAvg):
    """Returns the model in another dtype in every round."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        model, metrics = super().aggregate_train(server_round, replies)
        dtype = [np.float16, np.float64, np.float32][server_round % 3]
        return record({name: array.astype(dtype) for name, array in arrays(model).items()}), metrics


@pytest.mark.parametrize("make", [FedAdam, Changing])
def test_a_strategy_that_changes_the_dtype_of_the_model_costs_neither_residuals_nor_bytes(
    make: Any, nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    nodes.add(1, 2)
    strategy, model, uplink = Compressed(make(), "topk(0.1)"), new_model(), []
    for round_num in (1, 2, 3, 4):
        model, metrics = nodes.run_rounds(strategy, (round_num,), model)
        uplink.append(metrics["fedplug-uplink-bytes"])
    assert model["dense/kernel"].dtype == np.float64
    assert max(uplink) < 1.02 * min(uplink)
    assert not [entry for entry in caplog.records if "dropped" in entry.getMessage()]


def test_states_lie_where_the_node_says_in_a_folder_of_the_run(nodes: Nodes, tmp_path: Path) -> None:
    nodes.state_dir = tmp_path / "states #1, 50% of them"
    nodes.add(1, **{"partition-id": 4})
    nodes.add(2)
    nodes.add(3, **{"partition-id": "../a%2Fb"})
    for round_num in (1, 2):
        _, metrics = nodes.run_rounds(Compressed(FedAvg(), ENCODER), (round_num,), new_model())
        assert metrics["fedplug-compressed"] == 3
    trainings = list((nodes.state_dir / "run-7").iterdir())
    assert len(trainings) == 2
    for training in trainings:
        assert len(list(training.iterdir())) == 3
        assert {"node-2", "partition-4.node-1"} < {found.name for found in training.iterdir()}
    assert [found.name for found in tmp_path.iterdir()] == [nodes.state_dir.name]
