"""The suite for aggregators: purity, order, empty rounds, equal results in graphs and eagerly."""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import tensorflow as tf

from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.quantizers import Identity
from fedplug.testing import expect, tensors
from fedplug.testing.suite import ComponentSuite, NotApplicable, after
from fedplug.tff.aggregators.base import Aggregator, Update

__all__ = ["AggregatorSuite"]

_Accumulator: TypeAlias = Any
"""Any structure that the aggregator chooses."""

_SPECS = (tf.TensorSpec([5], tf.float32), tf.TensorSpec([2, 3], tf.float32), tf.TensorSpec([], tf.float64))
_MODEL = ModelEncoder(Identity(), _SPECS, min_size=0)
_CLIENTS = 5
_DETERMINISM = "test_the_same_clients_give_the_same_bits"
_ARGUMENTS = "test_its_arguments_are_not_changed"
_STRUCTURE = "test_accumulators_and_states_keep_their_structure"


class AggregatorSuite(ComponentSuite):
    """Checks the promises of `fedplug.tff.aggregators.base.Aggregator`. Clients use the identity encoder.

    An author writes, in a test module::

        class TestMedian(fedplug.testing.AggregatorSuite):
            def make_aggregator(self):
                return Median()
    """

    merge_tolerance: ClassVar[float] = 64.0
    """How far regrouping the clients may move the result, in units of the last place of its magnitude."""

    weights_are_relative: ClassVar[bool] = True
    """Whether the result stays the same when all weights are doubled. False for a weighted sum."""

    @abc.abstractmethod
    def make_aggregator(self) -> Aggregator:
        """Returns a new aggregator, always with the same configuration."""

    def component(self) -> Aggregator:
        """See `ComponentSuite.component`."""
        return self.make_aggregator()

    def test_accumulators_and_states_keep_their_structure(self) -> None:
        aggregator = self.make_aggregator()
        zero, state = aggregator.zero(_SPECS), aggregator.init_state(_SPECS)
        one = _accumulate(aggregator, zero, range(1))
        forms = {
            "accumulate": one,
            "merge": aggregator.merge(one, _accumulate(aggregator, zero, range(1, 3))),
        }
        for what, accumulator in forms.items():
            _same_form(f"the accumulator after {what}", accumulator, zero)
        _same_form("the state after finish", aggregator.finish(one, state)[1], state)

    def test_the_update_has_the_shapes_and_dtypes_of_the_model(self) -> None:
        for clients in (0, 1, _CLIENTS):
            update = self._round(self.make_aggregator(), clients)
            forms = [(value.dtype, tuple(value.shape)) for value in update]
            wanted = [(spec.dtype, tuple(spec.shape)) for spec in _SPECS]
            expect.that(forms == wanted, f"the update of {clients} clients has {forms} instead of {wanted}")

    def test_a_round_without_clients_gives_zeros(self) -> None:
        for position, value in enumerate(self._round(self.make_aggregator(), 0)):
            what = f"tensor {position} of the update without any client"
            expect.close(what, value, np.zeros(value.shape), 0)

    def test_the_same_clients_give_the_same_bits(self) -> None:
        aggregator = self.make_aggregator()
        first = self._round(aggregator, _CLIENTS)
        _same("a second round from the same state", self._round(aggregator, _CLIENTS), first)
        _same("from an equal aggregator", self._round(self.make_aggregator(), _CLIENTS), first)

    def test_clients_matter(self) -> None:
        one, other = (self._round(self.make_aggregator(), clients) for clients in (1, _CLIENTS))
        different = any(np.any(np.asarray(a) != np.asarray(b)) for a, b in zip(one, other, strict=True))
        expect.that(different, f"1 and {_CLIENTS} clients with different updates give the same result")

    @after(_DETERMINISM, _STRUCTURE)
    def test_its_arguments_are_not_changed(self) -> None:
        aggregator = self.make_aggregator()
        zero, state = aggregator.zero(_SPECS), aggregator.init_state(_SPECS)
        left, right = (_accumulate(aggregator, zero, clients) for clients in (range(2), range(2, 4)))
        before = [np.array(leaf) for leaf in tf.nest.flatten([zero, left, right, state])]
        _accumulate(aggregator, left, range(4, 5))
        aggregator.merge(left, right)
        aggregator.finish(left, state)
        now = tf.nest.flatten([zero, left, right, state])
        for position, (got, want) in enumerate(zip(now, before, strict=True)):
            expect.same_bits(f"tensor {position} of an accumulator or state, after it was used", got, want)

    @after(_DETERMINISM, _STRUCTURE, _ARGUMENTS)
    def test_merging_accumulators_of_neighbours_is_like_one_accumulator(self) -> None:
        want = self._round(self.make_aggregator(), _CLIENTS)
        for groups in ([0, _CLIENTS], [2, 3], [1, 1, 3], [3, 1, 1]):
            for from_the_right in (False, True):
                aggregator = self.make_aggregator()
                parts = [_accumulate(aggregator, aggregator.zero(_SPECS), c) for c in _ranges(groups)]
                merged = _merge(aggregator, parts, from_the_right=from_the_right)
                got, _ = aggregator.finish(merged, aggregator.init_state(_SPECS))
                order = "the last first" if from_the_right else "the first first"
                self._close(f"{groups} clients accumulated apart and merged, {order}", got, want)

    @after(_DETERMINISM)
    def test_doubling_all_weights_changes_nothing(self) -> None:
        if not self.weights_are_relative:
            raise NotApplicable("its weights are not relative")
        want = self._round(self.make_aggregator(), _CLIENTS)
        self._close("all weights doubled", self._round(self.make_aggregator(), _CLIENTS, scale=2.0), want)

    @after(_DETERMINISM)
    def test_unbiased_means_the_weighted_mean(self) -> None:
        aggregator = self.declaring("unbiased")
        if aggregator.capabilities.needs_seed:
            raise NotApplicable("its result is random")
        updates, weights = [_update(client) for client in range(_CLIENTS)], np.arange(1.0, _CLIENTS + 1)
        want = [
            np.tensordot(weights / weights.sum(), np.stack(values), 1).astype(values[0].dtype.as_numpy_dtype)
            for values in zip(*updates, strict=True)
        ]
        self._close("the weights given", self._of(aggregator, updates), want)

    @after(_DETERMINISM)
    def test_commuting_with_a_sum_means_that_the_result_for_a_sum_is_the_sum_of_results(self) -> None:
        aggregator = self.declaring("commutes_with_sum")
        ones, others = ([_update(client + shift) for client in range(_CLIENTS)] for shift in (0, 100))
        sums = [
            [a + b for a, b in zip(one, other, strict=True)] for one, other in zip(ones, others, strict=True)
        ]
        want = [
            np.asarray(a) + np.asarray(b)
            for a, b in zip(self._of(aggregator, ones), self._of(aggregator, others), strict=True)
        ]
        self._close("the sum of two updates from every client", self._of(aggregator, sums), want)

    @after(_DETERMINISM, _STRUCTURE, _ARGUMENTS)
    def test_safe_for_secure_aggregation_means_that_merging_is_adding(self) -> None:
        aggregator = self.declaring("secure_aggregation_safe")
        zero = aggregator.zero(_SPECS)
        left, right = (_accumulate(aggregator, zero, clients) for clients in (range(2), range(2, _CLIENTS)))
        leaves = zip(*map(tf.nest.flatten, (aggregator.merge(left, right), left, right)), strict=True)
        for position, (merged, one, other) in enumerate(leaves):
            expect.same_bits(f"tensor {position} of two accumulators merged", merged, one + other)

    @after(_DETERMINISM, _STRUCTURE)
    def test_a_memory_is_the_sum_of_the_differences_and_is_added_to_new_ones(self) -> None:
        """Finishes rounds with all clients, with none, and again with all."""
        aggregator = self.declaring("sends_differences")
        clients = aggregator.clients or _CLIENTS
        zero = aggregator.zero(_SPECS)
        everybody = _accumulate(aggregator, zero, range(clients))
        first, state = aggregator.finish(everybody, aggregator.init_state(_SPECS))
        memory, state = aggregator.finish(zero, state)
        again, _ = aggregator.finish(everybody, state)
        self._close(f"no client, after a round of all {clients} clients", memory, first)
        want = [known + x for known, x in zip(memory, first, strict=True)]
        self._close("the same differences in a later round", again, want)

    @after(_DETERMINISM)
    def test_bounded_sensitivity_means_that_large_updates_do_not_give_a_large_result(self) -> None:
        aggregator = self.declaring("bounded_sensitivity")
        norms = []
        for scale in (1e9, 1e12):  # above any bound that bounds something, and far from overflow when squared
            updates = [[scale * x for x in _update(client)] for client in range(_CLIENTS)]
            result = [np.asarray(x, np.float64) for x in self._of(aggregator, updates)]
            norms.append(np.sqrt(sum(float((x * x).sum()) for x in result)))
        expect.that(
            norms[1] <= norms[0] * (1 + self.merge_tolerance * expect.eps(np.float32)),
            f"updates 1000 times as large give a result of norm {norms[1]:.4g} instead of {norms[0]:.4g}",
        )

    @after(_DETERMINISM, _STRUCTURE, _ARGUMENTS)
    def test_a_graph_equals_eager_execution(self) -> None:
        """Each function runs in its own graph, as in a process."""
        eager, traced = self.make_aggregator(), self.make_aggregator()

        def add(accumulator: _Accumulator, buffers: Sequence[tf.Tensor], weight: tf.Tensor) -> _Accumulator:
            return traced.accumulate(accumulator, Update(_MODEL, buffers), weight)

        add, merge, finish = (tf.function(f, autograph=False) for f in (add, traced.merge, traced.finish))
        zero, state = eager.zero(_SPECS), eager.init_state(_SPECS)
        left, right = _accumulate(eager, zero, range(1)), _accumulate(eager, zero, range(1, 2))
        want, _ = eager.finish(eager.merge(left, right), state)
        got, _ = finish(merge(add(zero, *_message(0, 1.0)), add(zero, *_message(1, 1.0))), state)
        _same("in graphs", got, want)

    def _of(self, aggregator: Aggregator, updates: Sequence[Sequence[tf.Tensor]]) -> Sequence[tf.Tensor]:
        """Returns the result for these updates. The clients have the weights 1, 2, and so on."""
        accumulator = aggregator.zero(_SPECS)
        for number, update in enumerate(updates, start=1):
            buffers, _ = _MODEL.encode(update, _MODEL.init_state(), tf.constant(0))
            weight = tf.constant(number, tf.float32)
            accumulator = aggregator.accumulate(accumulator, Update(_MODEL, buffers), weight)
        return aggregator.finish(accumulator, aggregator.init_state(_SPECS))[0]

    def _round(self, aggregator: Aggregator, clients: int, scale: float = 1.0) -> Sequence[tf.Tensor]:
        accumulator = _accumulate(aggregator, aggregator.zero(_SPECS), range(clients), scale)
        return aggregator.finish(accumulator, aggregator.init_state(_SPECS))[0]

    def _close(self, what: str, got: Sequence[tf.Tensor], want: Sequence[tf.Tensor]) -> None:
        for position, (value, wanted) in enumerate(zip(got, want, strict=True)):
            exact = np.asarray(wanted)
            unit = expect.eps(exact.dtype) * max(1.0, float(np.abs(exact).max()))
            expect.close(f"tensor {position} with {what}", value, exact, self.merge_tolerance * unit)


