"""How often a round waits for the device, copies and launches, as the fake device counts it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fedplug


@pytest.fixture
def count(fake):
    def counted(work):
        before = fake.calls()
        work()
        return {name: number - before[name] for name, number in fake.calls().items()}

    return counted


@pytest.mark.parametrize(
    ("expression", "copies"),
    [
        ("topk(0.05)", 1),
        ("topk(0.05, scope='model')", 1),
        ("topk(0.05, scope='model') | qsgd(8)", 2),
        ("topk(0.05, chunk=64, decay=0.5) | qsgd(8)", 2),
        ("randomk(0.05)", 2),
        ("randomk(0.05, error_feedback=True)", 2),
    ],
)
def test_a_list_is_copied_and_waited_for_as_often_as_one_tensor(device, count, expression, copies):
    codec = fedplug.codec(expression)
    rng = np.random.default_rng(0)
    for tensors in (1, 12):
        update = {f"layer{i}": device.put(rng.standard_normal((8, 100), np.float32)) for i in range(tensors)}
        _, state = codec.encode_model(update)
        found = count(lambda update=update, state=state: codec.encode_model(update, state, 1))
        assert (found["copy"], found["wait"]) == (copies, copies)
        each = 0 if expression.startswith("topk(0.05") and "chunk" not in expression else 3 * tensors
        assert found["launch"] + found["set"] <= 8 + each


def test_the_means_of_a_model_are_waited_for_as_often_as_one(device, count):
    for tensors in (1, 12):
        like = {f"layer{i}": device.put(np.ones((8, 100), np.float32)) for i in range(tensors)}
        total = fedplug.ModelSum.like(like)
        total.add(fedplug.codec("sign").encode_model(like)[0])
        total.value()
        assert count(total.mean)["wait"] == 2  # for the divisors on their way, and for the check


def test_another_thread_may_free_memory_while_kernels_run(device):
    """Python's garbage collector does so, because it runs in any thread."""
    codec, done = fedplug.codec("topk(0.05)"), threading.Event()
    x = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    expected, _ = codec.encode(x)

    def make_and_free():
        while not done.is_set():
            device.put(x)

    with ThreadPoolExecutor(1) as other:
        freed = other.submit(make_and_free)
        try:
            payloads = [codec.encode(device.put(x))[0] for _ in range(50)]
        finally:
            done.set()
    freed.result()
    assert payloads == [expected] * 50
