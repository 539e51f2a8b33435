"""Replies that plain Flower allows pass; a round without an accepted update says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedplug_flower import Compressed
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian, Krum
from local_flower import Model, Nodes, app_of, arrays, assert_same, new_model, record

TOPK = "topk(0.1)"

Answer = Callable[[Message, int], RecordDict]


def trained(message: Message, node: int) -> Model:
    return {name: array + np.float32(0.1 * node) for name, array in arrays(message.content["arrays"]).items()}


def usual(model: Model, **records: Any) -> RecordDict:
    """Returns the content of a reply to Flower's strategies, with further records."""
    return RecordDict({"arrays": record(model), "metrics": MetricRecord({"num-examples": 10}), **records})


class Merging(FedAvg):
    """Averages every array over the nodes that sent it, in any record, and keeps all others."""

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any) -> Any:
        self.model = arrays
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        sent: dict[str, list[Any]] = {}
        for reply in replies:
            for found in reply.content.array_records.values() if reply.has_content() else ():
                for name, array in arrays(found).items():
                    sent.setdefault(name, []).append(array)
        means = {name: np.mean(found, 0, dtype=np.float32) for name, found in sent.items()}
        return (record(arrays(self.model) | means), MetricRecord()) if sent else (None, None)


def body(message: Message, node: int) -> RecordDict:
    """The reply of FedPer and FedRep: every node keeps its own head."""
    return usual({name: array for name, array in trained(message, node).items() if "dense" in name})


def another_for_each(message: Message, node: int) -> RecordDict:
    name = list(new_model())[node % 3]
    return RecordDict({f"records of {node}": record({name: trained(message, node)[name]})})


def two_networks(message: Message, node: int) -> RecordDict:
    return usual(trained(message, node), control=record({"control": np.full(100, 1.0 * node)}))


def larger(message: Message, node: int) -> RecordDict:
    return usual(trained(message, node) | {"new": np.full(100, node, np.float32)})


def of_metrics_alone(message: Message, node: int) -> RecordDict:
    return RecordDict({"counts": MetricRecord({f"of {node}": node}), "names": ConfigRecord({"node": node})})


def without_metrics(message: Message, node: int) -> RecordDict:
    return RecordDict({"arrays": record(trained(message, node))})


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (FedAvg, body),
        (FedAvg, larger),
        (Krum, body),
        (FedMedian, body),
        (Merging, body),
        (Merging, larger),
        (Merging, two_networks),
        (Merging, another_for_each),
        (Merging, of_metrics_alone),
    ],
)
def test_replies_of_other_forms_give_the_model_that_they_give_in_plain_flower(
    make: Any, answer: Answer, nodes: Nodes, tmp_path: Path
) -> None:
    alone = Nodes(tmp_path / "alone")
    nodes.add(1, 2, 3, app=app_of(answer))
    alone.add(1, 2, 3, app=app_of(answer, mods=[]))
    model, metrics = nodes.run_rounds(Compressed(make(), TOPK), (1,), new_model())
    expected, _ = alone.run_rounds(make(), (1,), new_model())
    assert_same(model, expected, rtol=1e-6)
    assert (metrics["fedplug-compressed"], metrics["fedplug-dense"], metrics["fedplug-refused"]) == (0, 3, 0)


def test_a_strategy_of_the_user_needs_no_weights(nodes: Nodes) -> None:
    nodes.add(1, 2, 3, app=app_of(without_metrics))
    model, metrics = nodes.run_rounds(Compressed(Merging(), "identity"), (1,), new_model())
    np.testing.assert_allclose(model["out/kernel"] - new_model()["out/kernel"], 0.2, rtol=1e-5)
    assert metrics["fedplug-compressed"] == 3


def test_a_model_that_has_become_a_part_of_itself_is_compressed_from_then_on(nodes: Nodes) -> None:
    nodes.add(1, 2, app=app_of(body))
    model, metrics = nodes.run_rounds(Compressed(FedAvg(), TOPK), (1, 2), new_model())
    assert list(model) == ["dense/kernel", "dense/bias"]
    assert metrics["fedplug-compressed"] == 2


