"""The process of TFF's stock worker: it starts with a time limit, and never outlives this process.

TFF stops its worker only in a `__del__`, so its worker outlives a killed parent, and TFF waits for it without
a limit. Here, the kernel kills the worker when this process ends for any reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import IO

import grpc
import portpicker
import tensorflow_federated as tff

from fedplug.errors import WorkerError

__all__ = ["Worker"]

# A new interpreter runs this and becomes the worker. The request to be killed survives the exec.
_BECOME_WORKER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
_MAX_MESSAGE = 2_000_000_000
_CHANNEL_OPTIONS = [
    ("grpc.max_message_length", _MAX_MESSAGE),
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.max_send_message_length", _MAX_MESSAGE),
    # The first attempts fail, as the worker does not listen yet; gRPC would wait a second before the next.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
]
_POLL_SECONDS = 0.01


class Worker:
    """A running worker.

    Args:
        max_concurrent_calls: Number of calls of one computation that run at a time. None: no limit.
        start_timeout: Seconds in which the worker must answer.

    Attributes:
        stub: The gRPC stub for TFF's remote executor.

    Raises:
        WorkerError: The worker did not start in time, or ended. The message has the last lines it wrote.
    """

    def __init__(self, max_concurrent_calls: int | None, start_timeout: float) -> None:
        port = portpicker.pick_unused_port()
        limit = -1 if max_concurrent_calls is None else max_concurrent_calls
        binary = Path(tff.__file__).parent / "data" / "worker_binary"
        command = [str(binary), f"--port={port}", f"--max_concurrent_computation_calls={limit}"]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (the worker writes to it until it ends)
        try:
            self._process = _start(command, self._log.fileno())
        except BaseException:
            self._log.close()
            raise
        self._stop = weakref.finalize(self, _end, self._process, self._log)
        channel = grpc.insecure_channel(f"localhost:{port}", _CHANNEL_OPTIONS)
        self.stub = tff.framework.RemoteExecutorGrpcStub(channel)
        deadline = time.monotonic() + start_timeout
        while not self.stub.is_ready:
            if not self.alive:
                raise WorkerError(f"TFF's worker ended before it answered{self._said()}")
            if time.monotonic() > deadline:
                said = self._said()
                self.stop()
                raise WorkerError(
                    f"TFF's worker did not answer within {start_timeout} s; raise start_timeout, or run with "
                    f'fedplug.use_runtime("inprocess"){said}'
                )
            time.sleep(_POLL_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def stop(self) -> None:
        """Ends the process; a second call does nothing."""
        self._stop()

    def _said(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()[-10:]
        return "".join(f"\n  {line}" for line in lines)


def _start(command: list[str], log: int) -> subprocess.Popen[bytes]:
    """Starts a process that the kernel kills when this process ends.

    Raises:
        WorkerError: The system refuses, for instance because it lacks memory.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    def watch() -> None:
        # The kernel acts when the starting thread ends, so this thread lives as long as the process.
        launcher = [sys.executable, "-I", "-S", "-c", _BECOME_WORKER, str(os.getpid()), *command]
        try:
            process = subprocess.Popen(launcher, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        except BaseException as error:  # the waiting thread must get it
            started.set_exception(error)
        else:
            started.set_result(process)
            process.wait()

    try:
        threading.Thread(target=watch, name="fedplug-worker", daemon=True).start()
        return started.result()
    except (OSError, RuntimeError) as error:  # RuntimeError: a thread cannot start
        raise WorkerError(f"TFF's worker cannot be started: {error}") from error


def _end(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    process.kill()
    process.wait()
    log.close()
