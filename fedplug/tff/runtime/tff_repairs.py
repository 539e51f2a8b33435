"""Repairs of TFF in this process: the nesting limit of protobuf, and the workers that TFF leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from google.protobuf.internal import api_implementation

__all__ = ["allow_deep_messages", "end_workers_of_this_process"]


def allow_deep_messages() -> None:
    """Lifts the limit in this process if protobuf runs on C (`upb`). Its pure Python form has no limit."""
    if api_implementation.Type() == "upb":
        from google._upb import _message

        _message.SetAllowOversizeProtos(True)


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
