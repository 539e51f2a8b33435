"""Strategies give the same results with compressed updates as with uncompressed models."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedplug_flower import Compressed, CompressMod
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedXgbBagging,
    FedYogi,
    Krum,
)
from local_flower import Nodes, arrays, assert_same, client_app, new_model, record, update_of

import fedplug

AVERAGING = [
    lambda: FedAvg(),
    lambda: FedProx(proximal_mu=0.1),
    lambda: FedAvgM(server_learning_rate=0.5, server_momentum=0.9),
    lambda: FedAdagrad(),
    lambda: FedAdam(),
    lambda: FedYogi(),
]
LOOKING_AT_EACH = [
    lambda: FedMedian(),
    lambda: FedTrimmedAvg(),
    lambda: Krum(num_malicious_nodes=1),
    lambda: DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1e-9, 0.5, 4),
]
TOPK = "topk(0.1)"


def plain(make: Any, rounds: int = 3) -> tuple[Any, Any]:
    """Runs the same training without fedplug."""
    nodes = Nodes(Path("nothing is kept"))
    nodes.add(1, 2, 3, 4, app=client_app(mods=[]))
    return nodes.run_rounds(make(), range(1, rounds + 1), new_model())


@pytest.mark.parametrize("make", AVERAGING + LOOKING_AT_EACH, ids=lambda make: type(make()).__name__)
def test_uncompressed_payloads_train_the_model_that_the_strategy_trains_alone(
    make: Any, nodes: Nodes
) -> None:
    nodes.add(1, 2, 3, 4)
    model, metrics = nodes.run_rounds(Compressed(make(), "identity"), (1, 2, 3), new_model())
    expected, expected_metrics = plain(make)
    assert_same(model, expected, rtol=1e-4, atol=1e-5)
    assert metrics["fedplug-compressed"] == 4
    assert metrics["loss"] == pytest.approx(expected_metrics["loss"])


def test_a_round_moves_the_model_by_the_weighted_mean_of_the_decoded_payloads(nodes: Nodes) -> None:
    nodes.add(1, 3)
    model, _ = nodes.run_rounds(Compressed(FedAvg(), TOPK, min_size=0), (1,), new_model())
    codec = fedplug.codec(TOPK, min_size=0)
    start, total = new_model(), fedplug.ModelSum.like(new_model())
    for node in (1, 3):
        trained = {name: array + update_of(node, 1)[name] for name, array in start.items()}
        payloads, _ = codec.encode_model({name: trained[name] - start[name] for name in start}, None, 1)
        total.add(payloads, 10.0 * node)
    for name, mean in total.mean().items():
        np.testing.assert_array_equal(model[name], start[name] + mean)


def test_clients_without_the_mod_take_part_in_the_same_round(nodes: Nodes) -> None:
    nodes.add(1)
    nodes.add(2, app=client_app(mods=[]))
    nodes.add(3)
    nodes.add(4, app=client_app(mods=[]))
    model, metrics = nodes.run_rounds(Compressed(FedAvg(), "identity"), (1, 2, 3), new_model())
    expected, _ = plain(FedAvg)
    assert_same(model, expected, rtol=1e-5, atol=1e-6)
    assert (metrics["fedplug-compressed"], metrics["fedplug-dense"], metrics["fedplug-refused"]) == (2, 2, 0)


def test_where_no_client_has_the_mod_the_strategy_does_what_it_does_alone_bit_for_bit(nodes: Nodes) -> None:
    nodes.add(1, 2, 3, 4, app=client_app(mods=[]))
    model, metrics = nodes.run_rounds(Compressed(FedAvg(), TOPK), (1, 2), new_model())
    expected, _ = plain(FedAvg, rounds=2)
    assert_same(model, expected)
    assert metrics["fedplug-uplink-bytes"] == metrics["fedplug-dense-bytes"] > 0


def test_the_mod_leaves_the_messages_of_other_strategies_alone(nodes: Nodes) -> None:
    nodes.add(1, 2, 3, 4)
    model, _ = nodes.run_rounds(FedAvg(), (1, 2), new_model())
    assert_same(model, plain(FedAvg, rounds=2)[0])
    assert not nodes.state_dir.exists()


def test_clipping_on_the_clients_happens_before_compression(nodes: Nodes) -> None:
    nodes.add(1, 2, app=client_app(mods=[CompressMod(), fixedclipping_mod]))
    strategy = DifferentialPrivacyClientSideFixedClipping(FedAvg(), 1e-9, 0.5, 2)
    model, metrics = nodes.run_rounds(Compressed(strategy, "identity"), (1,), new_model())
    moved = np.sqrt(sum(float(((model[name] - array) ** 2).sum()) for name, array in new_model().items()))
    assert metrics["fedplug-compressed"] == 2
    assert moved <= 0.5 + 1e-4


def test_a_residual_goes_with_clipping_on_the_server_and_not_on_the_clients(nodes: Nodes) -> None:
    """The noise is for a bounded norm. The server clips the decoded sum of the update and the residual."""
    with pytest.raises(TypeError, match="adds a residual to the clipped update"):
        Compressed(DifferentialPrivacyClientSideFixedClipping(FedAvg(), 1e-9, 0.5, 2), TOPK)
    nodes.add(1, 2)
    strategy = Compressed(DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1e-9, 0.01, 2), TOPK)
    models = [nodes.run_rounds(strategy, range(1, rounds), new_model())[0] for rounds in (2, 3)]
    moved = np.concatenate([(models[1][name] - models[0][name]).reshape(-1) for name in models[0]])
    assert 0 < np.linalg.norm(moved) <= 0.0101


@pytest.mark.parametrize(
    ("broadcast_encoder", "mods"),
    [(None, [fixedclipping_mod, CompressMod()]), ("auto", []), ("auto", [fixedclipping_mod, CompressMod()])],
    ids=["behind another mod", "missing", "behind another mod that reads a compressed model"],
)
def test_the_error_of_a_mod_in_the_wrong_place_says_where_it_belongs(
    broadcast_encoder: str | None, mods: list[Any], nodes: Nodes, log: list[str]
) -> None:
    nodes.add(1, 2, app=client_app(mods=mods))
    inner = DifferentialPrivacyClientSideFixedClipping(FedAvg(), 1e-9, 0.5, 2)  # the other mod needs it
    strategy = Compressed(inner, "identity", broadcast_encoder=broadcast_encoder)
    nodes.run_rounds(strategy, (1,), new_model())
    assert "no update was accepted" in log[-1]
    assert re.search(r"CompressMod\(\) (goes )?first", log[-1])


def test_a_mod_of_one_function_alone_is_an_error_of_the_others_that_says_so(nodes: Nodes) -> None:
    app = ClientApp()

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        measured = {"num-examples": 1, "arrays": len(arrays(message.content["arrays"]))}
        return Message(RecordDict({"metrics": MetricRecord(measured)}), reply_to=message)

    nodes.add(1, 2, app=app)
    strategy = Compressed(FedAvg(), TOPK, broadcast_encoder="auto")
    sent = strategy.configure_evaluate(1, record(new_model()), ConfigRecord(), nodes)
    for reply in nodes.send_and_receive(sent):
        assert "CompressMod() goes first in ClientApp(mods=[...])" in reply.error.reason


def test_the_error_of_a_wrapper_around_compressed_says_what_belongs_outside(nodes: Nodes) -> None:
    nodes.add(1, 2)
    strategy = DifferentialPrivacyServerSideFixedClipping(Compressed(FedAvg(), TOPK), 0.1, 1.0, 2)
    with pytest.raises(TypeError, match=r"Compressed\(\) outermost"):
        nodes.run_rounds(strategy, (1,), new_model())


def test_the_metrics_of_a_round_say_which_bytes_were_sent_and_which_would_have_been(nodes: Nodes) -> None:
    nodes.add(1, 2)
    _, metrics = nodes.run_rounds(Compressed(FedAvg(), TOPK), (1,), new_model())
    sent = [reply.content for reply in nodes.replies.values()]
    payloads = sum(len(array.data) for content in sent for array in content["arrays"].values())
    assert payloads < metrics["fedplug-uplink-bytes"] < payloads + 2 * 150
    assert metrics["fedplug-dense-bytes"] == 2 * record(new_model()).count_bytes()


def test_a_function_for_metrics_sees_those_of_each_client(nodes: Nodes) -> None:
    def largest(contents: list[RecordDict], weighted_by: str) -> MetricRecord:
        return MetricRecord(
            {"clients": len(contents), "most": max(c["metrics"][weighted_by] for c in contents)}
        )

    nodes.add(1)
    nodes.add(2)
    nodes.add(3, app=client_app(mods=[]))
    strategy = FedAvg(train_metrics_aggr_fn=largest)
    _, metrics = nodes.run_rounds(Compressed(strategy, TOPK), (1,), new_model())
    assert (metrics["clients"], metrics["most"]) == (3, 30)
    assert strategy.train_metrics_aggr_fn is largest


def test_a_custom_fed_avg_gets_each_update_by_default(nodes: Nodes) -> None:
    class Counting(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            self.seen = len(list(replies))
            return super().aggregate_train(server_round, replies)

    nodes.add(1, 2)
    for decode_each, seen in ((None, 2), (False, 1)):
        strategy = Counting()
        nodes.run_rounds(Compressed(strategy, TOPK, decode_each=decode_each), (1,), new_model())
        assert strategy.seen == seen


def test_a_wrong_configuration_is_an_error_at_once() -> None:
    with pytest.raises(fedplug.errors.UnknownNameError, match="topk"):
        Compressed(FedAvg(), "topkk(0.1)")
    with pytest.raises(TypeError, match="must be a Strategy"):
        Compressed("FedAvg", TOPK)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="FedXgbBagging collects trees"):
        Compressed(FedXgbBagging(), TOPK)
    with pytest.raises(TypeError, match="needs the updates of each client"):
        Compressed(DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 2), TOPK, decode_each=False)
    with pytest.raises(RuntimeError, match="configure_train"):
        Compressed(FedAvg(), TOPK).aggregate_train(1, [])


def test_a_strategy_that_sends_nodes_models_of_their_own_gets_them_back_uncompressed(nodes: Nodes) -> None:
    class Personal(FedAvg):
        def configure_train(
            self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
        ) -> list[Message]:
            messages = list(super().configure_train(server_round, arrays, config, grid))
            messages[0].content = RecordDict({**messages[0].content, "arrays": record(new_model(5))})
            return messages

    nodes.add(1)
    nodes.add(2)
    _, metrics = nodes.run_rounds(Compressed(Personal(), TOPK), (1,), new_model())
    assert (metrics["fedplug-compressed"], metrics["fedplug-dense"]) == (1, 1)


def test_the_memory_of_an_average_does_not_grow_with_the_clients(tmp_path: Any) -> None:
    def peak(clients: int) -> int:
        nodes = Nodes(tmp_path / str(clients))
        start = {"weights": np.zeros(200_000, np.float32)}
        rng = np.random.default_rng(0)
        change = {"weights": rng.normal(size=200_000).astype(np.float32)}
        for node in range(1, clients + 1):
            nodes.add(node, app=client_app(lambda node, round_num: change))
        strategy = Compressed(FedAvg(), "topk(0.001)")
        replies = nodes.send_and_receive(strategy.configure_train(1, record(start), ConfigRecord(), nodes))
        tracemalloc.start()
        strategy.aggregate_train(1, replies)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(20) < 1.1 * peak(2)


def test_the_lines_of_the_readme_run():
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [lines] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(lines, names := {"ClientApp": ClientApp, "FedAvg": FedAvg})
    assert isinstance(names["strategy"], Compressed)
