"""An invalid reply only leads to a refused update of its client."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedplug_flower import Compressed
from fedplug_flower.records import KEY, STYPE, Reply
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyServerSideAdaptiveClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedTrimmedAvg,
    Krum,
    MultiKrum,
    QFedAvg,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_flower import Nodes, arrays, assert_same, client_app, new_model, record

from fedplug import wire

ENCODER = "topk(0.1) | qsgd(8)"


def flip(content: RecordDict) -> None:
    data = bytearray(content["arrays"][KEY].data)
    data[len(data) // 2] ^= 1
    content["arrays"][KEY].data = bytes(data)


def cut(content: RecordDict) -> None:
    content["arrays"][KEY].data = content["arrays"][KEY].data[:-1]


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
    "a flipped bit": (flip, "array 'out/kernel': no container"),
    "a missing byte": (cut, "1 bytes are missing"),
    "an array in Flower's form": (of_an_array, "one array of payloads"),
    "two arrays of payloads": (of_two, "its records are 'arrays', 'more'"),
    "no arrays": (no_arrays, "its records are 'metrics'"),
    "no receipt": (in_the_record(receipt=None), "no receipt"),
    "a receipt of a megabyte": (in_the_record(receipt="x" * 2**20), "no receipt"),
    "another format": (in_the_record(format=9), "format 9"),
}
BROKEN_METRICS = {
    "no weight": (no_weight, "metrics"),
    "a negative weight": (in_the_metrics(num_examples=-3), "-3"),
    "an infinite weight": (in_the_metrics(num_examples=float("inf")), "inf"),
    "a weight too large for the sum": (in_the_metrics(num_examples=1e300), "1e+300"),
    "a weight that is no number": (in_the_metrics(num_examples=float("nan")), "nan"),
    "no weight at all": (in_the_metrics(num_examples=0), "is 0"),
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
    """Runs a round of nodes 1 to 3 in which node 2's reply is broken, and one without node 2."""
    nodes.add(1, 2, 3)
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
    assert_same(model, expected)
    assert (metrics["fedplug-compressed"], metrics["fedplug-refused"]) == (2, 1)
    (warning,) = [line for line in log if "refused" in line]
    assert "node 2" in warning
    assert words in warning
    assert "accepted" in nodes.sent[1].content[KEY]
    receipts = {reply.content[KEY]["receipt"] for reply in nodes.replies.values()}
    assert not receipts & set(nodes.sent[2].content[KEY].get("accepted", []))


def huge(content: RecordDict) -> None:
    """Declares an array of 149 GiB in the header."""
    good = content["arrays"]["dense/bias"]
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (40_000_000_000,)}
    )
    good.data = header.getvalue() + good.data[128:]


def of_arrays(change: Callable[[dict[str, Any]], Any]) -> Callable[[RecordDict], None]:
    """Returns an attack that replaces the trained arrays with the result of ``change``."""

    def answer(content: RecordDict) -> None:
        content["arrays"] = record(change(arrays(content["arrays"])))

    return answer


def with_bias(bias: Any) -> Callable[[RecordDict], None]:
    return of_arrays(lambda model: model | {"dense/bias": np.asarray(bias)})


def renamed(content: RecordDict) -> None:
    content["others"] = content["arrays"]
    del content["arrays"]


def longer(content: RecordDict) -> None:
    content["arrays"]["dense/bias"].data += b"more"


def pickled(content: RecordDict) -> None:
    content["arrays"]["dense/bias"].stype = "pickle"


def without_metrics(content: RecordDict) -> None:
    del content["metrics"]


UNCOMPRESSED = {
    "another shape": with_bias(np.zeros(31)),
    "a scalar": with_bias(0.0),
    "a missing array": of_arrays(lambda model: {"dense/kernel": model["dense/kernel"]}),
    "an unknown array": of_arrays(lambda model: model | {"extra": np.zeros(2)}),
    "no arrays": no_arrays,
    "an array twice": of_two,
    "another name for the record": renamed,
    "text": with_bias(np.full(30, "text")),
    "complex numbers": with_bias(np.zeros(30, np.complex64)),
    "NaN": with_bias(np.full(30, np.nan)),
    "an infinity": with_bias(np.full(30, np.inf)),
    "infinite in the dtype of the model": with_bias(np.full(30, 1e39)),
    "too large": with_bias(np.full(30, -3.4028235e38, np.float32)),
    "a header of 149 GiB": huge,
    "more bytes than elements": longer,
    "a pickle": pickled,
    "no metrics": without_metrics,
    "a NaN loss": in_the_metrics(train_loss=float("nan")),
    "a list as loss": in_the_metrics(train_loss=[1.0]),
}
WORDS = {
    "a missing array": "'dense/bias' of the model is missing",
    "an unknown array": "'extra' is not in the model",
    "another shape": "'dense/bias' has shape (31,)",
    "text": "'dense/bias' is of <U4",
    "NaN": "'dense/bias': it holds a NaN",
    "too large": "'dense/bias': the sum would be infinite in float32",
    "a header of 149 GiB": "'dense/bias' cannot be read",
    "a pickle": "'dense/bias' cannot be read: it is serialized as 'pickle'",
    "more bytes than elements": "'dense/bias' cannot be read: its 124 bytes are not float32[30]",
    "another name for the record": "its records are 'others'",
}
STRATEGIES = [
    lambda: FedAvg(),
    lambda: FedMedian(),
    lambda: FedTrimmedAvg(),
    lambda: Krum(num_malicious_nodes=1),
    lambda: MultiKrum(num_malicious_nodes=1, num_nodes_to_select=2),
    lambda: Bulyan(),
    lambda: QFedAvg(0.1),
    lambda: DifferentialPrivacyServerSideAdaptiveClipping(FedMedian(), 0.0, 4, 0.5, clipped_count_stddev=0.0),
]


