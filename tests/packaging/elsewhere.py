"""Compiles the module for systems that this machine cannot run, and reads it back: macOS, Windows and musl.

Usage: elsewhere.py UV compiles it for macOS and Windows, with this Python and little optimization, if its
sources have changed since that last passed on this machine. `wheels` makes wheels for all systems.

Zig has the C libraries of all systems, and Python's headers differ in pyconfig.h alone. The published
wheels are built and tested on machines of each kind: .github/workflows/wheels.yml.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "elsewhere"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fedplug"
SOURCES = ("csrc/core", "csrc/python", "cmake", "CMakeLists.txt", "tests/packaging/elsewhere.py")


class System(NamedTuple):
    """A system by its names in Zig and in the names of modules, and the libraries that it always has."""

    zig: str
    extension: str
    libraries: frozenset[str]


_MACOS = frozenset({"/usr/lib/libSystem.B.dylib"})
_MUSL = frozenset({"libc.so"})
SYSTEMS = {
    "macosx_11_0_arm64": System("aarch64-macos.11.0", ".cpython-{}-darwin.so", _MACOS),
    "macosx_11_0_x86_64": System("x86_64-macos.11.0", ".cpython-{}-darwin.so", _MACOS),
    "win_amd64": System(
        "x86_64-windows-gnu", ".cp{}-win_amd64.pyd", frozenset({"KERNEL32.dll", "ntdll.dll"})
    ),
    "musllinux_1_2_x86_64": System("x86_64-linux-musl", ".cpython-{}-x86_64-linux-musl.so", _MUSL),
    "musllinux_1_2_aarch64": System("aarch64-linux-musl", ".cpython-{}-aarch64-linux-musl.so", _MUSL),
}
PYCONFIG = """
#define MS_WIN32
#define MS_WIN64
#define MS_WINDOWS
#define NT_THREADS
#define HAVE_DECLSPEC_DLL
#define Py_ENABLE_SHARED 1
#define HAVE_LONG_LONG 1
#define HAVE_STDDEF_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_WCHAR_H 1
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_WCHAR_T 2
#define HAVE_PY_SSIZE_T 1
#define PY_SSIZE_T_MAX LLONG_MAX
typedef long long Py_ssize_t;
"""
"""The lines of Windows' pyconfig.h that headers of Python read."""


def install_zig(uv: str) -> Path:
    """Returns the folder of an environment with ziglang and LIEF.

    All checkouts share it, as Zig compiles the C++ library of a system once for each place where it is.
    """
    zig = CACHE / "zig"
    subprocess.run([uv, "venv", "--quiet", "--allow-existing", zig], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", zig, "ziglang", "lief"], check=True)
    return zig


def compile_module(system: str, python: Path, zig: Path, *options: str, core: str = "") -> Path:
    """Compiles the module of a Python for a system, and checks it.

    Args:
        system: The platform tag of the wheel.
        python: The interpreter, with pybind11, CMake and Ninja beside it.
        zig: The folder of the environment of ziglang and LIEF.
        options: Further options of CMake.
        core: The folder of the kernels of an earlier build for this system; empty to compile them.
    """
    ask = "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_path('include'))"
    *version, include = _run(python, "-c", ask).split()
    name, folder = "".join(version), WORK / f"{system}-{''.join(version)}"
    shutil.rmtree(folder, ignore_errors=True)
    headers = Path(shutil.copytree(include, folder / "include"))
    definitions = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "cmake/zig.cmake",
        "CMAKE_MAKE_PROGRAM": python.with_name("ninja"),
        "FEDPLUG_WITH_TF": "OFF",
        "FEDPLUG_WITH_CUDA": "OFF",
        "FEDPLUG_BUILD_TESTS": "OFF",
        "FEDPLUG_COMPILED_CORE": core,
        "PYTHON_MODULE_EXTENSION": SYSTEMS[system].extension.format(name),
        "Python_EXECUTABLE": python,
        "Python_INCLUDE_DIR": headers,
    }
    if system.startswith("win"):
        (headers / "pyconfig.h").write_text(PYCONFIG)
        definitions["Python_LIBRARY"] = library = _import_library(headers, zig, f"python{name}")
        # Without one, CMake takes the library for a static Python, and adds what that needs on this machine.
        definitions["Python_RUNTIME_LIBRARY_RELEASE"] = library.with_suffix(".dll")
    settings = {"FEDPLUG_ZIG": str(zig / "bin/python-zig"), "FEDPLUG_TARGET": SYSTEMS[system].zig}
    environment = {**os.environ, **settings, "CMAKE_CXX_COMPILER_LAUNCHER": ""}
    cmake = [python.with_name("cmake"), "-B", folder, "-G", "Ninja", *options]
    cmake += [f"-D{key}={value}" for key, value in definitions.items()]
    subprocess.run([*cmake, "--log-level=WARNING"], cwd=ROOT, env=environment, check=True)
    subprocess.run([cmake[0], "--build", folder, "--", "--quiet"], env=environment, check=True)
    (module,) = (folder / "csrc/python").glob(f"_kernels{definitions['PYTHON_MODULE_EXTENSION']}")
    _run(zig / "bin/python", __file__, "read", system, name, module)
    return module


