"""Checks fedplug on this machine's GPU, and times it next to its peers.

    make gpu-check
    make gpu-check PARTS="kernels torch"

The parts, which run one by one or together:

- ``kernels`` builds the CUDA kernels, checks their bits, times them beside PyTorch's and CUB's, and runs them
  under `compute-sanitizer`.
- ``torch`` runs the tests of fedplug-cuda and fedplug-torch on the device, and times encoding and adding up
  models beside the steps of PyTorch, nvCOMP and torchft.
- ``collectives`` times training steps of several ranks.
- ``tensorflow`` runs the tests of ops and runtimes with a visible GPU, and times the ops and `fedplug run`.

All need Linux and a GPU (compute capability 8.0 or newer). ``kernels`` also needs PyTorch with CUDA, a CUDA
toolkit and a C++17 compiler, but none of fedplug's packages. ``torch`` and ``collectives`` need PyTorch,
fedplug, fedplug-cuda with its library and fedplug-torch in the Python that runs this; ``tensorflow`` needs a
TensorFlow that sees the GPU, TFF, fedplug, and its op library with CUDA. If CMake is missing or too old, it
comes from PyPI. For each missing requirement one line names the remedy and the parts that need it. The other
parts run. The exit status is 1 unless every selected part ran and passed. Optional tools that are missing are
named in the results: `compute-sanitizer`, a CUB that has DeviceTopK, nvCOMP, torchft.

The whole check takes at most LIMIT seconds: a step that would take longer is stopped and fails. The
sanitizers come last; if time runs out, the results say that they did not run. A part writes its results only
if everything in it was right.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "gpu-check"
RESULTS = ROOT / "benchmarks" / "results" / "cuda.md"
PLUGIN = ROOT / "plugins" / "fedplug-cuda"
TORCH_RESULTS = PLUGIN / "benchmarks" / "results" / "select_and_encode.md"
TORCH_PLUGIN = ROOT / "plugins" / "fedplug-torch"
COLLECTIVES_RESULTS = TORCH_PLUGIN / "benchmarks" / "results" / "gpu_steps.md"
TENSORFLOW_RESULTS = ROOT / "benchmarks" / "results" / "tensorflow_gpu.md"
LIMIT = 480  # seconds
OLDEST_CMAKE = (3, 26)
OLDEST_CUDA = (12, 1)  # needed for 32 KB of kernel arguments
OLDEST_GPU = (8, 0)
# Under a GPU sanitizer a test takes up to a hundred times as long: every kernel runs, but not every size.
SANITIZED_TESTS = (
    "HasADevice",
    "TopKTakesALongListOfTensors",
    "TopKRefusesATensor",
    "BandedTopKTakes",
    "GroupedTopKRefuses",
    "DecodeEqualsTheCore",
    "FixedPayloads",
)
_PACKAGES = "import fedplug, fedplug_torch, fedplug_cuda; print(fedplug_cuda.problem() or 'usable')"
BEGIN, END = "<!-- gpu-check begins -->", "<!-- gpu-check ends -->"
_TENSORFLOW = """
import tensorflow as tf, tensorflow_federated, json, pathlib, fedplug.ops
from fedplug.ops._tensorflow import loader
record = loader.find_library(fedplug.ops.__path__).with_name("build_info.json")
print(tf.__version__, bool(tf.config.list_physical_devices("GPU")), json.loads(record.read_text())["cuda"])
"""
_TORCH = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"


class CheckFailedError(Exception):
    """A failed check, described in lines for the user."""


class TimeIsUpError(CheckFailedError):
    """A step would have exceeded LIMIT."""


@dataclass
class Machine:
    """The tools of this machine, and a line for each missing requirement."""

    gpu: str = ""
    driver: str = ""
    capability: tuple[int, int] = (0, 0)
    nvcc: str = ""
    cuda: str = ""
    cmake: list[str] = field(default_factory=list)
    torch: str = ""
    sanitizer: str | None = None
    tensorflow: str = ""
    missing: list[str] = field(default_factory=list)


class Clock:
    """The time left until LIMIT."""

    def __init__(self, limit: float = LIMIT) -> None:
        self._end = time.monotonic() + limit
        self._limit = limit

    def left(self) -> float:
        """The seconds left, at least 1."""
        return max(1.0, self._end - time.monotonic())

    def run(self, what: str, command: Sequence[str]) -> str:
        """Runs a command and returns its output; a failure raises the end of the output."""
        print(f"gpu-check: {what} ({self.left():.0f} s left)", flush=True)
        try:
            # A new session, so that processes started by the command end with it.
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                text=True,
                errors="replace",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise CheckFailedError(f"{what}: {error}") from None
        with process:
            try:
                printed, _ = process.communicate(timeout=self.left())
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                printed, _ = process.communicate()
                raise TimeIsUpError(
                    f"{what}: not done within {self._limit:.0f} s\n{_tail(printed)}"
                ) from None
        if process.returncode != 0:
            raise CheckFailedError(f"{what}: exit status {process.returncode}\n{_tail(printed)}")
        return printed


def _tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])


def _ask(*command: str) -> str | None:
    """The output of a command, or None if it is missing or fails."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(text: str | None, pattern: str) -> tuple[int, int] | None:
    found = re.search(pattern, text or "")
    return (int(found[1]), int(found[2])) if found else None


