"""The device of a runtime is obeyed by arguments, variables, operations, data sets and results."""

from __future__ import annotations

import functools
import inspect
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.errors import ConfigError
from fedplug.tff.runtime.graphs import devices
from fedplug.tff.runtime.graphs.devices import (
    RuntimeDevice,
    current_device,
    hide_gpus,
    place,
    place_of_output,
)
from fedplug.tff.runtime.graphs.inline_calls import can_call_inline

# Prints the devices of a process with two logical CPUs: on the first, inline and by name, and on the second,
# which stands for a GPU; and a product of matrices on one thread. One CPU is "visible", because otherwise a
# runtime on the first sets no device.
_SCRIPT = """
import collections, json, sys
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import tensorflow_federated as tff
from tensorflow.python.eager import context as eager_context
import tensorflow_federated as tff

import fedplug
from fedplug.tff.runtime.graphs import devices, registered_function, tensorflow_graphs
from fedplug.tff.runtime.graphs.inline_calls import can_call_inline
from fedplug.tff.runtime.inprocess import intrinsics
from fedplug.tff.runtime.inprocess.values import ingest_sequence
from fedplug.tff.runtime.inprocess.values import dataset_of_elements

devices.has_gpu = lambda: True
seen = collections.defaultdict(set)
original = registered_function.RegisteredFunction.__call__

def noted(self, inputs, cancel, *, one_thread):
    outputs = original(self, inputs, cancel, one_thread=one_thread)
    for kind, tensors in ("inputs", inputs), ("outputs", outputs):
        seen[kind] |= {tensor.device.rpartition("/device:")[2] for tensor in tensors}
    for name in self._registered:
        for node in eager_context.context().get_function_def(name).node_def:
            seen["variables" if node.op == "VarHandleOp" else "nodes"].add(node.device)
    return outputs

registered_function.RegisteredFunction.__call__ = noted

@tff.tensorflow.computation(tff.SequenceType(np.float32), np.float32)
def local(data, start):
    total = tf.Variable(start)
    with tf.control_dependencies([total.assign_add(data.reduce(0.0, lambda a, b: a + b))]):
        total = total.read_value()
    return {"sum": total, "text": tf.constant("a"), "count": data.reduce(0, lambda n, _: n + 1)}

@tff.federated_computation(
    tff.FederatedType(tff.SequenceType(np.float32), tff.CLIENTS), tff.FederatedType(np.float32, tff.SERVER)
)
def whole(data, start):
    results = tff.federated_map(local, (data, tff.federated_broadcast(start)))
    return tff.federated_sum(results["sum"]), results["text"], tff.federated_sum(results["count"])

@tff.tensorflow.computation(tff.SequenceType(np.float32))
def same(data):
    return data

def run(device, inline, outside):
    seen.clear()
    tensorflow_graphs._loaded.clear()
    tensorflow_graphs.can_call_inline = lambda: inline and can_call_inline()
    data = [tf.data.Dataset.range(4).map(lambda x: tf.cast(x, tf.float32)) for _ in range(3)]
    with fedplug.use_runtime("inprocess", device=device), tf.device(outside):
        total, texts, count = whole(data, 0.5)
        again = [float(x) for x in same(data[0])]
    result = [float(total), [str(text) for text in texts], int(count), again]
    return result, {kind: sorted(found) for kind, found in seen.items()}

def devices_of_sequences():
    with devices.RuntimeDevice("CPU:1").scope():
        listed = ingest_sequence([np.float32(1)], tff.SequenceType(np.float32))
        made = dataset_of_elements([tf.constant(1.0)], tff.TensorType(np.float32))
        read = [*intrinsics._elements(made, tff.TensorType(np.float32))]
        return [tensor.device[-5:] for tensor in (listed, made, *read, tf.constant(1.0))]

runs = [run("CPU", True, "/CPU:1"), run("CPU", False, "/CPU:1"), run("CPU:1", True, "/CPU:0")]
"""


def product(client: Any) -> tf.Tensor:
    """Multiplies float64 matrices, whose sums TensorFlow divides among its threads."""
    numbers = tf.random.stateless_normal([4, 200_000], [0, client], dtype=tf.float64)
    return tf.matmul(numbers, numbers, transpose_b=True)


_PRINT = f"""
from typing import Any
{inspect.getsource(product)}
print(json.dumps([runs, devices_of_sequences(), product(0).numpy().tobytes().hex()]))
"""


