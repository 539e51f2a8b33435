"""What a client sends reaches nobody but as a refused update of that client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fedplug_flower import Compressed
from fedplug_flower.records import KEY, STYPE, Reply
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_flower import Nodes, client_app, new_model, record

ENCODER = "topk(0.1) | qsgd(8)"


def flip(content: RecordDict) -> None:
    data = bytearray(content["arrays"][KEY].data)
    data[len(data) // 2] ^= 1
    content["arrays"][KEY].data = bytes(data)


def cut(content: RecordDict) -> None:
    content["arrays"][KEY].data = content["arrays"][KEY].data[:-1]


def swap(content: RecordDict) -> None:
    data, (first, *others) = content["arrays"][KEY].data, content[KEY]["lengths"]
    content["arrays"][KEY].data = data[first:] + data[:first]
    content[KEY]["lengths"] = [*others, first]


def of_an_array(content: RecordDict) -> None:
    content["arrays"] = record({KEY: np.zeros(3)})


def of_two(content: RecordDict) -> None:
    content["more"] = ArrayRecord(dict(content["arrays"]))


def no_arrays(content: RecordDict) -> None:
    del content["arrays"]


def in_the_record(**fields: Any) -> Callable[[RecordDict], None]:
    def change(content: RecordDict) -> None:
        for key, value in fields.items():
            if value is None:
                del content[KEY][key]
            else:
                content[KEY][key] = value

    return change


def in_the_metrics(**fields: Any) -> Callable[[RecordDict], None]:
    def change(content: RecordDict) -> None:
        for key, value in fields.items():
            content["metrics"][key.replace("_", "-")] = value

    return change


def no_weight(content: RecordDict) -> None:
    del content["metrics"]["num-examples"]


BROKEN = {
    "a flipped bit": (flip, "tensor '"),
    "a missing byte": (cut, "bytes, and should be"),
    "payloads of other arrays": (swap, "tensor 'dense/kernel'"),
    "an array in Flower's form": (of_an_array, "one array of payloads"),
    "two arrays of payloads": (of_two, "one array of payloads"),
    "no arrays": (no_arrays, "one array of payloads"),
    "no receipt": (in_the_record(receipt=None), "no receipt"),
    "a receipt of a megabyte": (in_the_record(receipt="x" * 2**20), "no receipt"),
    "no lengths": (in_the_record(lengths=None), "how long"),
    "empty lengths": (in_the_record(lengths=[]), "0 payloads"),
    "lengths of floats": (in_the_record(lengths=[1.0, 2.0, 3.0]), "how long"),
    "a negative length": (in_the_record(lengths=[-1, 2, 3]), "how long"),
    "another format": (in_the_record(format=9), "format 9"),
}
BROKEN_METRICS = {
    "no weight": (no_weight, "metrics"),
    "a negative weight": (in_the_metrics(num_examples=-3), "-3"),
    "an infinite weight": (in_the_metrics(num_examples=float("inf")), "inf"),
    "a weight too large for the sum": (in_the_metrics(num_examples=1e300), "infinite"),
    "a weight that is no number": (in_the_metrics(num_examples=float("nan")), "nan"),
    "a list as weight": (in_the_metrics(num_examples=[1, 2]), "metrics"),
    "another metric": (in_the_metrics(surprise=1.0), "surprise"),
}


def broken_by(change: Callable[[RecordDict], None], node: int) -> Callable[[Message], Message]:
    def on_the_way(reply: Message) -> Message:
        if reply.metadata.src_node_id == node:
            change(reply.content)
        return reply

    return on_the_way


def with_and_without(nodes: Nodes, other: Nodes, change: Any, make: Any = FedAvg) -> tuple[Any, Any, Any]:
    """A round of nodes 1, 2 and 3 where node 2's reply is broken; and the model without node 2."""
    for node in (1, 2, 3):
        nodes.add(node)
    nodes.on_the_way = broken_by(change, 2)
    strategy = Compressed(make(), ENCODER)
    model, metrics = nodes.run_rounds(strategy, (1,), new_model())
    other.add(1)
    other.add(3)
    expected, _ = other.run_rounds(Compressed(make(), ENCODER), (1,), new_model())
    nodes.on_the_way = lambda reply: reply
    nodes.run_rounds(strategy, (2,), model)
    return model, metrics, expected


@pytest.mark.parametrize("case", BROKEN | BROKEN_METRICS)
def test_a_broken_update_is_refused_by_name_and_the_others_are_aggregated(
    case: str, nodes: Nodes, tmp_path: Any, log: list[str]
) -> None:
    change, words = (BROKEN | BROKEN_METRICS)[case]
    model, metrics, expected = with_and_without(nodes, Nodes(tmp_path / "other"), change)
    for name, array in expected.items():
        np.testing.assert_array_equal(model[name], array)
    assert (metrics["fedplug-compressed"], metrics["fedplug-refused"]) == (2, 1)
    (warning,) = [line for line in log if "refused" in line]
    assert "node 2" in warning
    assert words in warning
    assert "accepted" in nodes.sent[1].content[KEY]
    receipts = {reply.content[KEY]["receipt"] for reply in nodes.replies.values()}
    assert not receipts & set(nodes.sent[2].content[KEY]["accepted"])


