"""Tests compressed models: nodes receive the changes since their version, and train on the same bits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fedplug_flower import Compressed
from fedplug_flower.records import KEY, MODEL_STYPE, VERSION_KEY
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, FedMedian
from local_flower import Model, Nodes, arrays, assert_same, client_app, new_model, record, update_of

from fedplug.wire.message import MessageReader

UP = "topk(0.05) | qsgd(8)"
DOWN = "bfp(5) | rans"


def watched_app(evaluated: dict[int, list[Model]], update: Callable[[int, int], Model]) -> ClientApp:
    """Returns a ClientApp that notes the models it evaluates, by round."""
    app = client_app(update)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        assert KEY not in message.content
        round_num = int(message.content["config"]["server-round"])
        evaluated.setdefault(round_num, []).append(arrays(message.content["arrays"]))
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=message)

    return app


def kinds(nodes: Nodes) -> dict[int, str]:
    """Returns the server's message to each node: the whole model, changes, or nothing new."""
    found = {}
    for node, message in nodes.sent.items():
        (model,) = message.content.array_records.values()
        (array,) = model.values()
        assert array.stype == MODEL_STYPE
        found[node] = MessageReader(array.data).contents().kind
    return found


def evaluate(nodes: Nodes, strategy: Compressed, round_num: int, model: Model) -> MetricRecord:
    messages = strategy.configure_evaluate(round_num, record(model), ConfigRecord(), nodes)
    metrics = strategy.aggregate_evaluate(round_num, nodes.send_and_receive(messages))
    assert metrics is not None
    return metrics


def test_a_lossless_broadcast_trains_the_same_model_as_without_it(nodes: Nodes) -> None:
    nodes.add(1, 2, 3)
    plain, _ = nodes.run_rounds(FedAvg(), range(1, 5), new_model())
    model, metrics = nodes.run_rounds(
        Compressed(FedAvg(), broadcast_encoder="lossless"), range(1, 5), new_model()
    )
    for name, array in plain.items():
        assert array.tobytes() == model[name].tobytes()
    assert metrics["fedplug-compressed"] == 0


def test_the_second_message_with_a_model_is_only_its_version(nodes: Nodes) -> None:
    evaluated: dict[int, list[Model]] = {}
    nodes.add(1, 2, app=watched_app(evaluated, update_of))
    strategy = Compressed(FedAvg(), UP, broadcast_encoder="lossless")
    model, metrics = nodes.run_rounds(strategy, (1,), new_model())
    assert set(kinds(nodes).values()) == {"snapshot"}
    of_evaluation = evaluate(nodes, strategy, 1, model)
    assert set(kinds(nodes).values()) == {"changes"}
    for name, array in model.items():
        assert evaluated[1][0][name].tobytes() == array.tobytes()
    model, of_training = nodes.run_rounds(strategy, (2,), model)
    assert set(kinds(nodes).values()) == {"same"}
    assert of_training["fedplug-downlink-bytes"] < 600
    dense = 2 * record(new_model()).count_bytes()
    for found in (metrics, of_evaluation, of_training):
        assert found["fedplug-downlink-dense-bytes"] == dense


@pytest.mark.parametrize("make", [FedAvg, FedMedian], ids=["mean", "each"])
@pytest.mark.parametrize("encoder", [UP, None], ids=["compressed", "dense"])
def test_updates_are_added_to_the_exact_model(make: Any, encoder: str | None, nodes: Nodes) -> None:
    """Otherwise the rounding to 5 bits would remove steps this small in every round."""

    def nothing(node: int, round_num: int) -> Model:
        return {name: np.zeros_like(array) for name, array in new_model().items()}

    nodes.add(1, 2, 3, app=client_app(nothing))
    strategy = Compressed(make(), encoder, broadcast_encoder=DOWN)
    model, _ = nodes.run_rounds(strategy, range(1, 4), new_model())
    assert_same(model, new_model(), rtol=1e-6, atol=1e-6)


def test_a_node_whose_reply_is_lost_gets_a_snapshot(nodes: Nodes) -> None:
    nodes.add(1, 2)
    strategy, model = Compressed(FedAvg(), UP, broadcast_encoder=DOWN), new_model()
    nodes.on_the_way = lambda reply: None if reply.metadata.src_node_id == 2 else reply
    model, _ = nodes.run_rounds(strategy, (1,), model)
    nodes.on_the_way = lambda reply: reply
    model, metrics = nodes.run_rounds(strategy, (2,), model)
    assert kinds(nodes) == {1: "changes", 2: "snapshot"}
    assert metrics["fedplug-compressed"] == 2


def test_a_node_that_lost_its_store_is_refused_once_and_gets_a_snapshot(nodes: Nodes) -> None:
    nodes.add(1, 2)
    strategy, model = Compressed(FedAvg(), UP, broadcast_encoder=DOWN), new_model()
    model, _ = nodes.run_rounds(strategy, (1,), model)
    for store in nodes.state_dir.rglob("node-2"):
        shutil.rmtree(store)
    model, metrics = nodes.run_rounds(strategy, (2,), model)
    assert metrics["fedplug-compressed"] == 1
    assert "this one has None" in nodes.replies[2].error.reason
    model, metrics = nodes.run_rounds(strategy, (3,), model)
    assert kinds(nodes) == {1: "changes", 2: "snapshot"}
    assert metrics["fedplug-compressed"] == 2


def test_a_restarted_node_with_a_new_id_takes_its_model_over(nodes: Nodes) -> None:
    for node in (1, 2):
        nodes.add(node, **{"partition-id": node})
    strategy, model = Compressed(FedAvg(), UP, broadcast_encoder=DOWN), new_model()
    model, _ = nodes.run_rounds(strategy, (1,), model)
    nodes.remove(2)
    nodes.add(3, **{"partition-id": 2})
    model, metrics = nodes.run_rounds(strategy, (2,), model)
    assert kinds(nodes)[3] == "snapshot"  # the server learns of the takeover from the reply
    assert metrics["fedplug-compressed"] == 2
    nodes.run_rounds(strategy, (3,), model)
    assert kinds(nodes) == {1: "changes", 3: "changes"}


def test_a_node_without_the_mod_is_refused_by_its_app(nodes: Nodes) -> None:
    nodes.add(1)
    nodes.add(2, app=client_app(mods=[]))
    strategy = Compressed(FedAvg(), UP, broadcast_encoder=DOWN)
    _, metrics = nodes.run_rounds(strategy, (1,), new_model())
    assert nodes.replies[2].has_error()
    assert metrics["fedplug-compressed"] == 1


@pytest.mark.parametrize("version", ["x", "0" * 17, 3, ["0" * 16]])
def test_a_version_that_no_server_sent_gets_a_snapshot(nodes: Nodes, version: Any) -> None:
    def on_the_way(reply: Message) -> Message:
        reply.content[VERSION_KEY] = ConfigRecord({"version": version})
        return reply

    nodes.add(1, 2)
    strategy = Compressed(FedAvg(), UP, broadcast_encoder=DOWN)
    nodes.on_the_way = on_the_way
    nodes.run_rounds(strategy, (1, 2), new_model())
    assert set(kinds(nodes).values()) == {"snapshot"}
