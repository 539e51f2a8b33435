"""Adding updates up as they arrive takes one accumulator, whatever their number."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SIZE = 2_000_000  # 8 MB an update
WAYS = (("in a process", 10), ("in a process", 60), ("decode, then add", 60))


@pytest.fixture(scope="module")
def peaks(load_example):
    """The peak memory after each way, one after the other in one fresh process, where it never falls."""
    program = (
        "import runpy, sys\n"
        "example = runpy.run_path(sys.argv[1])\n"
        f"for way, clients in {WAYS}:\n"
        f"    example['WAYS'][way](clients, {SIZE})\n"
        "    print(example['peak']())\n"
    )
    command = [sys.executable, "-c", program, load_example("streaming_sum").__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    return dict(zip(WAYS, map(float, done.stdout.split()), strict=True))


def test_memory_does_not_grow_with_the_number_of_clients_of_a_process(peaks) -> None:
    assert peaks["in a process", 60] < 1.1 * peaks["in a process", 10]


def test_the_obvious_way_holds_them_all_so_the_measurement_would_show_it(peaks) -> None:
    assert peaks["decode, then add", 60] > 1.3 * peaks["in a process", 10]
