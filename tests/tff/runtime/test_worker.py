"""Tests that the stock worker is supervised: replaced if it dies or grows, stopped, never orphaned."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import portpicker
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import WorkerError
from fedplug.tff.runtime import use_runtime
from fedplug.tff.runtime.native.context import create_native_execution_context
from fedplug.tff.runtime.native.worker import Worker

F32, I32 = np.float32, np.int32


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def test_the_worker_ends_with_the_runtime(total):
    with use_runtime("native") as handle:
        assert total([1]) == 2
        pid = handle.context.worker.pid
        assert is_running(pid)
    assert wait_until_gone(pid)


@pytest.mark.slow
def test_no_worker_outlives_a_program_that_is_killed_in_the_middle_of_a_round():
    program = """
        import numpy as np, tensorflow as tf, tensorflow_federated as tff
        from fedplug.tff.runtime import use_runtime

        handle = use_runtime("native")
        down_to = tff.tensorflow.computation(
            lambda n: tf.while_loop(lambda i: i > n, lambda i: tf.maximum(i - 1, 1), [5]), np.int32
        )
        down_to(1)
        print(handle.context.worker.pid, flush=True)
        down_to(0)  # never ends
        """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    drivers = {
        how: subprocess.Popen(command, **pipes, text=True, cwd=Path(__file__).parents[3])
        for how in (signal.SIGKILL, signal.SIGTERM)
    }
    for how, driver in drivers.items():
        with driver:
            worker = int(driver.stdout.readline())
            assert is_running(worker)
            time.sleep(0.1)
            assert driver.poll() is None  # in the middle of its round
            driver.send_signal(how)
        assert wait_until_gone(worker)


@tff.tensorflow.computation(tff.TensorType(F32, [40, 40]))
def work(matrix):
    return tf.while_loop(lambda i, x: i < 300, lambda i, x: (i + 1, tf.tanh(x @ matrix)), [0, matrix])[1]


@tff.federated_computation(tff.FederatedType(tff.TensorType(F32, [40, 40]), tff.CLIENTS))
def round_of_work(values):
    return tff.federated_mean(tff.federated_map(work, values))


def test_a_worker_that_tff_started_itself_ends_with_the_program() -> None:
    """The program starts it as TFF does, and has no TFF, whose import takes seconds."""
    program = f"""
        import subprocess, sys, types
        import fedplug.tff.runtime

        sys.modules["tensorflow_federated"] = types.SimpleNamespace(__file__={tff.__file__!r})
        binary = {str(Path(tff.__file__).parent / "data/worker_binary")!r}
        worker = subprocess.Popen([binary, "--port={portpicker.pick_unused_port()}"])
        print(worker.pid, flush=True)
        assert "tensorflow" not in sys.modules
        raise ValueError
    """
    code = textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert wait_until_gone(int(done.stdout))


def test_a_worker_killed_at_any_point_of_a_round_changes_no_result(total):
    rng = random.Random(1)
    values = list(np.random.default_rng(0).normal(size=(10, 40, 40)).astype(F32))
    with use_runtime("native") as handle:
        expected = round_of_work(values)
        begin = time.monotonic()
        round_of_work(values)
        duration = time.monotonic() - begin
        workers = set()
        for _ in range(3):
            victim = handle.context.worker.pid
            workers.add(victim)
            killer = threading.Timer(rng.uniform(0, duration), os.kill, [victim, signal.SIGKILL])
            killer.start()
            np.testing.assert_array_equal(round_of_work(values), expected)
            killer.join()
            assert wait_until_gone(victim)
            assert total([1, 2]) == 5
        assert len(workers) == 3


def test_a_worker_that_dies_again_and_again_is_an_error(monkeypatch, total):
    started = []

    def start_and_kill(*options):
        started.append(Worker(*options))
        os.kill(started[-1].pid, signal.SIGKILL)
        return started[-1]

    with use_runtime("native"):
        with monkeypatch.context() as patch:
            patch.setattr("fedplug.tff.runtime.native.context.Worker", start_and_kill)
            with pytest.raises(WorkerError, match="died 4 times in a row"):
                total([1])
        assert len(started) == 4
        assert total([1]) == 2  # the next computation has its own retries


def test_a_worker_that_does_not_answer_in_time_is_an_error_and_is_removed(total):
    context = create_native_execution_context(start_timeout=0.0)
    with (
        tff.framework.get_context_stack().install(context),
        pytest.raises(WorkerError, match=r"did not answer within 0.0 s; raise start_timeout"),
    ):
        total([1])
    assert context.worker is None
    context.close()
