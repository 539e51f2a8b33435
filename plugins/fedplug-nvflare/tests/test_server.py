"""Aggregator and decoder on the server handle NVFlare's messages."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import contexts
import fedplug_nvflare
import numpy as np
import pytest
from fedplug_nvflare import FedplugAggregator, FedplugDecoder
from fedplug_nvflare.update import RECEIPT
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.weighted_aggregation_helper import (
    WeightedAggregationHelper,
    filter_aggregatable_metrics,
)
from nvflare.app_common.app_constant import AlgorithmConstants
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

import fedplug
from fedplug import wire

WEIGHTS: dict[str, Any] = {
    "kernel": np.zeros((64, 32), np.float32),
    "half": np.zeros((128,), np.float16),
    "steps": np.array(5, np.int64),
}


def update(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "kernel": rng.normal(size=(64, 32)).astype(np.float32),
        "half": rng.normal(size=128).astype(np.float16),
        "steps": np.array(seed, np.int64),
    }


def compressed(arrays: dict[str, Any], codec: str = "identity", **meta: Any) -> Shareable:
    payloads, _ = fedplug.codec(codec).encode_model(arrays)
    return contexts.result(payloads, **{MetaKey.PROCESSED_ALGORITHM: "fedplug"}, **meta)


def steps(number: float) -> dict[str, Any]:
    return {MetaKey.NUM_STEPS_CURRENT_ROUND: number}


@pytest.fixture
def aggregator() -> FedplugAggregator:
    component = FedplugAggregator()
    contexts.begin_round(component, WEIGHTS)
    return component


@pytest.fixture
def decoder() -> FedplugDecoder:
    component = FedplugDecoder()
    contexts.begin_round(component, WEIGHTS)
    return component


def accept(aggregator: FedplugAggregator, result: Shareable, client: str = "site-1") -> bool:
    return aggregator.accept(contexts.arrived(result, client), contexts.context("server", client))


def aggregated(aggregator: FedplugAggregator) -> dict[str, Any]:
    dxo = from_shareable(aggregator.aggregate(contexts.context("server", "site-1")))
    assert dxo.data_kind == DataKind.WEIGHT_DIFF
    return dict(dxo.data)


def assert_same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


BROKEN = {
    "a flipped bit": lambda sent: sent | {"kernel": sent["kernel"][:40] + b"\0" + sent["kernel"][41:]},
    "cut off": lambda sent: sent | {"kernel": sent["kernel"][:-1]},
    "no payload": lambda sent: sent | {"kernel": b""},
    "no bytes": lambda sent: sent | {"kernel": {"a": 1}},
    "another shape": lambda sent: sent | {"kernel": fedplug.codec("identity").encode(np.ones(3, "f4"))[0]},
    "another dtype": lambda sent: sent | {"kernel": fedplug.codec("identity").encode(np.ones((64, 32)))[0]},
    "a tensor is missing": lambda sent: {name: sent[name] for name in sent if name != "kernel"},
    "an unknown tensor": lambda sent: sent | {"kernel 2": sent["kernel"]},
}


@pytest.mark.parametrize("codec", ["identity", "topk(0.1)", "topk(0.1) | qsgd(8)"])
def test_the_mean_is_nvflares_bit_for_bit(aggregator: FedplugAggregator, codec: str) -> None:
    nvflare = WeightedAggregationHelper()
    for seed, weight in [(1, 3), (2, 5), (3, 1)]:
        sent = compressed(update(seed), codec, **steps(weight))
        received = fedplug.decode_model(from_shareable(sent).data)
        widened = received | {"half": received["half"].astype(np.float32)}
        nvflare.add(widened, float(weight), f"site-{seed}", 0)
        assert accept(aggregator, sent, f"site-{seed}")
    expected = nvflare.get_result()
    assert_same(aggregated(aggregator), expected | {"half": expected["half"].astype(np.float16)})


def test_payloads_of_encoders_that_are_not_expected_are_refused() -> None:
    payloads, _ = fedplug.codec("topk(0.1)").encode_model(update(2))
    container = wire.unframe(payloads["kernel"])
    payloads["kernel"] = wire.frame(container.body, "countsketch/1", container.dtype, container.shape)
    sent = compressed(update(1))
    dxo = from_shareable(sent)
    dxo.data = payloads
    aggregator, narrow = FedplugAggregator(), FedplugAggregator(wire_ids=["qsgd/1"])
    for component in (aggregator, narrow):
        contexts.begin_round(component, WEIGHTS)
    assert not accept(aggregator, dxo.to_shareable())
    assert not accept(narrow, compressed(update(1), "topk(0.1)"))
    assert accept(narrow, compressed(update(1), "qsgd(4)"))
    assert accept(aggregator, compressed(update(1), "topk(0.1)"))
    decoder = FedplugDecoder(wire_ids=["qsgd/1"])
    contexts.begin_round(decoder, WEIGHTS)
    for codec, arrives in (("topk(0.1)", False), ("qsgd(4)", True)):
        assert bool(contexts.decoded(decoder, compressed(update(1), codec)).data) is arrives


UNCOMPRESSED = {
    "another shape, dense": {"kernel": np.zeros(3, np.float32)},
    "another dtype, dense": {"kernel": np.zeros((64, 32))},
    "NaN": {"kernel": np.full((64, 32), np.nan, np.float32)},
    "an infinity": {"half": np.full(128, np.inf, np.float16)},
    "infinite in the dtype of the model": {"half": np.full(128, 7e4, np.float32)},
    "text": {"kernel": "text"},
    "nothing": {"kernel": None},
    "an unknown tensor, dense": {"kernel 2": np.zeros(3, np.float32)},
}


def hostile(case: str) -> Shareable:
    """Returns a broken update of a case of `BROKEN`, or an uncompressed one of a case of `UNCOMPRESSED`."""
    meta = {MetaKey.INITIAL_METRICS: {"accuracy": 1.0}, AlgorithmConstants.SCAFFOLD_CTRL_DIFF: {"a": 1}}
    if case in UNCOMPRESSED:
        return contexts.result(update(2) | UNCOMPRESSED[case], **meta)
    dxo = from_shareable(compressed(update(2), **meta))
    return DXO(dxo.data_kind, BROKEN[case](dxo.data), dxo.meta).to_shareable()


@pytest.mark.parametrize("case", BROKEN | UNCOMPRESSED)
def test_a_broken_update_leaves_no_trace_in_the_sum_and_is_empty_behind_the_decoder(
    aggregator: FedplugAggregator, decoder: FedplugDecoder, case: str
) -> None:
    assert accept(aggregator, compressed(update(1)))
    model = FLModelUtils.from_shareable(hostile(case))
    model.meta["client_name"] = "site-2"
    with pytest.raises(ValueError, match=r"update of client 'site-2' refused: .*(kernel|half)"):
        aggregator.accept_model(model)
    assert not accept(aggregator, hostile(case), "site-2")
    assert_same(aggregated(aggregator), update(1) | {"steps": 1.0})
    sent = contexts.arrived(hostile(case), "site-2")
    sent.set_header(RECEIPT, "0-hostile")
    passed = decoder.process(sent, contexts.context("server", "site-2"))
    assert from_shareable(passed).data == {}
    # Without them, NVFlare's workflow of SCAFFOLD would end the job.
    assert from_shareable(passed).get_meta_prop(AlgorithmConstants.SCAFFOLD_CTRL_DIFF) == {"a": 1}
    assert passed.get_header(RECEIPT) is None
    assert FLModelUtils.from_shareable(passed).metrics is None


@pytest.mark.parametrize("send", [compressed, contexts.result])
def test_the_decoder_makes_updates_that_nvflare_aggregates(decoder: FedplugDecoder, send: Any) -> None:
    passed = contexts.decoded(decoder, send(update(1), **steps(7)))
    assert_same(passed.data, update(1))
    assert passed.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND) == 7
    assert MetaKey.PROCESSED_ALGORITHM not in passed.meta


def test_full_weights_and_other_processing_are_refused(aggregator: FedplugAggregator) -> None:
    model = FLModelUtils.from_shareable(contexts.result(update(1), kind=DataKind.WEIGHTS))
    with pytest.raises(ValueError, match=r"full weights.*TransferType\.DIFF"):
        aggregator.accept_model(model)
    encrypted = contexts.result(update(1), **{MetaKey.PROCESSED_ALGORITHM: "_HE_algo_encrypted_"})
    with pytest.raises(ValueError, match="_HE_algo_encrypted_"):
        aggregator.accept_model(FLModelUtils.from_shareable(encrypted))


def test_a_round_without_an_accepted_update_leaves_the_model(aggregator: FedplugAggregator) -> None:
    model = FLModelUtils.from_shareable(contexts.task(WEIGHTS))
    after = FLModelUtils.update_model(model, aggregator.aggregate_model())
    assert_same(after.params, WEIGHTS)


def test_weights_of_clients_count_as_in_nvflare() -> None:
    aggregator = FedplugAggregator(aggregation_weights={"site-1": 3.0})
    contexts.begin_round(aggregator, WEIGHTS)
    for client, said in [("site-1", 1), ("site-2", "nonsense")]:
        accept(aggregator, compressed(update(int(client[-1])), **steps(said)), client)
    expected = (3 * update(1)["kernel"] + update(2)["kernel"]) / 4
    np.testing.assert_allclose(aggregated(aggregator)["kernel"], expected, rtol=1e-5, atol=1e-6)


def test_bytes_and_metrics_are_in_the_result(aggregator: FedplugAggregator) -> None:
    sent = [compressed(update(i), "topk(0.1)", **{MetaKey.INITIAL_METRICS: {"loss": i}}) for i in (1, 3)]
    for result in sent:
        accept(aggregator, result)
    model = aggregator.aggregate_model()
    uplink = sum(len(payload) for result in sent for payload in from_shareable(result).data.values())
    dense = 2 * sum(array.nbytes for array in WEIGHTS.values())
    assert model.meta["fedplug"] == {"clients": 2, "uplink_bytes": uplink, "dense_bytes": dense}
    assert model.metrics == {"loss": 2.0}


METRICS = [
    {"loss": 10**400},
    {"loss": "good", "text": b"good", "none": None},
    {"loss": np.ones((3, 4)), "confusion": [[1, 0]], "nested": {"a": 1}},
    {1: 2.0},
    {},
]


@pytest.mark.parametrize("metrics", METRICS, ids=str)
def test_metrics_of_any_form_are_accepted(
    aggregator: FedplugAggregator, decoder: FedplugDecoder, metrics: dict[Any, Any]
) -> None:
    given = {MetaKey.INITIAL_METRICS: {"accuracy": np.float32(0.5), **metrics}}
    for _ in range(2):
        assert accept(aggregator, compressed(update(1), **given))
    result = aggregator.aggregate_model()
    assert result.metrics == {"accuracy": 0.5}
    assert_same(result.params, update(1) | {"steps": 1.0})
    nvflare = WeightedAggregationHelper()
    for _ in range(2):
        passed = contexts.decoded(decoder, compressed(update(1), **given)).meta[MetaKey.INITIAL_METRICS]
        nvflare.add(filter_aggregatable_metrics(passed), 3.0, "site-1", 0)
    assert nvflare.get_result() == {"accuracy": 0.5}


@pytest.mark.parametrize("send", [compressed, contexts.result])
@pytest.mark.parametrize(("value", "weight"), [(1.0, 1e300), (1e37, 1000), (1.0, 1e-40)])
def test_products_and_weights_that_no_sum_holds_are_refused(
    aggregator: FedplugAggregator, decoder: FedplugDecoder, send: Any, value: float, weight: float
) -> None:
    large = update(1) | {"kernel": np.full((64, 32), value, np.float32)}
    assert accept(aggregator, compressed(update(2)))
    assert not accept(aggregator, send(large, **steps(weight)), "site-2")
    assert_same(aggregated(aggregator), update(2) | {"steps": 2.0})
    assert contexts.decoded(decoder, send(large, **steps(weight))).data == {}


def test_a_mean_that_is_not_finite_leaves_the_model(aggregator: FedplugAggregator) -> None:
    """NVFlare multiplies by the reciprocal of the weights. Rounding may make the largest number infinite."""
    largest = np.finfo(np.float32).max
    weights = [n / 100 for n in range(1, 100)]
    with np.errstate(over="ignore"):
        (weight, *_) = [w for w in weights if np.isinf(largest * np.float32(w) * np.float32(1 / w))]
    assert accept(aggregator, compressed(update(1) | {"kernel": np.full((64, 32), largest)}, **steps(weight)))
    model = FLModelUtils.from_shareable(contexts.task(WEIGHTS))
    assert_same(FLModelUtils.update_model(model, aggregator.aggregate_model()).params, WEIGHTS)


@pytest.mark.parametrize(
    ("params", "taken"),
    [
        (update(1), True),
        (update(1) | {"steps": np.array(1.5)}, True),
        (update(1) | {"kernel": np.full((64, 32), np.nan, np.float32)}, False),
        (update(1) | {"half": np.full(128, np.inf, np.float16)}, False),
        ({}, False),
    ],
    ids=["finite", "a mean of integers", "NaN", "infinite", "empty"],
)
def test_the_aggregation_of_decoded_updates_by_nvflare_is_checked(
    decoder: FedplugDecoder, params: dict[str, Any], taken: bool
) -> None:
    result = FLModel(params=dict(params), params_type=ParamsType.DIFF if params else None)
    contexts.end_round(decoder, result)
    after = FLModelUtils.update_model(FLModelUtils.from_shareable(contexts.task(WEIGHTS)), result)
    assert np.isfinite(after.params["kernel"]).all()
    assert np.array_equal(after.params["kernel"], WEIGHTS["kernel"]) != taken
    assert bool(result.params) == taken


@pytest.mark.parametrize("constant", [np.inf, -np.inf, np.nan])
def test_dense_differences_of_constants_that_are_not_finite_are_taken(constant: float) -> None:
    """NVFlare's difference of such constants is NaN. Other NaNs are refused."""
    mask = np.asarray([0, constant], np.float32)
    aggregator = FedplugAggregator()
    contexts.begin_round(aggregator, {"mask": mask, "w": np.zeros(3, np.float32)})
    nan = np.asarray([0, np.nan], np.float32)
    assert accept(aggregator, contexts.result({"mask": nan, "w": np.ones(3, np.float32)}))
    assert not accept(aggregator, contexts.result({"mask": nan[::-1], "w": np.ones(3, np.float32)}))
    assert_same(aggregated(aggregator), {"mask": np.zeros(2, np.float32), "w": np.ones(3, np.float32)})