def _import_library(headers: Path, zig: Path, dll: str) -> Path:
    """Makes the import library of a Python from the names that its headers declare."""
    text = "".join(path.read_text() for path in headers.rglob("*.h"))
    names = sorted(set(re.findall(r"PyAPI_(?:FUNC|DATA)\([^()]*\)\s*(\w+)", text)))
    definition, library = headers / f"{dll}.def", headers / f"{dll}.lib"
    definition.write_text("\n".join([f"LIBRARY {dll}.dll", "EXPORTS", *names, ""]))
    dlltool = ["dlltool", "-m", "i386:x86-64", "-D", f"{dll}.dll", "-d", definition, "-l", library]
    _run(zig / "bin/python-zig", *dlltool)
    library.with_suffix(".dll").touch()
    return library


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode()


def _read(system: str, version: str, module: str) -> None:
    """Checks processor, oldest system, needed libraries and exported function of a module."""
    import lief

    if system.startswith("macosx"):
        binaries = lief.MachO.parse(module)  # its parts end with it
        binary = binaries.at(0)
        assert list(binary.build_version.minos) == [11, 0, 0], binary.build_version.minos
        own = Path(module).name
        libraries = {library.name for library in binary.libraries if not library.name.endswith(own)}
        machine = {"arm64": "ARM64", "x86_64": "X86_64"}[system.split("_", 3)[3]]
        assert str(binary.header.cpu_type).endswith(machine), binary.header.cpu_type
        assert binary.has_code_signature or machine == "X86_64", "macOS loads no unsigned code on arm64"
    elif system.startswith("win"):
        binary = lief.PE.parse(module)
        libraries = {library.name for library in binary.imports} - {f"python{version}.dll"}
        libraries = {name for name in libraries if not name.startswith("api-ms-win-crt-")}
        assert str(binary.header.machine).endswith("AMD64"), binary.header.machine
    else:
        binary = lief.ELF.parse(module)
        libraries = set(binary.libraries)
        assert not binary.symbols_version_requirement, "musl has no versions of symbols"
    assert libraries <= SYSTEMS[system].libraries, libraries
    exported = {_text(function.name).lstrip("_") for function in binary.exported_functions}
    assert "PyInit__kernels" in exported, exported


def _run(*command: object) -> str:
    parts = [str(part) for part in command]
    return subprocess.run(parts, check=True, stdout=subprocess.PIPE, text=True).stdout


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for source in SOURCES:
        path = ROOT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()


def main(uv: str) -> int:
    """Compiles the module, unless these sources passed on this machine before."""
    passed = CACHE / "compiled-elsewhere"
    if passed.is_file() and passed.read_text() == _fingerprint():
        print("compile-elsewhere: these sources passed before")
        return 0
    zig = install_zig(uv)
    for system in ("macosx_11_0_arm64", "win_amd64"):
        module = compile_module(system, Path(sys.executable), zig, "-DCMAKE_CXX_FLAGS_RELEASE=-O1")
        print(f"compiled, linked and read back: {module.name} for {system}", flush=True)
    passed.write_text(_fingerprint())
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "read":
        _read(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1]))
