"""Unpacks Pythons from Debian's packages: versions that this machine lacks, and those for aarch64.

Nothing is installed. The packages lie in a folder, where a script starts their Python with their C library,
or under qemu. For uv and for programs that start ``sys.executable``, the script is a Python like any other.

Needs apt, and qemu-aarch64-static for aarch64.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pythons

__all__ = ["unpack"]

SUITES = {(3, 11): "bookworm", (3, 13): "trixie", (3, 14): "testing"}
"""Releases of Debian by the Python in them."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_LAUNCH = {
    "x86_64": '{root}/lib64/ld-linux-x86-64.so.2 --argv0 "$0" --library-path {root}/usr/lib/x86_64-linux-gnu:'
    "{root}/lib/x86_64-linux-gnu",
    "aarch64": '{qemu} -0 "$0" -L {root}',
}


def unpack(folder: Path, version: pythons.Version, machine: str) -> Path | None:
    """Returns a script that runs the Python, or None after printing why there is none."""
    name = f"python{version[0]}.{version[1]}"
    root = (folder / f"{name}-{machine}").absolute()
    script = root / "usr/bin/python"  # beside the real one, where Python looks for its library
    if script.exists():
        return script
    try:
        missing = [tool for tool in ("apt-get", "dpkg-deb") if not shutil.which(tool)]
        if machine == "aarch64" and not shutil.which("qemu-aarch64-static"):
            missing.append("qemu-aarch64-static")
        if missing or version not in SUITES:
            raise LookupError(f"no {', no '.join(missing)}" if missing else "no release of Debian has it")
        packages = _download(root, SUITES[version], ARCHITECTURES[machine], name)
        for package in packages:
            _run("dpkg-deb", "--extract", package, root)
    except (LookupError, subprocess.CalledProcessError) as error:
        reason = " ".join(getattr(error, "stderr", str(error)).split())[-300:]
        print(f"Python {version[0]}.{version[1]} for {machine} skipped: {reason}", flush=True)
        return None
    headers = root / "usr/include"  # Debian's pyconfig.h only includes that of the machine
    shutil.copy(headers / f"{machine}-linux-gnu" / name / "pyconfig.h", headers / name)
    launch = _LAUNCH[machine].format(root=root, qemu=shutil.which("qemu-aarch64-static"))
    script.write_text(f'#!/bin/sh\nexec {launch} {root}/usr/bin/{name} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


def _download(root: Path, suite: str, architecture: str, python: str) -> list[Path]:
    """Downloads a Python and its dependencies from the place of this machine's own packages."""
    apt = root / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True)
    (apt / "status").touch()
    targets = ["Created-By: Packages", "Origin: Debian", "Component: main"]
    urls = _run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", *targets).split("\n")
    plain = [line.split()[0] for line in urls if line and not line.split()[1].partition("-")[2]]
    if not plain:
        raise LookupError("apt has no index of Debian's packages; run apt-get update")
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (apt / "sources.list").write_text(f"deb [signed-by={keys}] {plain[0]} {suite} main\n", encoding="utf-8")
    settings = {
        "Dir::Etc::SourceList": apt / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State": apt / "state",
        "Dir::State::Status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
    }
    get = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in settings.items())]
    _run(*get, "update")
    wanted = ["base-files", "libstdc++6", python, f"lib{python}-dev"]
    _run(*get, "install", "--yes", "--download-only", "--no-install-recommends", *wanted)
    return sorted((apt / "cache/archives").glob("*.deb"))


def _run(*command: object) -> str:
    parts = [str(part) for part in command]
    return subprocess.run(parts, check=True, capture_output=True, text=True).stdout