@pytest.fixture(scope="module")
def printed() -> list[Any]:
    """Starts TensorFlow once more, with other settings, for two tests."""
    command = [sys.executable, "-c", _SCRIPT + _PRINT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_everything_is_on_the_chosen_device_whatever_the_caller_does(printed):
    runs, of_sequences, _ = printed
    assert of_sequences == ["CPU:0", "CPU:0", "CPU:0", "CPU:1"]
    assert [result for result, _ in runs] == [[19.5, ["b'a'"] * 3, 12, [0.0, 1.0, 2.0, 3.0]]] * 3
    for _, seen in runs[:2]:
        assert seen == {
            "inputs": ["CPU:0"],
            "outputs": ["CPU:0"],
            "nodes": ["/device:CPU:0"],
            "variables": ["/device:CPU:0"],
        }
    seen = runs[2][1]
    assert seen["outputs"] == ["CPU:1"]
    assert seen["variables"] == ["/device:CPU:1"]
    # The caller's data sets are where the caller made them.
    assert seen["inputs"] == ["CPU:0", "CPU:1"]
    assert set(seen["nodes"]) <= {"/device:CPU:0", "/device:CPU:1"}


def product_in_a_loop(client: Any) -> tf.Tensor:
    """Multiplies the last of two elements of a dataset."""
    clients = tf.data.Dataset.from_tensors(client).repeat(2)
    return clients.reduce(tf.zeros([4, 4], tf.float64), lambda _, one: product(one))


@pytest.mark.skipif(not can_call_inline(), reason="there is a GPU, or no op library")
def test_clients_that_fill_the_processors_have_the_bits_of_one_thread(printed, on_inprocess):
    for work in (product, product_in_a_loop):
        on_client = tff.tensorflow.computation(work, np.int32)
        products = tff.federated_computation(
            functools.partial(tff.federated_map, on_client), tff.FederatedType(np.int32, tff.CLIENTS)
        )
        for found in products([0] * len(os.sched_getaffinity(0))):
            assert found.tobytes().hex() == printed[2], work.__name__


def test_a_missing_device_is_refused_with_the_names_of_others():
    with pytest.raises(ConfigError, match=r"device is 'CPU:7', but TensorFlow has only CPU:0"):
        fedplug.use_runtime("inprocess", device="CPU:7")
    with pytest.raises(ConfigError, match="must be 'CPU' or 'GPU'"):
        fedplug.use_runtime("inprocess", device="TPU")


@pytest.mark.skipif(devices.has_gpu(), reason="TensorFlow sees a GPU")
def test_a_missing_gpu_is_refused():
    with pytest.raises(ConfigError, match=r"device is 'GPU', but TensorFlow has only CPU:0"):
        fedplug.use_runtime("inprocess", device="GPU")


def test_a_thread_works_on_the_default_device_although_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["one"])
    assert current_device() == ""
    with RuntimeDevice().scope():
        assert current_device() == "/device:CPU:0"
        assert tf.constant(1.0).device.endswith("/device:CPU:0")


def test_on_a_gpu_data_sets_and_their_handles_stay_on_the_cpu():
    nodes = [tf.compat.v1.NodeDef(op=op) for op in ("MapDataset", "IteratorGetNext", "MatMul")]
    place(nodes, "/device:GPU:0")
    assert [node.device for node in nodes] == ["/device:CPU:0", "/device:CPU:0", ""]
    outputs = [place_of_output(dtype, "/device:GPU:0") for dtype in (tf.variant, tf.string, tf.float32)]
    assert outputs == ["/device:CPU:0", "/device:CPU:0", ""]


def test_the_command_run_hides_gpus_and_does_so_without_an_error_once_tensorflow_has_started(monkeypatch):
    hidden = []
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *arguments: hidden.append(arguments))
    hide_gpus()
    assert hidden == [([], "GPU")]

    def too_late(*arguments):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", too_late)
    hide_gpus()


@pytest.mark.skipif(not devices.has_gpu(), reason="TensorFlow sees no GPU (make gpu-check runs this)")
def test_results_on_a_gpu_are_those_of_the_cpu_for_exact_sums():
    @tff.tensorflow.computation(tff.SequenceType(np.float32), np.float32)
    def local(data, start):
        total = tf.Variable(start)
        with tf.control_dependencies([total.assign_add(data.reduce(0.0, lambda a, b: a + b))]):
            return total.read_value()

    @tff.federated_computation(
        tff.FederatedType(tff.SequenceType(np.float32), tff.CLIENTS),
        tff.FederatedType(np.float32, tff.SERVER),
    )
    def whole(data, start):
        return tff.federated_sum(tff.federated_map(local, (data, tff.federated_broadcast(start))))

    data = [tf.data.Dataset.range(5).map(lambda x: tf.cast(x, tf.float32)) for _ in range(3)]
    totals = []
    for device in ("CPU", "GPU"):
        with fedplug.use_runtime("inprocess", device=device):
            totals.append(float(whole(data, 0.5)))
    assert totals == [31.5, 31.5]
