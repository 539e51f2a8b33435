"""Tests that client results are reduced in client order and released at once, so that memory is constant."""

from __future__ import annotations

import os
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.tff.runtime import create_sync_execution_context
from fedplug.tff.runtime.inprocess import executor
from fedplug.tff.runtime.inprocess.invocation import ClientPool

F32, I32 = np.float32, np.int32


def at_clients(member):
    return tff.FederatedType(member, tff.CLIENTS)


class Result:
    """An object that supports weak references."""


class TestPool:
    @settings(deadline=None)
    @given(
        width=st.integers(1, 5),
        delays=st.lists(st.sampled_from([0.0, 0.0005, 0.002]), max_size=30),
        slow_take=st.booleans(),
    )
    def test_every_result_is_taken_once_and_in_order_and_few_exist_at_a_time(self, width, delays, slow_take):
        pool = ClientPool(width)
        alive: weakref.WeakSet[Result] = weakref.WeakSet()
        taken, most = [], 0
        counting, taking = threading.Lock(), threading.Lock()

        def work(client):
            nonlocal most
            time.sleep(delays[client])
            result = Result()
            with counting:
                alive.add(result)
                most = max(most, len(alive))
            return client, result

        def take(client, result):
            assert result[0] == client
            assert taking.acquire(blocking=False)  # one thread at a time takes
            taken.append(client)
            if slow_take:
                time.sleep(0.001)
            taking.release()

        pool.run(len(delays), work, take, lambda: None)
        assert taken == list(range(len(delays)))
        assert most <= pool.window
        assert not alive

    @pytest.mark.parametrize("where", ["work", "take"])
    def test_the_first_failure_is_raised_and_ends_the_run(self, where):
        begun, stopped = [], []

        def work(client):
            begun.append(client)
            if where == "work" and client == 3:
                raise KeyError(client)

        def take(client, result):
            if where == "take" and client == 3:
                raise KeyError(client)

        pool = ClientPool(2)
        with pytest.raises(KeyError, match="3"):
            pool.run(100, work, take, lambda: stopped.append(True))
        assert stopped == [True]
        assert len(begun) <= 4 + pool.window
        still_fine = take if where == "work" else lambda *_: None
        pool.run(5, lambda client: client, still_fine, lambda: None)


class Gauge:
    """Counts, from inside computations, the client results that no reduction has taken."""

    def __init__(self):
        self._counting = threading.Lock()
        self._counters = []  # TensorFlow holds no reference to the Python functions of its graphs
        self.now = self.most = self.seen = 0

    def step(self, by):
        def count(value):
            with self._counting:
                self.now += by
                self.seen += 1
                self.most = max(self.most, self.now)
            return value

        self._counters.append(count)
        return lambda x: tf.ensure_shape(tf.numpy_function(count, [x], x.dtype, stateful=True), x.shape)


@pytest.fixture
def two_at_a_time():
    context = create_sync_execution_context(max_concurrent_clients=2)
    with tff.framework.get_context_stack().install(context):
        yield 4  # results that may wait for their turn
    context.close()


def test_several_reductions_are_made_while_clients_work(two_at_a_time):
    gauge = Gauge()
    make = tff.tensorflow.computation(lambda x: gauge.step(+1)(x) * 2.0, F32)
    add = tff.tensorflow.computation(lambda total, x: total + gauge.step(-1)(x), F32, F32)
    plain = tff.tensorflow.computation(lambda a, b: a + b, F32, F32)
    same = tff.tensorflow.computation(lambda x: tf.identity(x), F32)

    @tff.federated_computation(at_clients(F32))
    def program(values):
        made = tff.federated_map(make, values)
        first = tff.federated_aggregate(made, 0.0, add, plain, same)
        report = tff.federated_map(same, first)  # the server processes one before it requests the next
        return report, tff.federated_sum(made), tff.federated_max(made)

    assert program([float(n) for n in range(60)]) == (3540.0, 3540.0, 118.0)
    assert gauge.seen == 120
    assert gauge.now == 0
    assert gauge.most <= two_at_a_time


def test_resident_memory_does_not_grow_with_the_clients(two_at_a_time):
    megabytes, clients, resident = 4, 400, []

    def measure(x):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        resident.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        return x

    size = megabytes * 2**18
    make = tff.tensorflow.computation(lambda n: tf.fill([size], n), F32)
    add = tff.tensorflow.computation(
        lambda total, x: (
            total[0] + x,
            tf.ensure_shape(tf.numpy_function(measure, [total[1]], tf.float32, stateful=True), []),
        ),
        (tff.TensorType(F32, [size]), F32),
        tff.TensorType(F32, [size]),
    )
    pair = (tff.TensorType(F32, [size]), F32)
    merge = tff.tensorflow.computation(lambda a, b: (a[0] + b[0], a[1]), pair, pair)
    largest = tff.tensorflow.computation(lambda total: tf.reduce_max(total[0]), pair)
    zero = tff.tensorflow.computation(lambda: (tf.zeros([size]), 0.0))

    @tff.federated_computation(at_clients(F32))
    def program(values):
        return tff.federated_aggregate(tff.federated_map(make, values), zero(), add, merge, largest)

    assert program([1.0] * clients) == clients
    assert len(resident) == clients
    # About fifteen clients' memory varies: running calls, and memory not yet returned to the system.
    assert max(resident) - min(resident) < megabytes * clients / 10


def nested(building_block_of):
    """A computation with calls in the arguments of calls, a form that TFF's compiler would rewrite."""
    parameter = at_clients(F32)
    values = tff.framework.Reference("values", parameter)
    block = tff.framework.Lambda("values", parameter, building_block_of(values))
    return tff.framework.ConcreteComputation.from_building_block(block)


def call(uri, signature, *arguments):
    argument = arguments[0] if len(arguments) == 1 else tff.framework.Struct(arguments)
    return tff.framework.Call(tff.framework.Intrinsic(uri, signature), argument)


@pytest.mark.parametrize("shape", ["bare", "in a block", "names used twice"])
def test_a_computation_that_was_not_compiled_runs(monkeypatch, two_at_a_time, shape):
    as_it_is = tff.framework.ConcreteComputation.from_building_block
    monkeypatch.setattr(executor, "compile_block", lambda block, inline_functions: as_it_is(block))
    double = tff.tensorflow.computation(lambda x: x * 2.0, F32).to_building_block()
    total_type = tff.FunctionType(at_clients(F32), tff.FederatedType(F32, tff.SERVER))
    map_type = tff.FunctionType([tff.FunctionType(F32, F32), at_clients(F32)], at_clients(F32))

    def doubled(values):
        return call("federated_map", map_type, double, values)

    def body(values):
        if shape == "bare":
            return call("federated_sum", total_type, doubled(doubled(values)))
        if shape == "in a block":
            total = call("federated_sum", total_type, doubled(doubled(values)))
            result = tff.framework.Reference("total", total.type_signature)
            return tff.framework.Block([("total", total)], result)
        again = [("values", doubled(values)), ("values", doubled(values))]
        return tff.framework.Block(again, call("federated_sum", total_type, values))

    computation = nested(body)
    assert executor.compile_program(computation).type_signature == total_type
    assert computation([1.0, 2.0, 4.0]) == 28.0
