"""Processes that are ranks of torch.distributed over gloo and run the same job at the same time."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
import traceback
from pathlib import Path

import torch
import torch.distributed as dist

_INSTALLED = [
    "torch._dynamo",
    "torch.distributed.fsdp",
    "fedplug_torch",
    "safetensors.torch",
    "sklearn.datasets",
]

SECONDS = 120
"""Seconds after which a rank without an answer counts as hanging."""


class Ranks:
    """Processes that are reused for many jobs, because importing torch takes seconds."""

    def __init__(self, count):
        # Ranks are forked from a process that has imported everything, so they start at once.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_INSTALLED)  # Python 3.11 finds no module of this folder
        self._folder = tempfile.TemporaryDirectory()
        meeting_point = Path(self._folder.name, "ranks").as_uri()
        self._pipes, self._processes = [], []
        for rank in range(count):
            mine, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, rank, count, meeting_point), daemon=True)
            process.start()
            self._pipes.append(mine)
            self._processes.append(process)

    def run(self, job, *args, **kwargs):
        """Returns ``job(*args, **kwargs)`` of each rank, None for one that died. Fails on exceptions."""
        for pipe in self._pipes:
            pipe.send((job, args, kwargs))
        results, errors = [], []
        for rank, pipe in enumerate(self._pipes):
            assert pipe.poll(SECONDS), f"rank {rank} hangs"
            try:
                result, error = pipe.recv()
            except EOFError:  # the process has died
                result, error = None, ""
            results.append(result)
            errors += [f"rank {rank}: {error}"] if error else []
        assert not errors, "\n".join(errors)
        return results

    def close(self):
        for process in self._processes:
            process.kill()
            process.join()
        self._folder.cleanup()


@contextlib.contextmanager
def one_rank():
    """Makes this process the only rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _serve(pipe, rank, count, meeting_point):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=count)
    while True:
        job, args, kwargs = pipe.recv()
        try:
            pipe.send((job(*args, **kwargs), ""))
        except Exception:
            pipe.send((None, traceback.format_exc()))