def _find_gpu(machine: Machine) -> None:
    fields = "name,driver_version,compute_cap"
    printed = _ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader")
    first = [part.strip() for part in (printed or "").partition("\n")[0].split(",")]
    if len(first) != 3 or (capability := _version(first[2], r"^(\d+)\.(\d+)$")) is None:
        machine.missing.append(
            "no GPU: nvidia-smi names none; use a machine with an NVIDIA GPU and its driver"
        )
        return
    machine.gpu, machine.driver, machine.capability = first[0], first[1], capability
    if capability < OLDEST_GPU:
        machine.missing.append(
            f"the GPU ({machine.gpu}) has compute capability {first[2]}; 8.0 or newer is needed"
        )


def _find_toolkit(machine: Machine) -> None:
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    version = _version(_ask(nvcc, "--version"), r"release (\d+)\.(\d+)")
    if version is None:
        machine.missing.append("no nvcc: install a CUDA toolkit, or set CUDACXX to its nvcc")
    elif version < OLDEST_CUDA:
        machine.missing.append(
            f"nvcc {version[0]}.{version[1]} is too old: install a CUDA toolkit from 12.1 on"
        )
    else:
        machine.nvcc, machine.cuda = nvcc, f"{version[0]}.{version[1]}"
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        machine.missing.append(f"no C++ compiler ({compiler}): install g++, or set CXX")
    machine.sanitizer = shutil.which(
        "compute-sanitizer", path=os.pathsep.join((os.environ["PATH"], str(Path(nvcc).parent)))
    )


def _cmakes() -> Iterator[list[str]]:
    yield ["cmake"]
    yield [sys.executable, "-m", "cmake"]
    yield [str(BUILD / "venv" / "bin" / "cmake")]


def _find_cmake(machine: Machine) -> None:
    for command in _cmakes():
        version = _version(_ask(*command, "--version"), r"cmake version (\d+)\.(\d+)")
        if version is not None and version >= OLDEST_CMAKE:
            machine.cmake = command
            return
    venv = BUILD / "venv"
    if _ask(sys.executable, "-m", "venv", str(venv)) is not None:
        _ask(str(venv / "bin" / "pip"), "install", "--quiet", "cmake")
    cmake = str(venv / "bin" / "cmake")
    if _ask(cmake, "--version") is None:
        machine.missing.append("no CMake 3.26, and PyPI gives none: python3 -m pip install 'cmake>=3.26'")
    machine.cmake = [cmake]


def _find_torch(machine: Machine) -> None:
    printed = _ask(sys.executable, "-c", _TORCH)
    if printed is None:
        machine.missing.append(f"no PyTorch in {sys.executable}: {sys.executable} -m pip install torch")
    elif not printed.endswith("True"):
        machine.missing.append(
            f"PyTorch {printed.split()[0]} sees no CUDA device: install one with CUDA, for this driver"
        )
    else:
        machine.torch = printed.split()[0]


def _find_packages(machine: Machine) -> None:
    printed = _ask(sys.executable, "-c", _PACKAGES)
    if printed != "usable":
        machine.missing.append(
            f"fedplug-cuda and fedplug-torch cannot be used ({printed or 'not installed'}): {sys.executable} "
            "-m pip install . ./plugins/fedplug-cuda ./plugins/fedplug-torch"
        )


def _find_tensorflow(machine: Machine) -> None:
    printed = (_ask(sys.executable, "-c", _TENSORFLOW) or "").rpartition("\n")[2].split()
    if len(printed) != 3:
        machine.missing.append(
            f"no TensorFlow with TFF, fedplug and its op library in {sys.executable}: run "
            "`make setup`, then `PARTS=tensorflow .venv/bin/python benchmarks/gpu_check.py`"
        )
        return
    machine.tensorflow, sees, built = printed
    if sees != "True":
        machine.missing.append(
            f"TensorFlow {machine.tensorflow} sees no GPU: install its CUDA libraries (cuDNN, cuBLAS ...)"
        )
    if built != "ON":
        machine.missing.append("the op library has no CUDA kernels: run `make setup` on a machine with nvcc")


