"""Resident memory, and processes of their own, whose memory is none of this one's."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def elsewhere(function: Callable[..., Any], *arguments: object) -> Any:
    """Returns the result of a new process."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as fresh:
        return fresh.submit(function, *arguments).result()


def resident(field: str = "VmRSS", process: int | str = "self") -> int:
    """Returns the resident bytes of a process: ``VmRSS`` now, or ``VmHWM`` at most."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", status)[1])
