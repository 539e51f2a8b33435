"""One local Ray cluster, and three workers that the contexts of these tests share: one takes 5 s to start."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

# Ray reads these when it is imported. Under `uv run`, as in `make test`, it would start its workers by that
# command, too, in a copy of the checkout, and it would warn of changes to come.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# Its workers would give way to every other process of a busy machine, for minutes.
os.environ.setdefault("RAY_worker_niceness", "0")

import numpy as np
import pytest
import ray
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray.context import RayContext
from fedplug_ray.worker import start_worker
from fedplug_ray.workers import Limits, Workers

import fedplug
from fedplug.tff.process import build_weighted_fed_avg

# Ray leaves the log files of the processes it starts to the garbage collector, and warns of changes to come.
RAY_WARNINGS = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "fedplug-ray/tests/" in item.nodeid:
            for mark in RAY_WARNINGS:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Ray itself, connected to a cluster of this machine."""
    with _head_node() as address:
        _connect(ray, address)
        # Functions of the test modules are sent as they are, because workers cannot import them.
        for name in [name for name in sys.modules if "fedplug-ray" in name]:
            ray.cloudpickle.register_pickle_by_value(sys.modules[name])
        yield ray
        with warnings.catch_warnings():
            # Collected here and not in a test of another folder.
            warnings.simplefilter("ignore", ResourceWarning)
            ray.shutdown()
            gc.collect()


@contextlib.contextmanager
def _head_node() -> Iterator[str]:
    """Starts a cluster of this machine and yields its address.

    `ray.init` would start it, too, but by forking this process, which the gRPC threads left behind by other
    tests' stock workers do not always survive.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--head --block --port={port} --num-cpus=8 --object-store-memory={128 * 2**20}"
    # Nothing here adds machines, which the monitor would do, or reads the logs, which takes processor time.
    options += " --include-dashboard=false --disable-usage-stats --no-monitor --include-log-monitor=false"
    # Any free ports: Ray ends a process whose port from its range a cluster of other tests has taken first.
    options += " --min-worker-port=0 --max-worker-port=0"
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options.split()]
    # In Ray's own folder its address would stay behind, and later programs would wait for this cluster.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as output,
    ):
        command.append(f"--temp-dir={folder}")
        head = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            yield f"127.0.0.1:{port}"
        finally:
            head.terminate()
            head.wait()


def _connect(ray: Any, address: str) -> None:
    """Connects to the cluster, as soon as it is there."""
    for seconds_left in reversed(range(60)):
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError):
            if not seconds_left:
                raise
            time.sleep(1)
        else:
            return


@pytest.fixture(scope="session")
def shared_workers(cluster: Any) -> Iterator[list[Any]]:
    workers = [start_worker() for _ in range(3)]
    yield workers
    for worker in workers:
        cluster.kill(worker)


class _Kept(Workers):
    """Workers that outlive the context they were made for."""

    def close(self) -> None:
        self._closed = True


@pytest.fixture
def on_ray(ray_context: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Returns a function that makes a context on some of the shared workers the current one."""

    def make(*arguments: Any, **options: Any) -> RayContext:
        context = ray_context(*arguments, **options)
        tff.framework.set_default_context(context)
        return context

    before = tff.framework.get_context_stack().current
    yield make
    tff.framework.set_default_context(before)


@pytest.fixture
def ray_context(cluster: Any, shared_workers: list[Any]) -> Callable[..., Any]:
    """Returns a function that makes a context on some of the shared workers."""

    def lives(worker: Any) -> bool:
        try:
            cluster.get(worker.ready.remote(), timeout=300)
        except cluster.exceptions.RayActorError:
            return False
        return True

    def make(workers: int = 2, *, retries: int = 3) -> RayContext:
        shared_workers[:] = filter(lives, shared_workers)  # tests kill some
        spare = shared_workers[:]

        def start() -> Any:
            if not spare:
                shared_workers.append(start_worker())
                return shared_workers[-1]
            return spare.pop(0)

        return RayContext(_Kept([start] * workers, Limits(300, 300, retries)), workers, 0, connected=False)

    return make


@pytest.fixture(scope="session")
def process() -> Any:
    """Federated averaging of a linear model, compressed."""

    def model_fn() -> Any:
        model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(20,), kernel_initializer="ones")])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        spec = (tf.TensorSpec([None, 20], tf.float32), tf.TensorSpec([None], tf.int32))
        return tff.learning.models.from_keras_model(model, loss=loss, input_spec=spec)

    with fedplug.use_runtime("inprocess"):
        sgd = tff.learning.optimizers.build_sgdm(0.1)
        built = build_weighted_fed_avg(model_fn, sgd, encoder="topk(0.2) | qsgd(4)", min_size=8)
    assert built.lowering == "fused"
    return built


def arrays(value: Any) -> list[Any]:
    """The leaves of a result, data sets as lists of their elements."""
    if isinstance(value, tf.data.Dataset):
        return [leaf for element in value for leaf in arrays(element)]
    return [np.asarray(leaf) for leaf in tf.nest.flatten(value)]


@pytest.fixture(scope="session")
def assert_same_bits() -> Callable[[Any, Any], None]:
    """Returns a function that asserts equal structure, dtypes, shapes and bits."""
    return _assert_same_bits


def _assert_same_bits(actual: Any, expected: Any) -> None:
    for a, e in zip(arrays(actual), arrays(expected), strict=True):
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        assert a.tobytes() == e.tobytes()
