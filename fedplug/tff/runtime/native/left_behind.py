"""Ends the workers that TFF itself starts, which TFF leaves behind when Python exits.

TFF ends its worker in a `__del__` that fails at exit, because Python has cleared TFF's modules by then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

__all__ = ["end_workers_of_this_process"]


def end_workers_of_this_process() -> None:
    """Kills the child processes of this process that run TFF's worker."""
    if (tff := sys.modules.get("tensorflow_federated")) is None or tff.__file__ is None:
        return
    binary = (Path(tff.__file__).parent / "data" / "worker_binary").resolve()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            # The second field after the name, which is in parentheses and may have any character.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and (folder / "exe").resolve() == binary:
                os.kill(int(folder.name), signal.SIGKILL)
