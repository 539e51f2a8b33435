"""Tests simulated secure sums: the plain sum, with the declared bounds enforced, as in TFF's test runtime."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow_federated as tff

from fedplug.errors import ComputationError

I32 = np.int32
PAIR = (I32, tff.TensorType(I32, [2]))


def sum_of(make, member=PAIR):
    return tff.federated_computation(make, tff.FederatedType(member, tff.CLIENTS))


VALUES = [(1, np.array([2, 3], I32)), (4, np.array([5, 6], I32))]


@pytest.mark.usefixtures("on_inprocess")
class TestSecureSums:
    def test_sum_within_the_bound_is_the_sum(self):
        for total in (
            sum_of(lambda v: tff.federated_secure_sum(v, 6)),
            sum_of(lambda v: tff.federated_secure_sum(v, (4, 6))),
            sum_of(lambda v: tff.federated_secure_sum_bitwidth(v, 3)),
        ):
            first, second = total(VALUES)
            assert first == 5
            np.testing.assert_array_equal(second, [7, 9])

    def test_value_above_the_bound_names_the_client(self):
        for total in (
            sum_of(lambda v: tff.federated_secure_sum(v, 5)),
            sum_of(lambda v: tff.federated_secure_sum_bitwidth(v, 2)),
        ):
            with pytest.raises(ComputationError, match=r"client 1 of 2.*larger than maximum"):
                total(VALUES)

    def test_modular_sum_wraps(self):
        from tensorflow_federated.python.core.backends.mapreduce import intrinsics

        total = sum_of(lambda v: intrinsics.federated_secure_modular_sum(v, np.int32(4)), I32)
        assert total([3, 3, 3]) == 1
        assert total([-1]) == 3

    def test_no_client_gives_zero(self):
        first, second = sum_of(lambda v: tff.federated_secure_sum(v, 6))([])
        assert first == 0
        np.testing.assert_array_equal(second, [0, 0])

    def test_secure_select_is_select(self):
        pick = tff.tensorflow.computation(lambda table, key: table + key, I32, I32)

        @tff.federated_computation(
            tff.FederatedType(tff.TensorType(I32, [2]), tff.CLIENTS), tff.FederatedType(I32, tff.SERVER)
        )
        def program(keys, table):
            return tff.federated_secure_select(keys, tff.federated_value(9, tff.SERVER), table, pick)

        assert [[int(x) for x in d] for d in program([np.array([1, 2], I32)], 10)] == [[11, 12]]
