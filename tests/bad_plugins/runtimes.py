"""Runtimes that each break one promise; `BAD` pairs a check with the runtime that must fail it.

Those in `GOOD` pass all checks.
"""

from __future__ import annotations

import functools
import threading

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ComputationError
from fedplug.tff.runtime import Runtime, create_sync_execution_context
from fedplug.tff.runtime.native.context import create_native_execution_context, custom_ops_of

inner = functools.cache(create_sync_execution_context)  # shared, as each has threads of its own


class Through(Runtime):
    """Forwards all calls to the in-process runtime."""

    runs_custom_ops = True
    closed = False

    def invoke(self, comp, arg):
        if self.closed:
            raise RuntimeError("closed")
        return inner().invoke(comp, arg)

    def close(self):
        self.closed = True


class NotDerived(tff.framework.SyncContext):
    def invoke(self, comp, arg):
        return None

    def close(self):
        pass


def arguments(arg, change):
    """Returns a copy of the argument with `change` applied to every list in it."""
    if isinstance(arg, list):
        return change(arg)
    if isinstance(arg, tff.structure.Struct):
        return tff.structure.Struct(
            (name, arguments(part, change)) for name, part in tff.structure.iter_elements(arg)
        )
    return arg


class LastClientFirst(Through):
    def invoke(self, comp, arg):
        result = super().invoke(comp, arg)
        return result[::-1] if isinstance(result, list) else result


class FlushesNegativeZeros(Through):
    def invoke(self, comp, arg):
        def flushed(value):
            return value + 0.0 if isinstance(value, np.ndarray) and value.dtype == np.float32 else value

        return tf.nest.map_structure(flushed, super().invoke(comp, arg))


class ReadsBackwards(Through):
    def invoke(self, comp, arg):
        def backwards(values):
            if not all(isinstance(value, tf.data.Dataset) for value in values):
                return values
            return [list(value.as_numpy_iterator())[::-1] for value in values]

        return super().invoke(comp, arguments(arg, backwards))


class MergesBackwards(Through):
    def invoke(self, comp, arg):
        kind = comp.type_signature.result
        if isinstance(kind, tff.FederatedType) and kind.placement is tff.SERVER:
            arg = arguments(arg, lambda values: values[::-1])
        return super().invoke(comp, arg)


class AddsInAnyOrder(Through):
    rng = np.random.default_rng()

    def invoke(self, comp, arg):
        result = super().invoke(comp, arg)
        if isinstance(result, np.ndarray) and result.size > 100:
            result = (result * (1 + 1e-6 * self.rng.normal(size=result.shape))).astype(result.dtype)
        return result


class NeedsAClient(Through):
    def invoke(self, comp, arg):
        if arg == []:
            raise ValueError("no clients")
        return super().invoke(comp, arg)


class SwallowsErrors(Through):
    def invoke(self, comp, arg):
        try:
            return super().invoke(comp, arg)
        except ComputationError:
            return np.int32(0)


class BlamesTheFirstClient(Through):
    def invoke(self, comp, arg):
        try:
            return super().invoke(comp, arg)
        except ComputationError as error:
            raise ComputationError(str(error), client=0) from error


class BreaksOnAnError(Through):
    broken = False

    def invoke(self, comp, arg):
        if self.broken:
            raise RuntimeError("broken")
        try:
            return super().invoke(comp, arg)
        except ComputationError:
            self.broken = True
            raise


class TakesAnything(Through):
    def invoke(self, comp, arg):
        try:
            return super().invoke(comp, arg)
        except TypeError:
            return np.int32(0)


class ClaimsCustomOps(Through):
    def invoke(self, comp, arg):
        if custom_ops_of(comp):
            raise ValueError("unknown op")
        return super().invoke(comp, arg)


class OneAtATime(Through):
    def __init__(self):
        self.busy = threading.Lock()

    def invoke(self, comp, arg):
        if not self.busy.acquire(blocking=False):
            raise RuntimeError("busy")
        try:
            return super().invoke(comp, arg)
        finally:
            self.busy.release()


class StaysTheDefault(Through):
    def close(self):
        super().close()
        if tff.framework.get_context_stack().current is not self:  # a `with` block has just ended
            tff.framework.set_default_context(self)


class NeverCloses(Through):
    def close(self):
        pass


class ClosesOnce(Through):
    def close(self):
        if self.closed:
            raise RuntimeError("closed twice")
        super().close()


GOOD = [create_sync_execution_context, create_native_execution_context]

BAD = [
    ("test_it_is_derived_from_the_contract", NotDerived),
    ("test_clients_values_are_in_client_order", LastClientFirst),
    ("test_values_come_back_bit_for_bit", FlushesNegativeZeros),
    ("test_data_sets_are_read_in_their_order", ReadsBackwards),
    ("test_aggregations_have_the_bits_of_inprocess", MergesBackwards),
    ("test_the_same_clients_give_the_same_bits", AddsInAnyOrder),
    ("test_a_round_may_have_no_clients", NeedsAClient),
    ("test_an_error_of_a_client_reaches_the_caller", SwallowsErrors),
    ("test_an_error_of_a_client_reaches_the_caller", BlamesTheFirstClient),
    ("test_it_works_after_an_error", BreaksOnAnError),
    ("test_an_argument_of_another_type_is_refused", TakesAnything),
    ("test_custom_ops_run_if_it_says_so", ClaimsCustomOps),
    ("test_several_threads_may_use_it", OneAtATime),
    ("test_the_previous_context_is_back_after_the_with_block", StaysTheDefault),
    ("test_a_closed_store_refuses_calls", NeverCloses),
    ("test_a_closed_store_refuses_calls", ClosesOnce),
]
