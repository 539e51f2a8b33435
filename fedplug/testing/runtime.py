"""The conformance suite for runtimes: small TFF computations, and the promises of `Runtime` about them."""

from __future__ import annotations

import abc
import collections
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import fedplug.ops as ops
from fedplug.errors import ComputationError
from fedplug.ops.lowering import available
from fedplug.testing import expect
from fedplug.testing.suite import CannotRun, NotApplicable, Suite, after
from fedplug.tff.runtime.base import Runtime, RuntimeHandle
from fedplug.tff.runtime.inprocess.context import create_sync_execution_context

__all__ = ["RuntimeSuite"]

_CLIENTS = 7
_FAILING = 3
_THREADS = 4
_SECONDS = 600.0  # until a call that must end counts as hanging; a busy machine is slow
_MERGED = 10  # more clients than a slice, for runtimes that divide rounds into slices
_F32, _I32 = np.float32, np.int32
_CONTRACT = "test_it_is_derived_from_the_contract"
_BASICS = "test_clients_values_are_in_client_order"


class RuntimeSuite(Suite, abc.ABC):
    """Checks the promises of `fedplug.tff.runtime.Runtime`.

    An author writes, in a test module::

        class TestGrid(fedplug.testing.RuntimeSuite):
            def make_runtime(self):
                return create_grid_context(workers=2)
    """

    foundation = _CONTRACT

    @abc.abstractmethod
    def make_runtime(self) -> Runtime:
        """Returns a new runtime, which the check closes."""

    def test_it_is_derived_from_the_contract(self) -> None:
        with contextlib.closing(self.make_runtime()) as runtime:
            expect.that(
                isinstance(runtime, Runtime),
                f"a {type(runtime).__qualname__} is not derived from fedplug.tff.runtime.Runtime",
            )

    def test_clients_values_are_in_client_order(self) -> None:
        """The first client takes longest."""
        with self._runtime():
            found = _slow_squares()([*range(_MERGED)], [20_000, *[0] * (_MERGED - 1)])
        wanted = [number * number for number in range(_MERGED)]
        expect.that(found == wanted, f"squares of 0 to {_MERGED - 1}, one a client: {found}")

    @after(_BASICS)
    def test_values_come_back_bit_for_bit(self) -> None:
        value = _odd_values()
        with self._runtime():
            of_clients, of_server = _unchanged()([value] * 2, value)
        for whose, found in (("the server's", of_server), *(("a client's", one) for one in of_clients)):
            expect.that(list(found) == list(value), f"{whose} value has the fields {list(found)}")
            for name, wanted in value.items():
                got = np.asarray(found[name])
                if wanted.dtype == object:  # an array of pointers to texts
                    expect.that(list(got) == list(wanted), f"{whose} {name} is {got} instead of {wanted}")
                else:
                    expect.same_bits(f"{whose} {name}", got, wanted)

    @after(_BASICS)
    def test_data_sets_are_read_in_their_order(self) -> None:
        data = [tf.data.Dataset.range(n, 2 * n, output_type=tf.int32) for n in range(_CLIENTS)]
        wanted = [functools.reduce(_append, range(n, 2 * n), 0) for n in range(_CLIENTS)]
        with self._runtime():
            found = _read()(data)
        expect.that(found == wanted, f"digests of data sets are {found} instead of {wanted}")

    @after(_BASICS)
    def test_aggregations_have_the_bits_of_inprocess(self) -> None:
        """Uses numbers whose sums are exact, so the order of additions does not matter."""
        wanted = _aggregated_in_process()
        with self._runtime():
            found = _aggregated()
        expect.that(list(found) == list(wanted), f"the result has the fields {list(found)}")
        for name, value in wanted.items():
            expect.same_bits(name, found[name], value)

    @after(_BASICS)
    def test_the_same_clients_give_the_same_bits(self) -> None:
        rng = np.random.default_rng(0)
        values = [rng.normal(size=1000).astype(_F32) for _ in range(_MERGED)]
        with self._runtime():
            first, second = (_sum_of_vectors()(values) for _ in range(2))
        expect.same_bits("a float32 sum, the second time", second, first)
        expect.close("a float32 sum", first, np.sum(values, axis=0, dtype=np.float64), 1e-4)

    @after(_BASICS)
    def test_a_round_may_have_no_clients(self) -> None:
        with self._runtime():
            found = _total()([])
        expect.that(found == 0, f"the sum over no clients is {found}")

    @after(_BASICS)
    def test_an_error_of_a_client_reaches_the_caller(self) -> None:
        with self._runtime():
            error = _raised(lambda: _total(_checked)(_with_a_negative()))
        expect.that(error is not None, "a computation whose TensorFlow assertion fails returns a result")
        expect.that("not positive" in str(error), f"TensorFlow's message is missing from {error!r:.300}")
        if isinstance(error, ComputationError):
            expect.that(error.client == _FAILING, f"the error names client {error.client}, not {_FAILING}")

    @after(_BASICS)
    def test_it_works_after_an_error(self) -> None:
        with self._runtime():
            _raised(lambda: _total(_checked)(_with_a_negative()))
            found = _total()([1, 2, 3])
        expect.that(found == 6, f"after an error, 1 + 2 + 3 is {found}")

    @after(_BASICS)
    def test_an_argument_of_another_type_is_refused(self) -> None:
        with self._runtime():
            for argument in ([1, "two"], [1.5], [[1, 2]], 3):
                error = _raised(lambda argument=argument: _total()(argument))  # type: ignore[misc]
                expect.that(isinstance(error, TypeError), f"for {argument} it raises {error!r}, no TypeError")

    @after(_BASICS)
    def test_custom_ops_run_if_it_says_so(self) -> None:
        with self._runtime() as runtime:
            if not runtime.runs_custom_ops:
                raise NotApplicable("it does not declare runs_custom_ops")
            if not available():
                raise CannotRun("fedplug's op library is not installed")
            found = _total(_checksum)([1, 2])
        wanted = sum(int(ops.crc32(np.full(1, n, np.uint8))) for n in (1, 2))
        expect.that(int(found) == wanted, f"the sum of two checksums is {found} instead of {wanted}")

    @after(_BASICS)
    def test_several_threads_may_use_it(self) -> None:
        with self._runtime() as runtime, ThreadPoolExecutor(_THREADS) as threads:
            together = threading.Barrier(_THREADS)

            def run(number: int) -> object:
                together.wait(_SECONDS)
                with tff.framework.get_context_stack().install(runtime):
                    return _slow_squares()([number] * 3, [2_000] * 3)

            found = list(threads.map(run, range(_THREADS), timeout=_SECONDS))
        wanted = [[number * number] * 3 for number in range(_THREADS)]
        expect.that(found == wanted, f"{_THREADS} threads have the results {found} instead of {wanted}")

    @after(_BASICS)
    def test_the_previous_context_is_back_after_the_with_block(self) -> None:
        stack = tff.framework.get_context_stack()
        before = stack.current
        try:
            with RuntimeHandle("checked", self.make_runtime()) as handle:
                expect.that(stack.current is handle.context, "within the block, another context is current")
            expect.that(stack.current is before, "after the block, another context than before is current")
        finally:
            tff.framework.set_default_context(before)

    @after(_BASICS)
    def test_a_closed_store_refuses_calls(self) -> None:
        runtime = self.make_runtime()
        with tff.framework.get_context_stack().install(runtime):
            _total()([1, 2])
            for _ in range(2):
                runtime.close()
        errors: list[BaseException | None] = []

        def call() -> None:
            with tff.framework.get_context_stack().install(runtime):
                errors.append(_raised(lambda: _total()([1, 2])))

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(_SECONDS)
        expect.that(errors, f"after closing, a computation hangs for {_SECONDS:g} s")
        expect.that(errors[0] is not None, "after closing, a computation still runs")

    @contextlib.contextmanager
    def _runtime(self) -> Iterator[Runtime]:
        runtime = self.make_runtime()
        with _installed(runtime):
            yield runtime


