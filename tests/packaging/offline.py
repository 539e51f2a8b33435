"""Installs every package from dist/ without a network, in an empty environment each, and uses it.

Usage: offline.py UV [PACKAGE ...]. Each package is installed twice, with the versions of the lock files: once
with the network, so that uv has the dependencies in its cache, and then without. A bill of materials
(CycloneDX) in dist/bills/ lists what the environment contains.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pythons
import wheels

ROOT, WORK = wheels.ROOT, wheels.WORK
BILLS = wheels.DIST / "bills"
PACKAGES = ["fedplug", *sorted(path.name for path in ROOT.glob("plugins/*"))]
USE = "from {module} import *; import sys, fedplug.cli; sys.exit(fedplug.cli.main(['doctor']))"


def main(uv: str, *chosen: str) -> int:
    """Tries them one after the other; 1 if any failed."""
    python = pythons.find(wheels.OF_TFF, wheels.OF_TFF)[wheels.OF_TFF]
    BILLS.mkdir(parents=True, exist_ok=True)
    failed = []
    for package in chosen or PACKAGES:
        try:
            _try(uv, python, package)
        except subprocess.CalledProcessError:
            failed.append(package)
        print(f"{package}: {'FAILED' if package in failed else 'works, installed offline'}", flush=True)
    return int(bool(failed))


def _try(uv: str, python: Path, package: str) -> None:
    """Installs a package, uses it, and writes the bill of materials of its environment."""
    folder = ROOT if package == "fedplug" else ROOT / "plugins" / package
    install = _command(uv, folder, package)
    # The cache may have wheels of these names from an earlier build.
    for options in ([f"--refresh-package={name}" for name in PACKAGES], ["--offline"]):
        environment = wheels.fresh(uv, python, "offline")
        wheels.run(*install, *options, "--python", environment, cwd=WORK)
    there = environment / "bin" / "python"
    program = [wheels.TRIAL] if folder == ROOT else ["-c", USE.format(module=package.replace("-", "_"))]
    nothing = {"PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    wheels.run(there, "-I", *program, cwd=environment, env=nothing)
    bill = ["--pyproject", folder / "pyproject.toml", "--output-file", BILLS / f"{package}.cdx.json", there]
    wheels.run(uv, "tool", "run", "--quiet", "--from", "cyclonedx-bom", "cyclonedx-py", "environment", *bill)


def _command(uv: str, folder: Path, package: str) -> list[object]:
    """Returns the command that installs a package, without uv's settings of this checkout."""
    own = (folder / "uv.lock").exists() and folder != ROOT
    selection = ["--project", folder] if own else ["--package", package]
    export = [uv, "export", "--quiet", "--frozen", "--no-dev", "--no-hashes", "--no-annotate", *selection]
    locked = subprocess.run(export, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    constraints, overrides = WORK / "constraints.txt", WORK / "overrides.txt"
    constraints.write_text("\n".join(line for line in locked.splitlines() if "==" in line), encoding="utf-8")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]
    overrides.write_text("\n".join(settings["override-dependencies"]), encoding="utf-8")
    places = [wheels.DIST, *os.environ.get("PIP_FIND_LINKS", "").split()]
    options = [f"--find-links={place}" for place in places]
    options += ["--constraints", constraints, "--overrides", overrides]
    return [uv, "pip", "install", "--quiet", "--no-config", *options, "fedplug", package]


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), *sys.argv[2:]))
