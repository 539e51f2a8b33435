"""Makes an environment of its own for a part of the tests: the newest Python that can have what it needs.

Usage: environment.py UV FOLDER OLDEST [REQUIREMENT ...], for instance: environment.py uv .venv-numpy 3.12

It gets the newest releases of everything, and not those of the lock file, which is for Python 3.11; this
checkout as editable, and the plugins that need no TFF. Ends with 3 where there is no such Python.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pythons

SOURCES = (".", "plugins/fedplug-baselines", "plugins/fedplug-sketch")
NO_PYTHON = 3


def main(uv: str, folder: str, oldest: str, *requirements: str) -> int:
    """Makes it, or brings it up to date."""
    major, minor = map(int, oldest.split("."))
    for version, path in pythons.find((major, minor)).items():
        name = f"Python {version[0]}.{version[1]}"
        if error := _install_dependencies(uv, Path(folder), path, requirements):
            print(f"{name} skipped: {error}", flush=True)
            continue
        editable = [part for source in SOURCES for part in ("-e", source)]
        subprocess.run([uv, "pip", "install", "--quiet", "--python", folder, *editable], check=True)
        print(f"{folder}: {name}, {versions(Path(folder), requirements)}", flush=True)
        return 0
    wanted = " ".join(requirements) or "the dependencies"
    print(f"{folder} skipped: no Python here from {oldest} on can have {wanted}")
    return NO_PYTHON


def _install_dependencies(uv: str, folder: Path, python: Path, requirements: tuple[str, ...]) -> str | None:
    """As wheels only: a Python for which they have none is skipped. Gives what went wrong."""
    if not (folder / "bin" / python.name).exists():
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", python, folder], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", folder, "--only-binary", ":all:"]
    sources = ["-r", "pyproject.toml", "--group", "build", "--group", "test"]
    done = subprocess.run([*install, *sources, *requirements], capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split())[-500:] if done.returncode else None


def versions(folder: Path, requirements: tuple[str, ...]) -> str:
    """Returns the versions of the requirements and of NumPy in an environment."""
    names = dict.fromkeys([*(re.split(r"[^\w.-]", requirement)[0] for requirement in requirements), "numpy"])
    path = [str(packages) for packages in folder.glob("lib/python*/site-packages")]
    found = {name: list(importlib.metadata.distributions(name=name, path=path)) for name in names}
    return ", ".join(f"{name} {parts[0].version}" for name, parts in found.items() if parts)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