BAD = {
    "metrics are a list": lambda dxo: dxo["meta"].update({MetaKey.INITIAL_METRICS: [1]}),
    "metrics are a number": lambda dxo: dxo["meta"].update({MetaKey.INITIAL_METRICS: 1.5}),
    "the meta is a list": lambda dxo: dxo.update(meta=[1]),
    "the data are a list": lambda dxo: dxo.update(data=[1]),
    "the data are a collection": lambda dxo: dxo.update(data={"a": DXO(DataKind.WEIGHT_DIFF, {"k": 1})}),
    "the kind is unknown": lambda dxo: dxo.update(kind=["x"]),
    "the history is a number": lambda dxo: dxo["meta"].update({MetaKey.FILTER_HISTORY: 5, "steps": {}}),
    "the weight is a list": lambda dxo: dxo["meta"].update({MetaKey.NUM_STEPS_CURRENT_ROUND: [[]]}),
    "a name is a number": lambda dxo: dxo["data"].update({5: b""}),
}


@pytest.mark.parametrize("bad", BAD)
def test_no_result_of_a_client_raises(
    aggregator: FedplugAggregator, decoder: FedplugDecoder, bad: str
) -> None:
    """An error in NVFlare's callbacks would end the job of all clients."""
    for component in (aggregator, decoder):
        sent = compressed(update(1))
        BAD[bad](sent["DXO"])
        if component is aggregator:
            assert accept(aggregator, sent, "bad") in (True, False)
        else:
            decoder.process(contexts.arrived(sent, "bad"), contexts.context("server", "bad"))
    assert accept(aggregator, compressed(update(2)), "good")
    assert aggregated(aggregator)


