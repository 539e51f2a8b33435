"""Measures the time of commands as a user starts them: from a new process to its last line of output.

Time beyond that of Python itself is fedplug's. ``make bench`` writes the table, results/cli.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FEDPLUG = str(Path(sys.executable).with_name("fedplug"))

# The command, a part of its output, and the project's limit for its time in milliseconds.
CASES = {
    "python -c pass": ([sys.executable, "-c", "pass"], "", None),
    "fedplug --help": ([FEDPLUG, "--help"], "Compresses federated-learning updates", 150),
    "fedplug --version": ([FEDPLUG, "--version"], "fedplug ", None),
    "fedplug plugins list": ([FEDPLUG, "plugins", "list"], "with error feedback", 250),
    "fedplug examples list": ([FEDPLUG, "examples", "list"], "WHAT IT SHOWS", None),
}


@pytest.mark.benchmark(group="start-up of the command line", min_rounds=20)
@pytest.mark.parametrize("command", CASES)
def test_the_command_line(benchmark, command):
    arguments, expected, wanted = CASES[command]
    benchmark.extra_info.update(topic="cli", way=command, wanted_ms=wanted)
    result = benchmark(subprocess.run, arguments, capture_output=True, text=True, check=True)
    assert expected in result.stdout
    assert not result.stderr
