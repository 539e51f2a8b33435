"""Finds a plugin whose import ends the process or never ends."""

from __future__ import annotations

import os
import signal
import sys
import warnings

from fedplug.errors import PluginError
from fedplug.registry.entry_points import Source
from fedplug.registry.loader import ALLOW_VARIABLE, load

__all__ = ["require_importable"]

_SECONDS = 60  # a plugin imports hooks and specs, which takes milliseconds


def require_importable() -> None:
    """Imports all plugins in a forked process first, where there is one and TensorFlow has no threads yet.

    Raises:
        PluginError: A plugin ends that process, or is not imported within a minute.
    """
    if not hasattr(os, "fork") or "tensorflow" in sys.modules:
        return
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child does not use
        pid = os.fork()
    if pid == 0:
        try:
            _import(writing)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, encoding="utf-8") as lines:
        named = lines.read().splitlines()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if named and named[-1]:
        how = f"ends the process: exit status {code}"
        if code < 0:
            how = f"ends the process: {signal.strsignal(-code)}"
        if -code == signal.SIGALRM:
            how = f"is not imported within {_SECONDS} s"
        name = named[-1].partition(" ")[0]
        raise PluginError(
            f"the plugin {named[-1]} {how}; `pip uninstall {name}` and tell its authors, or list in "
            f"{ALLOW_VARIABLE} the distributions to load"
        )


def _import(writing: int) -> None:
    """Writes the name of each plugin before its import, and an empty line after the last."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # the import that counts prints it
        os.dup2(nowhere, stream)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def note(source: Source) -> None:
        if not source.builtin:
            os.write(writing, f"{source.distribution} {source.version}\n".encode())
            signal.alarm(_SECONDS)

    load(note)
    os.write(writing, b"\n")
