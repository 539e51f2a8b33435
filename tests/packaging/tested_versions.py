"""Tests the packages with the newest releases of what they need, and writes the table in docs/frameworks.md.

Usage: tested_versions.py UV [PACKAGE ...]; `make tested-versions` runs it. Without a package, it tests all
that can have newer releases than the lock files name. A row is written if its tests pass.
"""

from __future__ import annotations

import datetime
import re
import shutil
import subprocess
import sys
from pathlib import Path

import environment
import integrations

PAGE = Path("docs/frameworks.md")
HEADER = "| package | on every commit | newest releases, on |"
FRAMEWORKS = {
    "fedplug": ("numpy",),
    "fedplug[tff]": ("tensorflow-federated", "tensorflow"),
    "fedplug-tensorflow": ("tensorflow",),
    "fedplug-torch": ("torch",),
    "fedplug-flower": ("flwr",),
    "fedplug-nvflare": ("nvflare",),
    "fedplug-ray": ("ray",),
}
TARGETS = {
    "fedplug": ("test-numpy", ".venv-numpy"),
    "fedplug-tensorflow": ("test-tensorflow", ".venv-tensorflow"),
}
"""These have a target of the Makefile, which makes the environment; the others are integrations."""
EXACT = ("fedplug[tff]", "fedplug-ray")
"""TFF requires one TensorFlow and one Python, which are those of the lock file."""


def main(uv: str, *chosen: str) -> int:
    """Tests the packages one after the other; 1 if any test failed."""
    packages = [package for package in FRAMEWORKS if package not in EXACT]
    if unknown := set(chosen) - set(packages):
        print(
            f"no such package: {', '.join(sorted(unknown))}; there are {', '.join(packages)}", file=sys.stderr
        )
        return 2
    uv, failed = str(Path(shutil.which(uv) or uv).resolve()), False
    for package in chosen or packages:
        if found := newest(uv, package):
            text = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(with_rows(text, {package: found}), encoding="utf-8")
        failed |= not found
    return int(failed)


def newest(uv: str, package: str) -> str | None:
    """Tests a package with the newest releases; returns their versions and the date, or None."""
    if package in TARGETS:
        target, folder = TARGETS[package][0], Path(TARGETS[package][1])
        passed = not subprocess.run(["make", "--no-print-directory", target], check=False).returncode
    else:
        folder = Path("plugins", package, integrations.NEWEST)
        outcome = integrations.newest(uv, Path("plugins", package))
        print(f"{package}: {outcome}", flush=True)
        passed = outcome.startswith("passed")
    if not passed or not folder.exists():
        return None
    config = (folder / "pyvenv.cfg").read_text(encoding="utf-8")
    [python] = re.findall(r"^version_info = (\d+\.\d+)", config, re.MULTILINE)
    versions = environment.versions(folder, FRAMEWORKS[package])
    return f"Python {python}, {versions}; {datetime.date.today()}"


def locked(package: str) -> str:
    """Returns the versions in the lock file of a package, which CI tests."""
    own, (major, minor) = Path("plugins", package, "uv.lock"), integrations.PYTHON
    text = (own if own.exists() else Path("uv.lock")).read_text(encoding="utf-8")
    found = dict(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', text, re.MULTILINE))
    return ", ".join([f"Python {major}.{minor}", *(f"{name} {found[name]}" for name in FRAMEWORKS[package])])


def with_rows(text: str, found: dict[str, str]) -> str:
    """Returns the page with the versions of the lock files, and those found with the newest releases."""
    before, table, after = re.split(
        rf"^({re.escape(HEADER)}\n(?:\|.*\n)*)", text, maxsplit=1, flags=re.MULTILINE
    )
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]
    known = (
        {package.strip("`"): last for package, _, last in cells} | found | dict.fromkeys(EXACT, "no other")
    )
    rows = [
        f"| `{package}` | {locked(package)} | {known.get(package, 'not tested')} |\n"
        for package in FRAMEWORKS
    ]
    return "".join([before, HEADER, "\n| --- | --- | --- |\n", *rows, after])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
