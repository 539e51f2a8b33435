"""Tests the packages for other frameworks, each in an environment of its own, made from its lock file.

Usage: integrations.py UV [PACKAGE ...]; without a package, all plugins that have a lock file of their own. An
environment that cannot be made, as a framework has no wheel for this machine say, is a skip with its reason;
tests that fail, or take longer than MINUTES_OF_TESTS, are a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pythons

Run = Callable[..., str]
"""Runs a command in the folder of a package and returns its output."""

PYTHON = (3, 11)
"""One for all of them, so that fedplug is compiled once. Each supports more."""

MINUTES_OF_SETUP, MINUTES_OF_TESTS = 10, 20

NEWEST = ".venv-newest"
"""The environment in the folder of a package, with the newest releases of everything."""

AS_ON_WINDOWS = {
    "fedplug-flower": "tests/test_error_feedback.py",
    "fedplug-nvflare": "tests/test_receipts.py",
}
"""Tests that write files, which run once more with files that behave as on Windows."""

BY_PIP = "torch"
"""Has several wheels of one version: pip's settings choose; without any, the one for CUDA: gigabytes."""


def main(uv: str, *chosen: str) -> int:
    """Tests them one after the other; 1 if any test failed."""
    uv = str(Path(shutil.which(uv) or uv).resolve())  # a package's commands run in its folder
    packages = sorted(path.parent for path in Path("plugins").glob("*/uv.lock"))
    unknown = set(chosen) - {package.name for package in packages}
    if unknown:
        print(f"no such package with a lock file: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    python = pythons.find(PYTHON, PYTHON).get(PYTHON)
    if python is None:
        print(f"integrations skipped: no Python {PYTHON[0]}.{PYTHON[1]} here")
        return 0
    wanted = [package for package in packages if not chosen or package.name in chosen]
    outcomes = {
        package.name: _outcome(
            package, ".venv", lambda run, package=package: _install_locked(uv, python, package, run)
        )
        for package in wanted
    }
    print("".join(f"\n{name}: {outcome}" for name, outcome in outcomes.items()), flush=True)
    return int(any("failed" in outcome for outcome in outcomes.values()))


def newest(uv: str, package: Path) -> str:
    """Tests a package with the newest releases, on the newest Python that has them; returns the outcome."""
    return _outcome(package, NEWEST, lambda run: _install_newest(uv, run))


def _outcome(package: Path, environment: str, install: Callable[[Run], None]) -> str:
    """Makes the environment of a package and runs its tests there; returns the outcome in words."""
    print(f"\n== {package.name}", flush=True)
    begin = time.monotonic()

    def run(*command: str | Path) -> str:
        left = max(1.0, begin + 60 * MINUTES_OF_SETUP - time.monotonic())
        done = subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=left, check=True)
        return done.stdout

    try:
        install(run)
    except subprocess.CalledProcessError as error:
        return f"skipped, its environment could not be made: {' '.join(error.stderr.split())[-500:]}"
    except subprocess.TimeoutExpired:
        return f"skipped, its environment was not made within {MINUTES_OF_SETUP} minutes"
    made = time.monotonic()
    failed = False
    for options, settings in _suites(package):
        left = max(1.0, made + 60 * MINUTES_OF_TESTS - time.monotonic())
        command = [f"{environment}/bin/pytest", *options]
        try:
            tests = subprocess.run(command, cwd=package, env=settings, timeout=left, check=False)
        except subprocess.TimeoutExpired:
            return f"failed, its tests took more than {MINUTES_OF_TESTS} minutes"
        failed = failed or tests.returncode != 0
    seconds = f"environment {made - begin:.0f} s, tests {time.monotonic() - made:.0f} s"
    return f"failed ({seconds})" if failed else f"passed ({seconds})"


def _suites(package: Path) -> Iterator[tuple[list[str], dict[str, str] | None]]:
    """Yields the options and the environment of each run of pytest."""
    yield [], None
    if files := AS_ON_WINDOWS.get(package.name):
        yield ["-p", "windows", files], {**os.environ, "PYTHONPATH": str(Path("tests/stores").absolute())}


def _install_locked(uv: str, python: Path, package: Path, run: Run) -> None:
    """Installs what the lock file says, the package editable, fedplug as the wheel that a user would get."""
    if not (package / ".venv/bin" / python.name).exists():
        run(uv, "venv", "--quiet", "--clear", "--seed", "--python", python, ".venv")
    lock = (package / "uv.lock").read_text(encoding="utf-8")
    if version := re.search(rf'name = "{BY_PIP}"\nversion = "([^"]+)"', lock):  # first: others require it
        # What is imported is compiled then; all of it would take longer than the tests.
        options = ["--quiet", "--no-compile", "--only-binary", ":all:"]
        run(".venv/bin/python", "-m", "pip", "install", *options, f"{BY_PIP}=={version[1]}")
    locked = run(uv, "export", "--quiet", "--frozen", "--no-hashes", "--prune", BY_PIP)
    wanted = package / ".venv" / "requirements.txt"
    wanted.write_text(locked, encoding="utf-8")
    run(uv, "pip", "install", "--quiet", "--python", ".venv", "-r", wanted.relative_to(package))


def _install_newest(uv: str, run: Run) -> None:
    """Installs the newest releases of what the package requires, and fedplug and the package as above."""
    refused = subprocess.CalledProcessError(
        1, "find", stderr=f"no Python from {PYTHON[0]}.{PYTHON[1]} on here"
    )
    for python in pythons.find(PYTHON).values():
        run(uv, "venv", "--quiet", "--clear", "--python", python, NEWEST)
        try:
            run(uv, "pip", "install", "--quiet", "--python", NEWEST, "--upgrade", "--group", "dev", "-e", ".")
        except subprocess.CalledProcessError as error:
            refused = error  # perhaps an older Python can have them
        else:
            return
    raise refused


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
