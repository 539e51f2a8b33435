"""Tests the computations sent to the stock worker: functions stay functions, with TFF's results."""

from __future__ import annotations

import numpy as np
import tensorflow_federated as tff

from fedplug import ops
from fedplug.tff.runtime import use_runtime
from fedplug.tff.runtime.native.compiler import compiled_for_worker


@tff.tensorflow.computation(tff.TensorType(np.uint8, [None]))
def checksums(data):
    return [ops.crc32(data[place:], lowering="reference") for place in range(4)]


def size_of(computation) -> int:
    return tff.framework.ConcreteComputation.get_proto(computation).ByteSize()


def test_a_function_that_is_called_four_times_is_there_once_and_computes_the_same() -> None:
    stock = tff.backends.native.desugar_and_transform_to_native(checksums)
    assert size_of(compiled_for_worker(checksums)) < size_of(stock) / 2
    data = np.arange(100, dtype=np.uint8)
    with use_runtime("native"):
        found = checksums(data)
    assert [int(one) for one in found] == [int(ops.crc32(data[place:])) for place in range(4)]
