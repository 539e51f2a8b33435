"""Statistics, whole numbers and booleans pass through Flower without a changed bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fedplug_flower import Compressed
from fedplug_flower.records import KEY
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, FedMedian
from local_flower import Model, Nodes, app_of, arrays, record

README = "topk(0.01, scope='model') | qsgd(8)"
ENCODERS = ["auto", README, "rules({'*': 'sign'})", "budget('topk(0.05)', 9000)"]
EXACT = ["bn.running_mean", "bn.running_var", "batches", "index", "mask"]


def new_model() -> Model:
    rng = np.random.default_rng(0)
    return {
        "conv.weight": rng.normal(size=(40, 30)).astype(np.float32),
        "bn.running_mean": np.zeros(100, np.float32),
        "bn.running_var": np.ones(100, np.float32),
        "batches": np.asarray(2**45),
        "index": np.arange(2**40, 2**40 + 200),
        "mask": np.arange(200) % 3 == 0,
    }


def trained(model: Model, node: int, round_num: int) -> Model:
    """Returns variances of very different magnitudes, and whole numbers in PyTorch's dtype."""
    rng = np.random.default_rng([node, round_num])
    after = {name: array.copy() for name, array in new_model().items()}
    after["conv.weight"] = model["conv.weight"] + 0.1 * rng.normal(size=(40, 30)).astype(np.float32)
    after["bn.running_mean"] = rng.normal(size=100).astype(np.float32)
    after["bn.running_var"] = (10.0 ** rng.uniform(-12, 6, 100)).astype(np.float32)
    after["bn.running_var"][:5] = 0
    after["batches"] = np.asarray(2**45 + round_num)
    return after


def app(train: Callable[[Model, int, int], Model] = trained, mods: list[Any] | None = None) -> ClientApp:
    def answer(message: Message, node: int) -> RecordDict:
        round_num = int(message.content["config"]["server-round"])
        model = train(arrays(message.content["arrays"]), node, round_num)
        return RecordDict({"arrays": record(model), "metrics": MetricRecord({"num-examples": 7 * node + 3})})

    return app_of(answer, mods)


def of_one(encoder: str, kind: Any = FedAvg) -> Compressed:
    """Returns a strategy that is content with one node."""
    return Compressed(kind(min_train_nodes=1, min_available_nodes=1), encoder)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("kind", [FedAvg, FedMedian])
def test_one_client_moves_them_to_its_own_bits(encoder: str, kind: type, nodes: Nodes) -> None:
    nodes.add(1, app=app())
    strategy, model = of_one(encoder, kind), new_model()
    for round_num in (1, 2, 3):
        expected = trained(model, 1, round_num)
        model, metrics = nodes.run_rounds(strategy, [round_num], model)
        assert metrics["fedplug-compressed"] == 1
        for name in EXACT:
            assert np.array_equal(model[name], expected[name].astype(model[name].dtype)), name
        assert not np.array_equal(model["conv.weight"], expected["conv.weight"])


@pytest.mark.parametrize("encoder", ENCODERS)
def test_an_array_of_any_name_gets_no_negative_element_where_training_makes_none(
    encoder: str, nodes: Nodes
) -> None:
    def shrunk(model: Model, node: int, round_num: int) -> Model:
        scale = np.random.default_rng([node, round_num]).uniform(0, 0.5, (40, 30)).astype(np.float32)
        return {"factor": model["factor"] * scale}

    nodes.add(1, app=app(shrunk))
    strategy = of_one(encoder)
    model = {"factor": np.random.default_rng(0).exponential(size=(40, 30)).astype(np.float32)}
    for round_num in (1, 2, 3):
        model, metrics = nodes.run_rounds(strategy, [round_num], model)
        assert metrics["fedplug-compressed"] == 1
        assert (model["factor"] >= 0).all()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_several_clients_move_them_to_their_mean(encoder: str, nodes: Nodes) -> None:
    """One of the clients sends its model uncompressed."""
    for node in (1, 2, 3):
        nodes.add(node, app=app(mods=[] if node == 3 else None))
    strategy, model = Compressed(FedAvg(), encoder), new_model()
    for round_num in (1, 2, 3):
        sent = [trained(model, node, round_num) for node in (1, 2, 3)]
        model, metrics = nodes.run_rounds(strategy, [round_num], model)
        assert (metrics["fedplug-compressed"], metrics["fedplug-dense"]) == (2, 1)
        for name in EXACT:
            mean = np.average([one[name] for one in sent], axis=0, weights=[10, 17, 24])
            if model[name].dtype == np.float32:
                np.testing.assert_allclose(model[name], mean, rtol=1e-7, atol=0)
            else:
                np.testing.assert_allclose(model[name], mean, rtol=1e-15, atol=0)
        assert (model["bn.running_var"] >= 0).all()
        assert (model["bn.running_var"][:5] == 0).all()


@pytest.mark.parametrize("constant", [np.inf, -np.inf, np.nan])
def test_constants_that_are_not_finite_are_no_error(constant: float, nodes: Nodes) -> None:
    def changed(model: Model, node: int, round_num: int) -> Model:
        return {**model, "conv.weight": model["conv.weight"] + 1}

    names = ("bn.running_var", "causal")
    start = {**new_model(), **dict.fromkeys(names, np.full(100, constant, np.float32))}
    nodes.add(1, app=app(changed))
    nodes.add(2, app=app(changed, mods=[]))
    model, metrics = nodes.run_rounds(of_one("topk(0.1)"), [1], start)
    assert (metrics["fedplug-compressed"], metrics["fedplug-dense"]) == (1, 1)
    assert not np.array_equal(model["conv.weight"], start["conv.weight"])
    for name in names:
        np.testing.assert_array_equal(model[name], start[name])


def test_the_log_lists_exactly_sent_arrays_with_the_reason(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "flwr")
    nodes.add(1, app=app())
    strategy = of_one("auto")
    nodes.run_rounds(strategy, [1, 2], {**new_model(), "fc.bias": np.zeros(9, np.float32)})
    told = [line.getMessage() for line in caplog.records if "sent exactly" in line.getMessage()]
    assert told == [
        "fedplug: sent exactly, statistics: bn.running_mean, bn.running_var",
        "fedplug: sent exactly, int64: batches, index",
        "fedplug: sent exactly, bool: mask",
        "fedplug: sent exactly, fewer than 64 elements: fc.bias",
    ]


@pytest.mark.parametrize("values", [[99], [-1], ["bn"], 3])
def test_a_request_for_arrays_that_there_are_not_is_refused(nodes: Nodes, values: object) -> None:
    nodes.add(1, app=app())
    strategy = of_one("auto")
    (message,) = strategy.configure_train(1, record(new_model()), ConfigRecord(), nodes)
    message.content[KEY]["values"] = values
    (reply,) = nodes.send_and_receive([message])
    assert reply.has_error()
    assert "the server's request" in reply.error.reason
