"""Finds a plugin whose import ends the process or never ends."""

from __future__ import annotations

import os
import signal
import sys

from fedplug.errors import PluginError
from fedplug.registry.entry_points import Source
from fedplug.registry.forking import Say, can_fork, forked
from fedplug.registry.loader import ALLOW_VARIABLE, load

__all__ = ["require_importable"]

_SECONDS = 60  # a plugin imports hooks and specs, which takes milliseconds


def require_importable() -> None:
    """Imports all plugins in a forked process first, where there is one and TensorFlow has no threads yet.

    Raises:
        PluginError: A plugin ends that process, or is not imported within a minute.
    """
    if not can_fork() or "tensorflow" in sys.modules:
        return
    code, plugin, how = forked(_import)
    if plugin:
        if -code == signal.SIGALRM:
            how = f"is not imported within {_SECONDS} s"
        name = plugin.partition(" ")[0]
        raise PluginError(
            f"the plugin {plugin} {how}; `pip uninstall {name}` and tell its authors, or list in "
            f"{ALLOW_VARIABLE} the distributions to load"
        )


def _import(say: Say) -> int:
    """Names each plugin before its import, and nothing after the last."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # the import that counts prints it
        os.dup2(nowhere, stream)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def note(source: Source) -> None:
        if not source.builtin:
            say(f"{source.distribution} {source.version}")
            signal.alarm(_SECONDS)

    load(note)
    say("")
    return 0
