"""The Pythons of this machine that fedplug can be built for; the others with the reason why not.

Looks on the search path, and where pyenv and uv keep theirs. Needs nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Version", "find"]

Version = tuple[int, int]

_PROBE = """
import json, os, sys, sysconfig
missing = [] if os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")) else ["Python.h"]
for module in ("sqlite3", "ssl", "venv"):
    try:
        __import__(module)
    except ImportError:
        missing.append(module)
print(json.dumps([sys.implementation.name, sys.version_info[:2], missing]))
"""


def find(oldest: Version, newest: Version = (3, 99)) -> dict[Version, Path]:
    """One interpreter for each version from ``oldest`` to ``newest``, newest first; prints which it skips."""
    found: dict[Version, Path] = {}
    skipped: dict[Version, str] = {}
    for path in _candidates():
        version = _version(path)
        if not oldest <= version <= newest or version in found:
            continue
        if reason := _unfit(path, version):
            skipped.setdefault(version, f"{path}: {reason}")
        else:
            found[version] = path
    for version in sorted(skipped.keys() - found.keys()):
        print(f"Python {version[0]}.{version[1]} skipped: {skipped[version]}", flush=True)
    return dict(sorted(found.items(), reverse=True))


def _version(path: Path) -> Version:
    return 3, int(path.name.removeprefix("python3."))


def _candidates() -> Iterator[Path]:
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    managed = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    searched = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep) if folder]
    folders = [folder for folder in searched if folder != pyenv / "shims"]  # they run one of those below
    folders += sorted([*pyenv.glob("versions/*/bin"), *managed.glob("*/bin")], reverse=True)
    for folder in folders:
        yield from (path for path in folder.glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))


def _unfit(path: Path, version: Version) -> str | None:
    run = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True, check=False)
    if run.returncode:
        return f"it does not run: {run.stderr.strip()[-200:]}"
    implementation, found, missing = json.loads(run.stdout)
    if implementation != "cpython" or tuple(found) != version:
        return f"it is {implementation} {found[0]}.{found[1]}"
    return f"it has no {', no '.join(missing)}" if missing else None


if __name__ == "__main__":
    for version, path in find((3, 10)).items():
        sys.stdout.write(f"{version[0]}.{version[1]} {path}\n")
