"""Fixtures for tests of several kernels."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fedplug import kernels


@pytest.fixture
def has_the_same_bits_everywhere():
    """Runs a program that prints SIMD level and digest, at every available level and with three threads."""

    def check(program):
        best = kernels.simd_level()
        levels = ("baseline", "avx2", "avx512")
        levels = levels[: levels.index(best) + 1]
        runs = [
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "FEDPLUG_SIMD": level, "FEDPLUG_NUM_THREADS": threads},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            for level, threads in [*((level, "1") for level in levels), (best, "3")]
        ]
        assert [level for level, _ in runs] == [*levels, best]
        assert len({digest for _, digest in runs}) == 1

    return check
