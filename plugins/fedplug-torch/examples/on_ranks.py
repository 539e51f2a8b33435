"""Runs a function on ranks of torch.distributed, which are processes of this machine over gloo."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist

__all__ = ["on_ranks"]

T = TypeVar("T")


def on_ranks(ranks: int, work: Callable[..., Iterator[T]], *arguments: object) -> list[T]:
    """Returns everything that ``work(rank, *arguments)`` yields on the first rank.

    Raises:
        torch.multiprocessing.ProcessRaisedException: A rank has raised an error, which ends all of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_run, (ranks, Path(folder), work, arguments), ranks)
        found: list[T] = pickle.loads(Path(folder, "found").read_bytes())
    return found


def _run(
    rank: int, ranks: int, folder: Path, work: Callable[..., Iterator[T]], arguments: tuple[object, ...]
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", (folder / "ranks").as_uri(), rank=rank, world_size=ranks)
    found = list(work(rank, *arguments))
    if rank == 0:
        (folder / "found").write_bytes(pickle.dumps(found))
    dist.destroy_process_group()