@contextlib.contextmanager
def _installed(runtime: Runtime) -> Iterator[None]:
    with contextlib.closing(runtime), tff.framework.get_context_stack().install(runtime):
        yield


def _raised(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def _with_a_negative() -> list[int]:
    return [1] * _FAILING + [-1] + [1] * (_CLIENTS - _FAILING - 1)


def _checked(x: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([tf.debugging.assert_positive(x, "not positive")]):
        return tf.identity(x)


def _checksum(x: tf.Tensor) -> tf.Tensor:
    """Computes with a custom op."""
    value = tf.cast(tf.reshape(x, [1]), tf.uint8)
    return tf.cast(ops.crc32(value, lowering="fused"), tf.int64)


def _append(digest: tf.Tensor, element: tf.Tensor) -> tf.Tensor:
    return (digest * 31 + element) % 10_007


def _at_clients(kind: object) -> tff.FederatedType:
    return tff.FederatedType(kind, tff.CLIENTS)


def _odd_values() -> collections.OrderedDict[str, Any]:
    """Returns values of many dtypes and shapes. The fields are not in the order of their names."""
    specials = np.array([0x7FC12345, 0xFF800000, 0x80000000, 1], np.uint32).view(_F32)
    of_dtypes = {np.dtype(code).name: np.array([[0, 1, 2]]).astype(code) for code in "?bBhHiIlLedFD"}
    return collections.OrderedDict(
        special_floats=specials,
        bfloat16=np.array([1.5, -2], ml_dtypes.bfloat16),
        text=np.array([b"\xc3\xbc", b"\0bytes\0"], object),
        empty=np.zeros([0, 3], _F32),
        a_scalar=_F32(-0.0),
        **of_dtypes,
    )


@functools.cache
def _unchanged() -> tff.Computation:
    kind = tff.to_type(
        collections.OrderedDict(
            (name, tff.TensorType(np.str_ if value.dtype == object else value.dtype.type, value.shape))
            for name, value in _odd_values().items()
        )
    )
    same = tff.tensorflow.computation(lambda value: tf.nest.map_structure(tf.identity, value), kind)
    return tff.federated_computation(
        lambda ours, server: (tff.federated_map(same, ours), tff.federated_map(same, server)),
        _at_clients(kind),
        tff.FederatedType(kind, tff.SERVER),
    )


@functools.cache
def _total(function: Callable[[tf.Tensor], tf.Tensor] = lambda x: x) -> tff.Computation:
    on_client = tff.tensorflow.computation(function, _I32)
    return tff.federated_computation(
        lambda values: tff.federated_sum(tff.federated_map(on_client, values)), _at_clients(_I32)
    )


@functools.cache
def _sum_of_vectors() -> tff.Computation:
    return tff.federated_computation(tff.federated_sum, _at_clients(tff.TensorType(_F32, [1000])))


@functools.cache
def _slow_squares() -> tff.Computation:
    def square(x: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        (left,) = tf.while_loop(lambda i: i > 0, lambda i: [i - 1], [steps])
        return x * x + left

    on_client = tff.tensorflow.computation(square, _I32, _I32)
    return tff.federated_computation(
        lambda values, steps: tff.federated_map(on_client, (values, steps)),
        _at_clients(_I32),
        _at_clients(_I32),
    )


@functools.cache
def _read() -> tff.Computation:
    kind = tff.SequenceType(_I32)
    digest = tff.tensorflow.computation(lambda data: data.reduce(0, _append), kind)
    return tff.federated_computation(lambda data: tff.federated_map(digest, data), _at_clients(kind))


@functools.cache
def _aggregated_in_process() -> tff.Computation:
    with _installed(create_sync_execution_context()):
        return _aggregated()


def _aggregated() -> tff.Computation:
    return _aggregations()([*range(_MERGED)], [2.0**-n for n in range(_MERGED)], 3)


@functools.cache
def _aggregations() -> tff.Computation:
    """Returns a computation of sums, means, extremes and a merge that does not commute."""
    pair = tff.to_type((_I32, _I32))
    # Affine maps x -> a * x + b, composed: associative, and a different map for another order.
    follow = tff.tensorflow.computation(
        lambda first, then: (then[0] * first[0] % 10_007, (then[0] * first[1] + then[1]) % 10_007), pair, pair
    )
    append = tff.tensorflow.computation(
        lambda first, n: ((n + 2) * first[0] % 10_007, ((n + 2) * first[1] + n) % 10_007), pair, _I32
    )
    report = tff.tensorflow.computation(lambda last: last[0] * 10_007 + last[1], pair)
    add = tff.tensorflow.computation(lambda a, b: a + b, _I32, _I32)

    def aggregate(numbers: tff.Value, weights: tff.Value, shift: tff.Value) -> tff.Value:
        shifted = tff.federated_map(add, (numbers, tff.federated_broadcast(shift)))
        total = tff.federated_broadcast(tff.federated_sum(shifted))
        return tff.federated_zip(
            collections.OrderedDict(
                total=tff.federated_sum(numbers),
                mean=tff.federated_mean(weights),
                weighted_mean=tff.federated_mean(weights, weights),
                smallest=tff.federated_min(shifted),
                largest=tff.federated_max(weights),
                after_a_sum=tff.federated_sum(tff.federated_map(add, (shifted, total))),
                in_order=tff.federated_aggregate(numbers, (1, 0), append, follow, report),
            )
        )

    return tff.federated_computation(
        aggregate, _at_clients(_I32), _at_clients(_F32), tff.FederatedType(_I32, tff.SERVER)
    )
