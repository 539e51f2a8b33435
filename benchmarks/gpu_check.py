"""Checks fedplug on this machine's GPU, and times it next to its peers.

    make gpu-check
    make gpu-check PARTS=kernels

The part ``kernels`` builds the CUDA kernels, checks their bits and times them. The part ``torch`` runs the
tests of fedplug-cuda and fedplug-torch on the device and times `fedplug_torch.Codec` and the DDP hook.

Both need Linux, a GPU (compute capability 8.0 or newer), and PyTorch with CUDA in the Python that runs this.
``kernels`` also needs a CUDA toolkit and a C++17 compiler, but none of fedplug's Python packages and no
TensorFlow. ``torch`` needs fedplug, fedplug-cuda with its library and fedplug-torch in that Python. If CMake
is missing or too old, it comes from PyPI. For each missing requirement one line names the remedy, and the
exit status is 1. Optional tools that are missing are named in the results: `compute-sanitizer`, and a CUB
that has DeviceTopK.

The whole check takes at most LIMIT seconds: a step that would take longer is stopped and fails. The
sanitizers come last; if time runs out, the results say that they did not run. Only if every bit was right are
results written, to `benchmarks/results/cuda.md` and to the page of fedplug-cuda.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "gpu-check"
RESULTS = ROOT / "benchmarks" / "results" / "cuda.md"
PLUGIN = ROOT / "plugins" / "fedplug-cuda"
TORCH_RESULTS = PLUGIN / "benchmarks" / "results" / "select_and_encode.md"
PARTS = ("kernels", "torch")
LIMIT = 480  # seconds
OLDEST_CMAKE = (3, 26)
OLDEST_CUDA = (11, 8)  # needed for cudaLaunchKernelEx
OLDEST_GPU = (8, 0)
# Under a GPU sanitizer a test takes up to a hundred times as long: every kernel runs, but not every size.
SANITIZED_TESTS = (
    "HasADevice",
    "TopKTakesALongListOfTensors",
    "TopKRefusesATensor",
    "BandedTopKTakes",
    "GroupedTopKRefuses",
    "DecodeEqualsTheCore",
)
_PACKAGES = "import fedplug, fedplug_torch, fedplug_cuda; print(fedplug_cuda.problem() or 'usable')"
BEGIN, END = "<!-- gpu-check begins -->", "<!-- gpu-check ends -->"
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
            f"nvcc {version[0]}.{version[1]} is too old: install a CUDA toolkit from 11.8 on"
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
            "-m pip install . ./plugins/fedplug-cuda ./plugins/fedplug-torch, or choose PARTS=kernels"
        )


def find_machine(parts: Sequence[str]) -> Machine:
    """Looks for all requirements of the parts, so that all missing ones are reported at once."""
    machine = Machine()
    finds = [_find_gpu, _find_torch]
    if "kernels" in parts:
        finds += [_find_toolkit, _find_cmake]
    if "torch" in parts:
        finds.append(_find_packages)
    for find in finds:
        find(machine)
    return machine


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
    head = (
        f"**Run on {now:%Y-%m-%d}**: {machine.gpu} (compute capability {capability}), "
        f"driver {machine.driver}, CUDA {machine.cuda or 'toolkit not used'},\nPyTorch {machine.torch}. "
        "Times are medians."
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
    found = []
    for tests in ("plugins/fedplug-cuda/tests", "plugins/fedplug-torch/tests/test_devices.py"):
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(ROOT), tests]
        passed = clock.run(f"run {tests}", command).rstrip().splitlines()[-1]
        found.append(f"`{tests}`: {passed.strip('= ')}.")
    rows = [
        clock.run(f"run {script}", [sys.executable, str(PLUGIN / "benchmarks" / script)]).strip()
        for script in ("select_and_encode.py", "ddp_step.py")
    ]
    return TORCH_RESULTS, render(machine, found, ["\n".join(rows)], datetime.now(timezone.utc))


def main() -> int:
    """Returns 0 if every check passed and the results are written, otherwise 1 after the failure."""
    clock = Clock()
    parts = os.environ.get("PARTS", "").split() or list(PARTS)
    unknown = set(parts) - set(PARTS)
    if unknown:
        print(f"gpu-check: no part {min(unknown)!r}; known: {' '.join(PARTS)}", file=sys.stderr)
        return 1
    machine = find_machine(parts)
    if machine.missing:
        for line in machine.missing:
            print(f"gpu-check: {line}", file=sys.stderr)
        print("gpu-check: nothing was run, and no results were written", file=sys.stderr)
        return 1
    checks = {"kernels": check_kernels, "torch": check_torch}
    written = []
    try:
        for part in sorted(parts, reverse=True):  # kernels last, because their sanitizers use the time left
            written.append(checks[part](machine, clock))
    except CheckFailedError as error:
        print(f"gpu-check failed at: {error}", file=sys.stderr)
        print(f"gpu-check: {machine.gpu}, driver {machine.driver}; no results were written", file=sys.stderr)
        return 1
    for page, section in written:
        page.write_text(replace_section(page.read_text(), section))
        print(section)
        print(f"gpu-check: written to {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