@pytest.mark.parametrize("make", [FedAvg, Merging])
def test_what_few_nodes_send_is_refused_as_before(make: Any, nodes: Nodes, log: list[str]) -> None:
    for node, answer in enumerate([body, two_networks, larger], 1):
        nodes.add(node, app=app_of(answer))
    for node in (4, 5, 6, 7):
        nodes.add(node, app=app_of(lambda message, node: usual(trained(message, node))))
    model, metrics = nodes.run_rounds(Compressed(make(), "identity"), (1,), new_model())
    assert list(model) == list(new_model())
    np.testing.assert_allclose(model["out/kernel"] - new_model()["out/kernel"], 0.55, rtol=1e-5)
    assert metrics["fedplug-refused"] == 3
    refused = [line for line in log if "refused" in line]
    for node, line in enumerate(refused, 1):
        assert f"update of node {node} is refused" in line


def failing(message: Message, node: int) -> RecordDict:
    raise RuntimeError(f"no memory on {'one' if node == 1 else 'the others'}")


@pytest.mark.parametrize(
    ("make", "answer", "words"),
    [
        (FedAvg, failing, ["node 1: ", "no memory on one", "node 2 and 1 more: ", "no memory on the others"]),
        (FedAvg, two_networks, ["node 1 and 2 more: it has 2 ArrayRecords"]),
        (FedAvg, another_for_each, ["its metrics have no single 'num-examples'"]),
        (Krum, of_metrics_alone, ["its metrics have no single 'num-examples'"]),
        (Merging, failing, ["no memory on one"]),
    ],
)
def test_a_round_without_an_accepted_update_logs_an_error_that_says_why(
    make: Any, answer: Answer, words: list[str], nodes: Nodes, log: list[str]
) -> None:
    nodes.add(1, 2, 3, app=app_of(answer))
    model, _ = nodes.run_rounds(Compressed(make(), TOPK), (1,), new_model())
    assert_same(model, new_model())
    (line,) = [line for line in log if "round 1: no update was accepted, so the model stays as it is" in line]
    assert all(word in line for word in words)


def test_silent_nodes_and_a_strategy_without_a_model_are_reasons_too(nodes: Nodes, log: list[str]) -> None:
    class Never(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            return None, None

    nodes.add(1, 2)
    nodes.run_rounds(Compressed(Never(), TOPK), (1,), new_model())
    assert "stays as it is: Never returned no model from 2 updates" in log[-1]
    nodes.on_the_way = lambda reply: None
    nodes.run_rounds(Compressed(FedAvg(), TOPK), (1,), new_model())
    assert "stays as it is: no node replied" in log[-1]


def test_a_compressed_update_counts_once_in_a_round(nodes: Nodes, log: list[str]) -> None:
    nodes.add(1, 2)
    strategy = Compressed(FedAvg(), "identity")
    replies = nodes.send_and_receive(strategy.configure_train(1, record(new_model()), ConfigRecord(), nodes))
    _, metrics = strategy.aggregate_train(1, [*replies, replies[0]])
    assert metrics is not None
    assert (metrics["fedplug-compressed"], metrics["fedplug-refused"]) == (2, 1)


@pytest.mark.parametrize("size", [-1, 10**9])
def test_a_reply_that_replaces_impossibly_many_bytes_is_refused(
    nodes: Nodes, log: list[str], size: int
) -> None:
    nodes.add(1, 2, 3)

    def on_the_way(reply: Message) -> Message:
        if reply.metadata.src_node_id == 2:
            reply.content["arrays"]["fedplug"].shape = (size,)
        return reply

    nodes.on_the_way = on_the_way
    _, metrics = nodes.run_rounds(Compressed(FedAvg(), TOPK), (1,), new_model())
    assert metrics["fedplug-refused"] == 1
    assert any("the update of node 2 is refused: it says that its trained arrays" in line for line in log)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dense_bytes_are_those_of_the_replies_without_compression(nodes: Nodes, dtype: Any) -> None:
    def as_dtype(message: Message, node: int) -> RecordDict:
        return usual({name: array.astype(dtype) for name, array in trained(message, node).items()})

    nodes.add(1, 2, app=app_of(as_dtype))
    _, metrics = nodes.run_rounds(Compressed(FedAvg(), TOPK), (1,), new_model())
    dense = record({name: array.astype(dtype) for name, array in new_model().items()}).count_bytes()
    assert metrics["fedplug-dense-bytes"] == 2 * dense
