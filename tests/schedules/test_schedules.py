"""The built-in schedules: their values, the same in a graph, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug.errors import ConfigError, UnknownNameError
from fedplug.schedules import Constant, Cosine, Exponential, Linear, Step, as_schedule, schedule_config

numbers = st.floats(1e-3, 1e3)
lengths = st.integers(0, 40)
schedules = st.one_of(
    st.builds(Constant, numbers),
    *(st.builds(ramp, numbers, numbers, lengths) for ramp in (Linear, Exponential, Cosine)),
    st.sets(st.integers(1, 50), max_size=3).flatmap(
        lambda rounds: st.lists(numbers, min_size=len(rounds) + 1, max_size=len(rounds) + 1).map(
            lambda values: Step(values, sorted(rounds))
        )
    ),
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("constant(0.5)", [0.5, 0.5, 0.5]),
        ("linear(1.0, 0.0, 4)", [1, 0.75, 0.5, 0.25, 0, 0]),
        ("exponential(1.0, 0.0625, 4)", [1, 0.5, 0.25, 0.125, 0.0625, 0.0625]),
        ("cosine(1.0, 0.0, 4)", [1, 0.8535534, 0.5, 0.1464466, 0, 0]),
        ("step([0.1, 0.03, 0.01], [2, 3])", [0.1, 0.1, 0.03, 0.01, 0.01]),
        ("linear(1.0, 0.25, 0)", [0.25, 0.25]),
    ],
)
def test_the_values_are_those_of_the_formula(text, values):
    schedule = fedplug.schedule(text)
    np.testing.assert_allclose([schedule.at(r) for r in range(len(values))], values, rtol=1e-6)


@settings(deadline=None)
@given(schedules)
def test_a_graph_has_the_same_values_rounded_to_float32(schedule):
    value = tf.function(schedule.value, input_signature=[tf.TensorSpec([], tf.int32)])
    for round_num in (-1, 0, 1, schedule.settled, schedule.settled + 7):
        assert value(tf.constant(round_num)) == np.float32(schedule.at(max(0, round_num)))


@given(schedules)
def test_a_schedule_goes_through_json_as_part_and_as_argument(schedule):
    assert fedplug.from_config(json.loads(json.dumps(fedplug.to_config(schedule)))) == schedule
    assert as_schedule(json.loads(json.dumps(schedule_config(schedule)))) == schedule
    assert fedplug.schedule(repr(schedule)) == schedule


def test_every_form_of_a_schedule_is_accepted():
    linear = Linear(0.1, 0.01, 20)
    assert as_schedule(linear) is linear
    assert as_schedule("linear(0.1, 0.01, 20)") == linear
    assert as_schedule(0.25) == Constant(0.25)
    assert schedule_config(Constant(0.25)) == 0.25


@pytest.mark.parametrize("value", [None, [0.1], True, "0.1"])
def test_anything_else_is_refused(value):
    with pytest.raises(ConfigError):
        as_schedule(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linear(0.1, 0.01, -1)", "rounds is -1; it must be a whole number of rounds, 0 to 100000"),
        ("linear(0.1, 0.01, 100001)", "0 to 100000"),
        ("linear('a', 0.01, 1)", "start is 'a'; it must be a finite number"),
        ("linear(1e999, 0.01, 1)", "start is inf"),
        ("constant(True)", "value is True"),
        ("exponential(0.1, 0.0, 4)", "both must be above 0"),
        ("step([0.1], [3])", "1 values and 1 rounds; give one value more"),
        ("step([], [])", "0 values"),
        ("step([1, 2, 3], [5, 5])", "must ascend"),
        ("step(0.1, [3])", "must be a list of numbers"),
        ("step([1, 2], [0])", "1 to 100000"),
    ],
)
def test_wrong_arguments_are_refused_with_the_right_ones(text, message):
    with pytest.raises(ConfigError, match=message):
        fedplug.schedule(text)


def test_an_unknown_schedule_names_the_nearest():
    with pytest.raises(UnknownNameError, match="unknown schedule 'cosin'; did you mean 'cosine'"):
        fedplug.schedule("cosin", start=1.0)
    with pytest.raises(ConfigError, match="has 2 stages, but a schedule has one"):
        fedplug.schedule("constant(1) | constant(2)")


def test_an_argument_that_is_a_call_is_made_to_a_schedule():
    with pytest.raises(UnknownNameError, match="unknown schedule 'lineer'; did you mean 'linear'"):
        fedplug.encoder("topk(lineer(0.1, 0.01, 20))")
