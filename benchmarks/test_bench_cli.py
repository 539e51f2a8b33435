"""How long the command line takes to answer, as a user starts it: a new process, until its last line is out.

What takes longer than Python by itself is fedplug's. ``make bench`` writes the table, results/cli.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FEDPLUG = str(Path(sys.executable).with_name("fedplug"))

# The command, what its output has in it, and within how many milliseconds the project wants it to answer.
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
