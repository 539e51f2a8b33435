"""Tests each rule that refuses a combination of parts, and that the remedy in its message works."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.encoders import Identity, ModelEncoder
from fedplug.errors import CapabilityError, CapabilityWarning
from fedplug.registry.specs import Capabilities
from fedplug.tff.aggregators import Mean, MemoryMean
from fedplug.tff.process import build_sum_factory
from fedplug.tff.process.compatibility import RULES, Configuration, check


class Median(Mean):
    """Accumulates every update and accepts one dtype; only its declarations matter here."""

    name = "median"

    @property
    def capabilities(self):
        return Capabilities(dtypes=("float32",))


class OnlyDoubles(Identity):
    @property
    def capabilities(self):
        return Capabilities(lossless=True, dtypes=("float64",))


def stack(encoder, aggregator=None, *, dtypes=("float32",), keeps_client_state=True, **facts):
    part = fedplug.encoder(encoder) if isinstance(encoder, str) else encoder
    return Configuration(
        encoders=((part, frozenset(dtypes)),),
        aggregator=aggregator or Mean(),
        keeps_client_state=keeps_client_state,
        **facts,
    )


def conflicts(configuration):
    return {rule.name: conflict for rule in RULES for conflict in rule.conflicts(configuration)}


BROKEN = {
    "client state": stack("topk(0.01)", keeps_client_state=False),
    "client state, always": stack("sign", keeps_client_state=False),
    "secure sum": stack("topk(0.01)", secure_sum="floats"),
    "secure sum, of floats": stack("sharedk(0.01, clients=2)", secure_sum="floats"),
    "secure sum, of integers": stack("randomk(0.01)", secure_sum="integers"),
    "secure sum, pipeline": stack("randomk(0.01) | qsgd(8)", secure_sum="floats"),
    "sensitivity": stack("topk(0.01)", private=True),
    "sensitivity, scaled up": stack("randomk(0.01)", private=True),
    "dtype": stack(OnlyDoubles()),
    "memory": stack("ef21('topk(0.01)')"),
    "memory, none": stack("topk(0.01)", MemoryMean(5)),
    "memory, of small tensors": stack("identity", MemoryMean(5)),
    "client state, memory": stack("ef21('topk(0.01)')", keeps_client_state=False),
    "sensitivity, memory": stack("ef21('topk(0.01)')", private=True),
    "bias": stack("topk(0.01, error_feedback=False)"),
    "bias, no place for state": stack("topk(0.1, error_feedback=False)", keeps_client_state=False),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_found_and_its_suggestion_works(case):
    rule = case.partition(",")[0]
    broken = BROKEN[case]
    (found,) = {name: c for name, c in conflicts(broken).items() if name == rule}.values()
    message = found.message(rule)
    assert message.startswith(f"rule {rule!r}: ")
    assert all(part in message for part in (*found.parts, found.instead))
    (_, dtypes) = broken.encoders[0]
    mended = dataclasses.replace(broken, encoders=((fedplug.encoder(found.instead), dtypes),))
    assert rule not in conflicts(mended)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (stack("identity", Median(), secure_sum="floats"), "secure sum"),
        (stack("sharedk(0.01, clients=2)", Median(), secure_sum="integers"), "secure sum"),
        (stack("identity", Median(), dtypes=("float32", "float64")), "dtype"),
    ],
)
def test_the_incompatible_part_can_be_the_aggregator(broken, rule):
    found = conflicts(broken)[rule]
    assert found.parts[0].startswith("median")
    mended = dataclasses.replace(broken, aggregator=fedplug.aggregator(found.instead))
    assert rule not in conflicts(mended)


@pytest.mark.parametrize(
    "fine",
    [
        stack("topk(0.01)"),
        stack("topk(0.01) | qsgd(8) | rice"),
        stack("qsgd(8)", keeps_client_state=False),
        stack("float16", keeps_client_state=False),
        stack("randomk(0.01)", secure_sum="floats", keeps_client_state=False),
        stack("sharedk(0.01, clients=2)", secure_sum="integers"),
        stack("topk(0.01, error_feedback=False)", Median()),
        stack("identity", secure_sum="floats", private=True),
        stack("ef21('topk(0.01)')", MemoryMean(5)),
    ],
    ids=lambda fine: repr(fine.encoders[0][0]),
)
def test_a_stack_that_works_is_neither_refused_nor_warned_about(fine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(fine)


def test_a_broken_rule_is_an_error_and_one_that_only_warns_a_warning():
    with pytest.raises(CapabilityError, match=r"rule 'client state'.*error_feedback=False"):
        check(BROKEN["client state"])
    with pytest.warns(CapabilityWarning, match=r"rule 'bias'.*use topk\(0\.01\) instead"):
        check(BROKEN["bias"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(BROKEN["bias"], warn=False)


def test_the_stack_of_a_model_has_every_encoder_with_the_dtypes_it_gets():
    specs = [
        tf.TensorSpec([100], tf.float32),
        tf.TensorSpec([200], tf.float64),
        tf.TensorSpec([3], tf.bfloat16),
        tf.TensorSpec([100], tf.int32),
    ]
    topk = fedplug.encoder("topk(0.1)")
    found = dict(Configuration.of(ModelEncoder(topk, specs), Mean(), keeps_client_state=True).encoders)
    assert found == {topk: {"float32", "float64"}, Identity(): {"bfloat16"}}


def test_a_sum_for_noise_accepts_only_encoders_that_keep_the_clipping_norm(inprocess):
    sums = build_sum_factory("topk(0.1, error_feedback=False)", private=True)
    sums.create(tff.TensorType(np.float32, [100]))  # no warning: biased encoders are refused
    with pytest.raises(CapabilityError, match=r"rule 'sensitivity': randomk.*use topk\(0\.01, error_feed"):
        build_sum_factory("randomk(0.1)", private=True)


def test_a_process_is_checked_when_it_is_built(model_fn, sgd):
    with pytest.raises(CapabilityError, match=r"rule 'dtype'.*takes float64"):
        fedplug.tff.process.build_weighted_fed_avg(model_fn, sgd, encoder=OnlyDoubles())