@pytest.mark.parametrize("mods", [[], None], ids=["no mod compresses", "others compress"])
@pytest.mark.parametrize("make", STRATEGIES, ids=lambda make: type(make()).__name__)
def test_clients_that_send_something_else_change_nothing(
    make: Any, mods: Any, nodes: Nodes, tmp_path: Path, log: list[str]
) -> None:
    """They reply first, but replies are checked against the server's model, not the first reply."""
    attacks = {name: attack for name, (attack, _) in BROKEN_METRICS.items()} | UNCOMPRESSED
    if not isinstance(make(), QFedAvg):
        del attacks["a NaN loss"]  # only QFedAvg looks at losses
    honest, metrics = Nodes(tmp_path / "honest"), {"train_loss": 0.5}
    by_node = dict(enumerate(attacks.values(), 1))
    for node in by_node:
        nodes.add(node, app=client_app(mods=[], metrics=metrics))
    for node in (101, 102, 103, 104):
        for grid in (nodes, honest):
            grid.add(node, app=client_app(mods=mods, metrics=metrics))

    def on_the_way(reply: Message) -> Message:
        by_node.get(reply.metadata.src_node_id, lambda content: None)(reply.content)
        return reply

    nodes.on_the_way = on_the_way
    model, found = nodes.run_rounds(Compressed(make(), "identity"), (1,), new_model())
    expected, _ = honest.run_rounds(Compressed(make(), "identity"), (1,), new_model())
    for node, name in enumerate(attacks, 1):
        (line,) = [line for line in log if f"the update of node {node} is refused" in line]
        assert WORDS.get(name, "") in line
    assert found["fedplug-refused"] == len(attacks)
    assert_same(model, expected)


def test_arrays_in_another_order_or_a_wider_dtype_are_those_of_the_model(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Flower's clipping pairs arrays by position."""
    others = Nodes(tmp_path / "others")

    def clipping() -> Compressed:
        return Compressed(
            DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 0.0, 2, 1e6, clipped_count_stddev=0.0),
            ENCODER,
        )

    for grid in (nodes, others):
        grid.add(1, 2, app=client_app(mods=[]))
    nodes.on_the_way = broken_by(
        of_arrays(lambda model: {name: model[name].astype(np.float64) for name in reversed(model)}), 1
    )
    model, metrics = nodes.run_rounds(clipping(), (1,), new_model())
    expected, _ = others.run_rounds(clipping(), (1,), new_model())
    assert metrics["fedplug-refused"] == 0
    assert_same(model, expected)


@pytest.mark.parametrize(
    "make",
    [lambda: FedAdam(), lambda: FedAvgM(server_learning_rate=1e30), lambda: QFedAvg(1e-20, q=5.0)],
    ids=["second moment", "model", "model of a strategy that sees each update"],
)
def test_a_round_whose_result_is_not_finite_is_refused_and_leaves_model_and_strategy(
    make: Any, nodes: Nodes, tmp_path: Path, log: list[str]
) -> None:
    other = Nodes(tmp_path / "other")
    metrics = {"train_loss": 0.5}
    for grid in (nodes, other):
        grid.add(1, 2, app=client_app(metrics=metrics))
    strategy, expected = Compressed(make(), "identity"), Compressed(make(), "identity")
    nodes.add(3, app=client_app(mods=[], metrics=metrics))
    model = new_model()
    nodes.on_the_way = broken_by(with_bias(np.full(30, 1e30, np.float32)), 3)
    after, found = nodes.run_rounds(strategy, (1,), model)
    assert_same(after, model)
    assert found["fedplug-refused"] == 0
    assert any("round 1 is refused, the model stays as it is" in line for line in log)
    nodes.remove(3)
    after, _ = nodes.run_rounds(strategy, (2,), after)
    assert not any("accepted" in message.content[KEY] for message in nodes.sent.values())
    model, _ = other.run_rounds(expected, (2,), model)
    assert_same(after, model)


def test_on_a_tie_metrics_have_the_form_of_the_last_round(nodes: Nodes, log: list[str]) -> None:
    nodes.add(1, 2)
    strategy = Compressed(FedAvg(), ENCODER)
    model, _ = nodes.run_rounds(strategy, (1,), new_model())
    nodes.on_the_way = broken_by(in_the_metrics(aaa=1.0, surprise=1.0), 1)
    nodes.run_rounds(strategy, (2,), model)
    (warning,) = [line for line in log if "refused" in line]
    assert "node 1" in warning
    assert "'surprise'" in warning


VALUES = st.one_of(
    st.integers(-5, 2**63 - 1),
    st.floats(),
    st.text(),
    st.binary(),
    st.lists(st.integers(-5, 50)),
    st.lists(st.text()),
)


@given(
    fields=st.dictionaries(st.sampled_from(["format", "receipt", "x"]), VALUES),
    good=st.booleans(),
    data=st.binary(max_size=60) | st.binary(max_size=60).map(lambda body: wire.frame(body, "x", "uint8", ())),
    stype=st.sampled_from([STYPE, "numpy.ndarray"]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the first string takes seconds
def test_any_record_is_read_or_refused(fields: dict[str, Any], good: bool, data: bytes, stype: str) -> None:
    base = {"format": 1, "receipt": "r"} if good else {}
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
    assert bytes(reply.payloads["weights"]) == data


def test_a_request_that_the_mod_does_not_understand_is_an_error_of_that_node(nodes: Nodes) -> None:
    nodes.add(1, 2)
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
