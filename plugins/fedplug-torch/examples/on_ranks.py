"""Runs a function on ranks of torch.distributed, which are processes of this machine over gloo."""

from __future__ import annotations

import multiprocessing
import queue
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.queues import Queue
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist

__all__ = ["on_ranks"]

T = TypeVar("T")

_SECONDS = 5
"""How often the processes are looked at."""


def on_ranks(ranks: int, work: Callable[..., Iterator[T]], *arguments: object) -> Iterator[T]:
    """Yields everything that ``work(rank, *arguments)`` yields on each rank, as it comes.

    Raises:
        RuntimeError: A process has ended early.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedplug_torch"])
    results, left = context.Queue(), ranks
    with tempfile.TemporaryDirectory() as folder:
        place = ranks, Path(folder, "ranks").as_uri()
        processes = [
            context.Process(target=_run, args=(results, work, rank, *place, arguments))
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        while left:
            try:
                found = results.get(timeout=_SECONDS)
            except queue.Empty:
                if any(process.exitcode for process in processes):
                    raise RuntimeError("a rank has ended early") from None
                continue
            left -= found is None
            if found is not None:
                yield found
        for process in processes:
            process.join()


def _run(
    results: Queue[T | None],
    work: Callable[..., Iterator[T]],
    rank: int,
    ranks: int,
    meeting_point: str,
    arguments: tuple[object, ...],
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=ranks)
    for found in work(rank, *arguments):
        results.put(found)
    results.put(None)
    dist.destroy_process_group()
