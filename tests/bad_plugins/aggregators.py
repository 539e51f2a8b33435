"""Aggregators that each break one promise, which the suite must name.

`BAD` pairs a check with the aggregator that must fail it. Those in `GOOD` pass all checks.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar

import numpy as np
import tensorflow as tf

from fedplug.registry.specs import Capabilities
from fedplug.tff.aggregators import Mean, MemoryMean


class Quiet(Mean):
    """Declares no capabilities."""

    capabilities = Capabilities()


class NameWithSpaces(Quiet):
    name: ClassVar[str] = "the mean"


class ForgetsItsConfig(Quiet):
    def get_config(self):
        return {"weights": ("examples", "uniform")[self.weights_by_examples]}


class AccumulatorInDouble(Quiet):
    def merge(self, left, right):
        merged = super().merge(left, right)
        return {**merged, "weight": tf.cast(merged["weight"], tf.float64)}

    def finish(self, accumulator, state):
        return super().finish({**accumulator, "weight": tf.cast(accumulator["weight"], tf.float32)}, state)


class StateGrows(Quiet):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return update, (*state, tf.constant(1))


class FlatUpdate(Quiet):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return tuple(tf.reshape(value, [-1]) for value in update), state


class NanForNobody(Quiet):
    def finish(self, accumulator, state):
        return tuple(s / tf.cast(accumulator["weight"], s.dtype) for s in accumulator["sums"]), state


class AddsNoise(Quiet):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return tuple(value * (1 + tf.random.uniform([], dtype=value.dtype)) for value in update), state


class SendsZeros(Quiet):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return tuple(tf.zeros_like(value) for value in update), state


class AddsInPlace(Quiet):
    def accumulate(self, accumulator, update, weight):
        if tf.executing_eagerly() and accumulator["weight"] > 0:
            place = np.asarray(memoryview(accumulator["sums"][1]))
            ctypes.memset(place.ctypes.data, 0, place.nbytes)
        return super().accumulate(accumulator, update, weight)


class KeepsTheLast(Quiet):
    """Merging forgets the left accumulator."""

    def merge(self, left, right):
        return right


class Absolute(Quiet):
    """Divides by the sum of the weights plus one."""

    def finish(self, accumulator, state):
        return super().finish({**accumulator, "weight": accumulator["weight"] + 1}, state)


class EagerOnly(Quiet):
    def finish(self, accumulator, state):
        update, state = super().finish(accumulator, state)
        return update if tf.executing_eagerly() else tuple(2 * value for value in update), state


class ClippedMean(Mean):
    """Clips every update to a norm of 1, which is not linear."""

    longest = 1.0

    capabilities = Capabilities(
        secure_aggregation_safe=True, commutes_with_sum=True, bounded_sensitivity=True
    )

    def accumulate(self, accumulator, update, weight):
        decoded = update.decode()
        squares = [tf.reduce_sum(tf.square(tf.cast(x, tf.float64))) for x in decoded]
        factor = self.longest / tf.maximum(self.longest, tf.cast(tf.sqrt(tf.add_n(squares)), tf.float32))
        sums = tuple(
            s + x * tf.cast(weight * factor, x.dtype)
            for s, x in zip(accumulator["sums"], decoded, strict=True)
        )
        return {"sums": sums, "weight": accumulator["weight"] + weight}


class Clipped(ClippedMean):
    """Passes all checks."""

    capabilities = Capabilities(bounded_sensitivity=True)


class ClippedFarOut(Clipped):
    """Passes all checks: its bound is larger than the norms of usual updates."""

    longest = 1e5


class ClaimsItsMeanIsUnbiased(Clipped):
    capabilities = Capabilities(unbiased=True, bounded_sensitivity=True)


class MergesWithMaximum(Mean):
    """Keeps the largest weight, which a sum cannot determine."""

    def zero(self, specs):
        return {**super().zero(specs), "largest": tf.zeros([], tf.float32)}

    def accumulate(self, accumulator, update, weight):
        total = super().accumulate(accumulator, update, weight)
        return {**total, "largest": tf.maximum(accumulator["largest"], weight)}

    def merge(self, left, right):
        merged = super().merge(left, right)
        return {**merged, "largest": tf.maximum(left["largest"], right["largest"])}


class ClaimsToBound(Mean):
    capabilities = Capabilities(bounded_sensitivity=True)


class Remembers(MemoryMean):
    """Passes all checks."""

    def __init__(self, clients=5, **config):
        super().__init__(clients, **config)


class ForgetsWhatWasSaid(Remembers):
    """Forgets the differences of earlier rounds."""

    def finish(self, accumulator, state):
        return super().finish(accumulator, state)[0], state


GOOD = [Mean, Clipped, ClippedFarOut, Remembers]

BAD = [
    ("test_it_has_a_name_for_the_registry", NameWithSpaces),
    ("test_its_config_survives_json_and_makes_an_equal_component", ForgetsItsConfig),
    ("test_accumulators_and_states_keep_their_structure", AccumulatorInDouble),
    ("test_accumulators_and_states_keep_their_structure", StateGrows),
    ("test_the_update_has_the_shapes_and_dtypes_of_the_model", FlatUpdate),
    ("test_a_round_without_clients_gives_zeros", NanForNobody),
    ("test_the_same_clients_give_the_same_bits", AddsNoise),
    ("test_clients_matter", SendsZeros),
    ("test_its_arguments_are_not_changed", AddsInPlace),
    ("test_merging_accumulators_of_neighbours_is_like_one_accumulator", KeepsTheLast),
    ("test_doubling_all_weights_changes_nothing", Absolute),
    ("test_unbiased_means_the_weighted_mean", ClaimsItsMeanIsUnbiased),
    ("test_commuting_with_a_sum_means_that_the_result_for_a_sum_is_the_sum_of_results", ClippedMean),
    ("test_safe_for_secure_aggregation_means_that_merging_is_adding", MergesWithMaximum),
    (
        "test_bounded_sensitivity_means_that_large_updates_do_not_give_a_large_result",
        ClaimsToBound,
    ),
    ("test_a_memory_is_the_sum_of_the_differences_and_is_added_to_new_ones", ForgetsWhatWasSaid),
    ("test_a_graph_equals_eager_execution", EagerOnly),
]