@pytest.mark.parametrize("case", BROKEN)
def test_so_it_is_where_the_strategy_looks_at_each_update(case: str, nodes: Nodes, tmp_path: Any) -> None:
    model, metrics, expected = with_and_without(nodes, Nodes(tmp_path / "other"), BROKEN[case][0], FedMedian)
    for name, array in expected.items():
        np.testing.assert_array_equal(model[name], array)
    assert metrics["fedplug-refused"] == 1


def test_a_refused_update_leaves_the_residual_of_its_client_as_it_was(nodes: Nodes, tmp_path: Any) -> None:
    other = Nodes(tmp_path / "other")
    for grid in (nodes, other):
        for node in (1, 2, 3):
            grid.add(node)
    nodes.on_the_way = broken_by(flip, 2)
    other.on_the_way = lambda reply: None if reply.metadata.src_node_id == 2 else reply
    for grid in (nodes, other):
        strategy = Compressed(FedAvg(), ENCODER)
        model, _ = grid.run_rounds(strategy, (1,), new_model())
        grid.on_the_way = lambda reply: reply
        grid.run_rounds(strategy, (2,), model)
    assert nodes.replies[2].content["arrays"] == other.replies[2].content["arrays"]


def test_a_round_in_which_all_are_refused_changes_nothing(nodes: Nodes) -> None:
    for node in (1, 2):
        nodes.add(node)
    nodes.on_the_way = lambda reply: (flip(reply.content), reply)[1]
    strategy = Compressed(FedAvg(), ENCODER)
    arrays, metrics = strategy.aggregate_train(
        1, nodes.send_and_receive(strategy.configure_train(1, record(new_model()), ConfigRecord(), nodes))
    )
    assert arrays is None
    assert metrics is not None
    assert metrics["fedplug-refused"] == 2


def a_bias(array: Any) -> ArrayRecord:
    found = Array(np.asarray(array)) if not isinstance(array, Array) else array
    return ArrayRecord({**record(new_model()), "dense/bias": found})


WRONG_MODELS = [
    (record({"dense/kernel": np.zeros((40, 30))}), "'dense/bias' of the model is missing"),
    (record({**new_model(), "extra": np.zeros(2)}), "'extra' is not in the model"),
    (a_bias(np.zeros(31)), "'dense/bias' has shape (31,)"),
    (a_bias(np.full(30, np.nan)), "'dense/bias': it holds a NaN"),
    (a_bias(np.full(30, "text")), "'dense/bias' is of <U4"),
    (a_bias(Array("float32", (30,), "numpy.ndarray", b"no array")), "'dense/bias' cannot be read"),
    (a_bias(Array("float32", (30,), "pickle", b"")), "'dense/bias' cannot be read"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG_MODELS, ids=[words for _, words in WRONG_MODELS])
def test_a_model_that_is_not_the_servers_is_refused_beside_compressed_updates(
    wrong: ArrayRecord, words: str, nodes: Nodes, log: list[str]
) -> None:
    def answer(content: RecordDict) -> None:
        content["arrays"] = wrong

    nodes.add(1)
    nodes.add(2, client_app(mods=[]))
    nodes.on_the_way = broken_by(answer, 2)
    model, metrics = nodes.run_rounds(Compressed(FedAvg(), ENCODER), (1,), new_model())
    assert (metrics["fedplug-compressed"], metrics["fedplug-refused"]) == (1, 1)
    assert all(np.isfinite(array).all() for array in model.values())
    assert ["node 2" in line and words in line for line in log if "refused" in line] == [True]


VALUES = st.one_of(
    st.integers(-5, 2**63 - 1),
    st.floats(),
    st.text(),
    st.binary(),
    st.lists(st.integers(-5, 50)),
    st.lists(st.text()),
)


@given(
    fields=st.dictionaries(st.sampled_from(["format", "receipt", "lengths", "x"]), VALUES),
    good=st.booleans(),
    data=st.binary(max_size=60),
    stype=st.sampled_from([STYPE, "numpy.ndarray"]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the first text takes seconds
def test_any_record_is_read_or_refused(fields: dict[str, Any], good: bool, data: bytes, stype: str) -> None:
    base = {"format": 1, "receipt": "r", "lengths": [len(data)]} if good else {}
    content = RecordDict(
        {
            "arrays": ArrayRecord({KEY: Array("uint8", (len(data),), stype, data)}),
            KEY: ConfigRecord({**base, **fields}),
        }
    )
    try:
        reply = Reply.read(content, ["weights"])
    except ValueError:
        return
    assert reply.payloads == {"weights": data}


def test_a_request_that_the_mod_does_not_understand_is_an_error_of_that_node(nodes: Nodes) -> None:
    for node in (1, 2):
        nodes.add(node)
    strategy = Compressed(FedAvg(), ENCODER)
    bad = [
        {"format": 2},
        {"training": "../../somewhere"},
        {"encoder": '{"kind": "encoder", "name": "of a plugin that is not here"}'},
        {"encoder": "no JSON"},
        {"accepted": 3},
    ]
    for fields in bad:
        messages = list(strategy.configure_train(1, record(new_model()), ConfigRecord(), nodes))
        for key, value in fields.items():
            messages[0].content[KEY][key] = value
        replies = nodes.send_and_receive(messages)
        assert [reply.has_error() for reply in replies].count(True) == 1
    assert not any("somewhere" in str(path) for path in nodes.state_dir.rglob("*"))