def find_machine(parts: Sequence[Part]) -> tuple[Machine, dict[str, list[str]]]:
    """Looks for all requirements; returns the lines about missing ones, each with the parts that need it."""
    machine = Machine()
    needed_by: dict[str, list[str]] = {}
    for find in dict.fromkeys(find for part in parts for find in part.finds):
        find(machine)
        for line in machine.missing:
            needed_by[line] = [part.name for part in parts if find in part.finds]
        machine.missing.clear()
    return machine, needed_by


def find_cub() -> str:
    """The folder of a newer CUB from PyPI, for its DeviceTopK; "" selects the toolkit's."""
    target = BUILD / "cccl"
    folder = target / "nvidia" / "cu13" / "include" / "cccl"
    wanted = folder / "cub" / "device" / "device_topk.cuh"
    if not wanted.exists():
        _ask(
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(target),
            "nvidia-cuda-cccl>=13.1",
        )
    return str(folder) if wanted.exists() else ""


def build(machine: Machine, clock: Clock) -> Path:
    """Builds the check and the timing program for this GPU; returns their folder."""
    cub = find_cub() if machine.cuda.startswith("13") else ""
    configure = [
        *machine.cmake,
        *("-S", str(ROOT), "-B", str(BUILD)),
        *("-D", "FEDPLUG_WITH_CUDA=ON", "-D", "FEDPLUG_WITH_TF=OFF", "-D", "FEDPLUG_BUILD_PYTHON=OFF"),
        *("-D", f"CMAKE_CUDA_COMPILER={machine.nvcc}", "-D", f"FEDPLUG_CCCL={cub}"),
        *("-D", "CMAKE_CUDA_ARCHITECTURES={}{}".format(*machine.capability)),
    ]
    clock.run("configure", configure)
    jobs = str(os.cpu_count() or 1)
    clock.run(
        "build",
        [*machine.cmake, "--build", str(BUILD), "-j", jobs, "--target", "cuda_check", "cuda_check_times"],
    )
    return BUILD / "csrc" / "tests"


def check_bits(programs: Path, clock: Clock) -> list[str]:
    """Runs all cases; returns lines for the results."""
    summary = clock.run("check bits", [str(programs / "cuda_check")]).rstrip().splitlines()[-1]
    return [f"All cases of `cuda_check` have the bits of the reference and of the core ({summary})."]


def sanitize(machine: Machine, programs: Path, clock: Clock) -> list[str]:
    """Looks for races and invalid addresses in the time left; returns a line for each tool."""
    if machine.sanitizer is None:
        return ["`compute-sanitizer` was not there: races and addresses were not looked at."]
    lines = []
    for tool in ("racecheck", "memcheck"):
        name = f"`compute-sanitizer --tool {tool}`"
        command = [machine.sanitizer, "--tool", tool, "--error-exitcode", "9", str(programs / "cuda_check")]
        try:
            clock.run(tool, [*command, *SANITIZED_TESTS])
            lines.append(f"{name} reports nothing (a part of the cases, every kernel).")
        except TimeIsUpError:
            lines.append(f"{name} was not done in time.")
    return lines


def measure(programs: Path, clock: Clock) -> list[str]:
    """Times our kernels and PyTorch's; returns the tables."""
    ours = clock.run("time the kernels", [str(programs / "cuda_check_times")])
    torch = clock.run("time PyTorch", [sys.executable, str(ROOT / "benchmarks" / "cuda_torch.py")])
    tables = "\n".join(line for line in ours.splitlines() if not line.startswith(("[", "device ")))
    return ["```", tables.strip(), "```", "", torch.strip()]


def render(machine: Machine, found: Sequence[str], tables: Sequence[str], now: datetime) -> str:
    """Formats the section of the results that a run writes."""
    capability = "{}.{}".format(*machine.capability)
    versions = ("CUDA", machine.cuda), ("PyTorch", machine.torch), ("TensorFlow", machine.tensorflow)
    software = [f"{name} {version}" for name, version in versions if version]
    head = (
        f"**Run on {now:%Y-%m-%d}**: {machine.gpu} (compute capability {capability}), "
        f"driver {machine.driver}, {', '.join(software)}.\nTimes are medians."
    )
    return "\n".join([BEGIN, head, "", *(f"- {line}" for line in found), "", *tables, END])


