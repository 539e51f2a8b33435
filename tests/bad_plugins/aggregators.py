"""Aggregators that each break one promise; the kit must say exactly which. fedplug's own `Mean` breaks none.

`BAD` pairs the check that must fail with an aggregator.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar

import numpy as np
import tensorflow as tf

from fedplug.aggregators import Mean


class NameWithSpaces(Mean):
    name: ClassVar[str] = "the mean"


class ForgetsItsConfig(Mean):
    def get_config(self):
        return {"weights": ("examples", "uniform")[self.weights_by_examples]}


class AccumulatorInDouble(Mean):
    def merge(self, left, right):
        merged = super().merge(left, right)
        return {**merged, "weight": tf.cast(merged["weight"], tf.float64)}

    def finish(self, accumulator, state):
        return super().finish({**accumulator, "weight": tf.cast(accumulator["weight"], tf.float32)}, state)


class StateGrows(Mean):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return update, (*state, tf.constant(1))


class FlatUpdate(Mean):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return tuple(tf.reshape(value, [-1]) for value in update), state


class NanForNobody(Mean):
    def finish(self, accumulator, state):
        return tuple(s / tf.cast(accumulator["weight"], s.dtype) for s in accumulator["sums"]), state


class AddsNoise(Mean):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return tuple(value * (1 + tf.random.uniform([], dtype=value.dtype)) for value in update), state


class SendsZeros(Mean):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return tuple(tf.zeros_like(value) for value in update), state


class RemembersOnSelf(Mean):
    rounds = 0

    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        self.rounds += 1
        return tuple(value / self.rounds for value in update), state


class AddsInPlace(Mean):
    def accumulate(self, accumulator, update, weight):
        if tf.executing_eagerly() and accumulator["weight"] > 0:
            place = np.asarray(memoryview(accumulator["sums"][1]))
            ctypes.memset(place.ctypes.data, 0, place.nbytes)
        return super().accumulate(accumulator, update, weight)


class KeepsTheLast(Mean):
    """Merging forgets whoever is on the left."""

    def merge(self, left, right):
        return right


class Absolute(Mean):
    """Divides by the weights plus one."""

    def finish(self, accumulator, state):
        return super().finish({**accumulator, "weight": accumulator["weight"] + 1}, state)


class EagerOnly(Mean):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return update if tf.executing_eagerly() else tuple(2 * value for value in update), state


GOOD = [Mean]

BAD = [
    ("test_it_has_a_name_for_the_registry", NameWithSpaces),
    ("test_its_config_survives_json_and_makes_an_equal_aggregator", ForgetsItsConfig),
    ("test_accumulators_and_states_keep_their_structure", AccumulatorInDouble),
    ("test_accumulators_and_states_keep_their_structure", StateGrows),
    ("test_the_update_has_the_shapes_and_dtypes_of_the_model", FlatUpdate),
    ("test_a_round_without_clients_gives_zeros", NanForNobody),
    ("test_the_same_clients_give_the_same_bits", AddsNoise),
    ("test_clients_matter", SendsZeros),
    ("test_one_round_leaves_nothing_behind_but_the_state", RemembersOnSelf),
    ("test_its_arguments_are_not_changed", AddsInPlace),
    ("test_merging_accumulators_of_neighbours_is_like_one_accumulator", KeepsTheLast),
    ("test_doubling_all_weights_changes_nothing", Absolute),
    ("test_a_graph_computes_what_eager_execution_does", EagerOnly),
]