def _accumulate(
    aggregator: Aggregator, accumulator: _Accumulator, clients: range, scale: float = 1.0
) -> _Accumulator:
    for client in clients:
        buffers, weight = _message(client, scale)
        accumulator = aggregator.accumulate(accumulator, Update(_MODEL, buffers), weight)
    return accumulator


def _update(client: int) -> list[tf.Tensor]:
    return [tf.constant(tensors.tensor("normal", spec, seed=client)) for spec in _SPECS]


@functools.cache
def _message(client: int, scale: float) -> tuple[tuple[tf.Tensor, ...], tf.Tensor]:
    """Returns a client's message and its weight."""
    buffers, _ = _MODEL.encode(_update(client), _MODEL.init_state(), tf.constant(0))
    return tuple(buffers), tf.constant(scale * (client + 1), tf.float32)


def _ranges(sizes: Sequence[int]) -> list[range]:
    return [range(sum(sizes[:position]), sum(sizes[: position + 1])) for position in range(len(sizes))]


def _merge(aggregator: Aggregator, parts: Sequence[_Accumulator], *, from_the_right: bool) -> _Accumulator:
    if from_the_right:
        return functools.reduce(lambda right, left: aggregator.merge(left, right), reversed(parts))
    return functools.reduce(aggregator.merge, parts)


def _same(what: str, got: Sequence[tf.Tensor], want: Sequence[tf.Tensor]) -> None:
    for position, (value, wanted) in enumerate(zip(got, want, strict=True)):
        expect.same_bits(f"tensor {position} of the update, {what}", value, wanted)


def _same_form(what: str, got: _Accumulator, want: _Accumulator) -> None:
    try:
        tf.nest.assert_same_structure(got, want)
    except (TypeError, ValueError) as error:
        raise expect.ConformanceError(f"{what} has another structure: {error}") from error
    forms = [[(leaf.dtype, tuple(leaf.shape)) for leaf in tf.nest.flatten(value)] for value in (got, want)]
    expect.that(forms[0] == forms[1], f"{what}: {forms[0]} instead of {forms[1]}")