def replace_section(text: str, section: str) -> str:
    """Replaces the text between the marks in `text`.

    Raises:
        ValueError: A mark is missing or occurs twice.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"expected {BEGIN} and {END} once each")
    before, _, rest = text.partition(BEGIN)
    return before + section + rest.partition(END)[2]


def check_kernels(machine: Machine, clock: Clock) -> tuple[Path, str]:
    """Runs the part ``kernels``; returns its page of results and the section for it."""
    programs = build(machine, clock)
    found = check_bits(programs, clock)
    tables = measure(programs, clock)
    found += sanitize(machine, programs, clock)
    return RESULTS, render(machine, found, tables, datetime.now(timezone.utc))


def check_torch(machine: Machine, clock: Clock) -> tuple[Path, str]:
    """Runs the part ``torch``, as `check_kernels` does."""
    found = run_tests(clock, "plugins/fedplug-cuda/tests", "plugins/fedplug-torch/tests/test_devices.py")
    tables = run_scripts(clock, PLUGIN / "benchmarks", "select_and_encode.py", "peers.py")
    return TORCH_RESULTS, render(machine, found, tables, datetime.now(timezone.utc))


def check_collectives(machine: Machine, clock: Clock) -> tuple[Path, str]:
    """Runs the part ``collectives``, as `check_kernels` does."""
    tables = run_scripts(clock, PLUGIN / "benchmarks", "ddp_step.py")
    return COLLECTIVES_RESULTS, render(machine, [], tables, datetime.now(timezone.utc))


def check_tensorflow(machine: Machine, clock: Clock) -> tuple[Path, str]:
    """Runs the part ``tensorflow``, as `check_kernels` does."""
    runtime = "tests/tff/runtime"
    of_ops = ("test_gpu.py", "test_buffers.py", "test_loader.py")
    found = run_tests(
        clock,
        *(f"tests/ops/{name}" for name in of_ops),
        *(f"{runtime}/{name}" for name in ("test_devices.py", "test_computations.py")),
    )
    tables = run_scripts(clock, ROOT / "benchmarks", "tensorflow_gpu.py")
    return TENSORFLOW_RESULTS, render(machine, found, tables, datetime.now(timezone.utc))


def run_tests(clock: Clock, *paths: str) -> list[str]:
    """Runs test files or folders; returns a line for each."""
    found = []
    for path in paths:
        # The packages' tests need nothing of the project's settings, and none of its test tools.
        own = ["-c", os.devnull, "--rootdir", str(ROOT)] if path.startswith("plugins/") else []
        command = [sys.executable, "-m", "pytest", "-q", *own, path]
        passed = clock.run(f"run {path}", command).rstrip().splitlines()[-1]
        found.append(f"`{path}`: {passed.strip('= ')}.")
    return found


def run_scripts(clock: Clock, folder: Path, *names: str) -> list[str]:
    """Runs scripts that print rows of one table; returns what they print."""
    rows = [clock.run(f"run {name}", [sys.executable, str(folder / name)]).strip() for name in names]
    return ["\n".join(rows)]


@dataclass(frozen=True)
class Part:
    """A part of the check: what it looks for, and what it runs."""

    name: str
    finds: tuple[Callable[[Machine], None], ...]
    check: Callable[[Machine, Clock], tuple[Path, str]]


# The kernels are last, because their sanitizers use the time that is left.
PARTS = (
    Part("torch", (_find_gpu, _find_torch, _find_packages), check_torch),
    Part("collectives", (_find_gpu, _find_torch, _find_packages), check_collectives),
    Part("tensorflow", (_find_gpu, _find_tensorflow), check_tensorflow),
    Part("kernels", (_find_gpu, _find_torch, _find_toolkit, _find_cmake), check_kernels),
)


def main() -> int:
    """Returns 0 if every selected part passed and wrote its results, otherwise 1 after each failure."""
    clock = Clock()
    known = [part.name for part in PARTS]
    names = os.environ.get("PARTS", "").split() or known
    unknown = set(names) - set(known)
    if unknown:
        print(f"gpu-check: no part {min(unknown)!r}; known: {' '.join(known)}", file=sys.stderr)
        return 1
    parts = [part for part in PARTS if part.name in names]
    machine, missing = find_machine(parts)
    for line, needed_by in missing.items():
        print(f"gpu-check: {line} (for {', '.join(needed_by)})", file=sys.stderr)
    lacking = {name for needed_by in missing.values() for name in needed_by}
    failed = bool(lacking)
    for part in parts:
        if part.name not in lacking:
            failed = not _run_part(part, machine, clock) or failed
    if len(lacking) == len(parts):
        print("gpu-check: nothing was run, and no results were written", file=sys.stderr)
    return int(failed)


def _run_part(part: Part, machine: Machine, clock: Clock) -> bool:
    """Runs a part and writes its results, or says what failed."""
    try:
        page, section = part.check(machine, clock)
    except CheckFailedError as error:
        print(f"gpu-check: {part.name} failed at: {error}", file=sys.stderr)
        return False
    page.write_text(replace_section(page.read_text(), section))
    print(f"gpu-check: {part.name} passed; results written to {page.relative_to(ROOT)}")
    return True


if __name__ == "__main__":
    sys.exit(main())