def test_a_message_without_an_update_does_not_raise(aggregator: FedplugAggregator) -> None:
    assert not accept(aggregator, Shareable())
    assert not accept(aggregator, contexts.result({"accuracy": 1.0}, DataKind.METRICS))


def test_a_round_without_updates_is_an_error_that_says_why(
    aggregator: FedplugAggregator, decoder: FedplugDecoder, caplog: pytest.LogCaptureFixture
) -> None:
    def error() -> str:
        (found,) = [
            one.getMessage() for one in caplog.records if "no update was accepted" in one.getMessage()
        ]
        caplog.clear()
        return found

    broken = {"kernel": b""}
    accept(aggregator, contexts.result(broken, **{MetaKey.PROCESSED_ALGORITHM: "fedplug"}), "site-1")
    accept(aggregator, contexts.result(update(1), DataKind.WEIGHTS), "site-2")
    caplog.clear()
    assert aggregated(aggregator) == {}
    reasons = error()
    assert "'site-1': there is no payload of ['half', 'steps']" in reasons
    assert "'site-2': it is of full weights" in reasons
    contexts.begin_round(aggregator, WEIGHTS)
    assert aggregated(aggregator) == {}
    assert "no client sent one, and their logs say why" in error()
    contexts.decoded(decoder, contexts.result(update(1), DataKind.WEIGHTS), "site-3")
    caplog.clear()
    contexts.end_round(decoder, FLModel(params={}, params_type=ParamsType.DIFF))
    assert "'site-3': it is of full weights" in error()


def test_a_mean_of_scatter_and_gather_that_is_not_finite_changes_nothing(decoder: FedplugDecoder) -> None:
    """Its result is a DXO and not an FLModel."""
    result = contexts.result(update(1) | {"kernel": np.full((64, 32), np.inf, np.float32)})
    contexts.end_round(decoder, result)
    assert from_shareable(result).data == {}


ARGUMENTS = {"FedplugEncoder": ("topk(0.1)",)}
# The aggregator has a helper of NVFlare, which has a lock of its own.
NAMES = sorted({*fedplug_nvflare.__all__} - {"FedplugAggregator"})


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("name", NAMES)
def test_a_component_can_be_pickled_and_copied(name: str, way: Callable[[Any], Any]) -> None:
    component = getattr(fedplug_nvflare, name)(*ARGUMENTS.get(name, ()))
    assert type(way(component)) is type(component)
