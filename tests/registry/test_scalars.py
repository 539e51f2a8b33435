"""Metrics as numbers by name: what sinks write."""

from __future__ import annotations

import math

from fedplug.scalars import scalars


def test_nested_metrics_are_named_by_their_path():
    metrics = {"aggregator": {"uplink_bytes": 7}, "client_work": {"train": {"loss": 0.5}}}
    assert scalars(metrics) == {"aggregator/uplink_bytes": 7.0, "client_work/train/loss": 0.5}


def test_non_finite_numbers_are_omitted():
    metrics = {"nan": math.nan, "inf": math.inf, "none": None, "text": "x", "adaptive": True, "empty": {}}
    assert scalars(metrics) == {}


def test_lists_are_named_by_place_and_those_of_tensors_by_the_tensors():
    metrics = {"aggregator": {"report": [1.0, 2.0], "tensors": {"nmse": [0.25, math.nan]}}}
    tensors = [{"name": "dense/kernel"}, {"name": "dense/bias"}]
    assert scalars(metrics, tensors) == {
        "aggregator/report/0": 1.0,
        "aggregator/report/1": 2.0,
        "aggregator/tensors/nmse/dense/kernel": 0.25,
    }
