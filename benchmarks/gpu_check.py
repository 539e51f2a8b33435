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
TensorFlow that sees the GPU, TFF, fedplug, and its op library with CUDA. A part that lacks something or fails
says so, and the other parts run. The exit status is 1 unless every selected part passed. Optional tools that
are missing are named in the results: `compute-sanitizer`, a CUB that has DeviceTopK, nvCOMP, torchft.

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
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "gpu-check"
LIMIT = 480  # seconds
OLDEST_CUDA = (12, 1)  # needed for 32 KB of kernel arguments
OLDEST_GPU = (8, 0)
# Under a GPU sanitizer a test takes up to a hundred times as long: every kernel runs, but not every size.
SANITIZED_TESTS = (
    "HasADevice",
    "CudaTopK.RefusesATensor",
    "CudaLists.WithAKForEachTensor",
    "CudaLists.WithOneKAreRefused",
    "CudaBands",
    "CudaSums.OfManyPayloads",
    "CudaOthers",
)
BEGIN, END = "<!-- gpu-check begins -->", "<!-- gpu-check ends -->"
# Programs that print a version if this Python has what a part needs, and the remedy if it has not.
TORCH = (
    "import torch; assert torch.cuda.is_available(), 'it sees no GPU'; print('PyTorch', torch.__version__)",
    f"a PyTorch with CUDA for this driver is needed: {sys.executable} -m pip install torch",
)
PACKAGES = (
    "import fedplug, fedplug_torch, fedplug_cuda; assert not fedplug_cuda.problem(), fedplug_cuda.problem()",
    f"{sys.executable} -m pip install . ./plugins/fedplug-cuda ./plugins/fedplug-torch",
)
TENSORFLOW = (
    """
import tensorflow as tf, tensorflow_federated, json, fedplug.ops
from fedplug.ops._tensorflow import loader
record = loader.find_library(fedplug.ops.__path__).with_name("build_info.json")
assert json.loads(record.read_text())["cuda"] == "ON", "the op library has no CUDA kernels"
assert tf.config.list_physical_devices("GPU"), "TensorFlow sees no GPU: it needs cuDNN, cuBLAS ..."
print("TensorFlow", tf.__version__)
""",
    "run `make setup` with nvcc here, then `PARTS=tensorflow .venv/bin/python benchmarks/gpu_check.py`",
)


class CheckFailedError(Exception):
    """A failed check, described in lines for the user."""


class TimeIsUpError(CheckFailedError):
    """A step would have exceeded LIMIT."""


class Clock:
    """The time left until LIMIT."""

    def __init__(self, limit: float = LIMIT) -> None:
        self._end = time.monotonic() + limit
        self._limit = limit

    def run(self, what: str, command: Sequence[str | Path]) -> str:
        """Runs a command and returns its output; a failure raises the end of the output."""
        left = max(1.0, self._end - time.monotonic())
        print(f"gpu-check: {what} ({left:.0f} s left)", flush=True)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        try:
            # A new session, so that processes started by the command end with it.
            process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes)
        except OSError as error:
            raise CheckFailedError(f"{what}: {error}") from None
        with process:
            try:
                printed, _ = process.communicate(timeout=left)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                printed = _tail(process.communicate()[0])
                raise TimeIsUpError(f"{what}: not done within {self._limit:.0f} s\n{printed}") from None
        if process.returncode != 0:
            raise CheckFailedError(f"{what}: exit status {process.returncode}\n{_tail(printed)}")
        return printed.strip()


def _tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2].strip("= ")


class Needed(NamedTuple):
    """A GPU and its compute capability, and the versions of what a part uses, in words."""

    capability: tuple[int, int]
    versions: list[str]


def find(clock: Clock, *programs: tuple[str, str]) -> Needed:
    """Looks for the GPU, and for what each program asks for."""
    fields = "--query-gpu=name,driver_version,compute_cap"
    line = clock.run("look for a GPU", ["nvidia-smi", fields, "--format=csv,noheader"]).partition("\n")[0]
    name, driver, capability = line.split(", ")
    major, minor = map(int, capability.split("."))
    if (major, minor) < OLDEST_GPU:
        raise CheckFailedError(f"{name} has compute capability {capability}; 8.0 or newer is needed")
    versions = [f"{name} (compute capability {capability})", f"driver {driver}"]
    for program, remedy in programs:
        try:
            versions.append(_last_line(clock.run("look for packages", [sys.executable, "-c", program])))
        except CheckFailedError as error:
            raise CheckFailedError(f"{error}\n{remedy}") from None
    return Needed((major, minor), [version for version in versions if version])


def check_kernels(clock: Clock) -> tuple[Needed, list[str], list[str]]:
    """Runs the part ``kernels``; returns what it needed, its findings and its tables."""
    needed = find(clock, TORCH)
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    version = re.search(r"release (\d+)\.(\d+)", clock.run("look for nvcc", [nvcc, "--version"]))
    if version is None or (int(version[1]), int(version[2])) < OLDEST_CUDA:
        raise CheckFailedError(f"{nvcc} is too old: install a CUDA toolkit from 12.1 on, or set CUDACXX")
    needed.versions.append(f"CUDA {version[1]}.{version[2]}")
    programs = build(needed, nvcc, "13" if version[1] == "13" else "", clock)
    bits = _last_line(clock.run("check bits", [programs / "cuda_check"]))
    found = [f"All cases of `cuda_check` have the bits of the reference and of the core ({bits})."]
    ours = clock.run("time the kernels", [programs / "cuda_check_times"])
    torch = clock.run("time PyTorch", [sys.executable, ROOT / "benchmarks" / "cuda_torch.py"])
    rows = "\n".join(line for line in ours.splitlines() if not line.startswith(("[", "device ")))
    folders = os.pathsep.join((os.environ["PATH"], str(Path(nvcc).parent)))
    found += sanitize(shutil.which("compute-sanitizer", path=folders), programs, clock)
    return needed, found, ["```", rows.strip(), "```", "", torch]


def build(needed: Needed, nvcc: str, newer_cub: str, clock: Clock) -> Path:
    """Builds the check and the timing program for this GPU; returns their folder."""
    cmake = shutil.which("cmake") or str(BUILD / "venv" / "bin" / "cmake")
    if not Path(cmake).exists():
        clock.run("make an environment", [sys.executable, "-m", "venv", BUILD / "venv"])
        clock.run("install CMake", [BUILD / "venv/bin/pip", "install", "--quiet", "cmake>=3.26"])
    options = {
        "FEDPLUG_WITH_CUDA": "ON",
        "FEDPLUG_WITH_TF": "OFF",
        "FEDPLUG_BUILD_PYTHON": "OFF",
        "CMAKE_CUDA_COMPILER": nvcc,
        "CMAKE_CUDA_ARCHITECTURES": "{}{}".format(*needed.capability),
        "FEDPLUG_CCCL": find_cub(clock) if newer_cub else "",
    }
    settings = [f"-D{name}={value}" for name, value in options.items()]
    clock.run("configure", [cmake, "-S", ROOT, "-B", BUILD, *settings])
    jobs, targets = str(os.cpu_count() or 1), ("cuda_check", "cuda_check_times")
    clock.run("build", [cmake, "--build", BUILD, "-j", jobs, "--target", *targets])
    return BUILD / "csrc" / "tests"


def find_cub(clock: Clock) -> str:
    """The folder of a newer CUB from PyPI, for its DeviceTopK; "" selects the toolkit's."""
    folder = BUILD / "cccl/nvidia/cu13/include/cccl"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", BUILD / "cccl"]
    try:
        if not folder.exists():
            clock.run("install CUB", [*install, "nvidia-cuda-cccl>=13.1"])
    except CheckFailedError:
        return ""
    return str(folder) if (folder / "cub/device/device_topk.cuh").exists() else ""


def sanitize(sanitizer: str | None, programs: Path, clock: Clock) -> list[str]:
    """Looks for races and invalid addresses in the time left; returns a line for each tool."""
    if sanitizer is None:
        return ["`compute-sanitizer` was not there: races and addresses were not looked at."]
    lines = []
    for tool in ("racecheck", "memcheck"):
        name = f"`compute-sanitizer --tool {tool}`"
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", programs / "cuda_check"]
        try:
            clock.run(tool, [*command, *SANITIZED_TESTS])
            lines.append(f"{name} reports nothing (a part of the cases, every kernel).")
        except TimeIsUpError:
            lines.append(f"{name} was not done in time.")
    return lines


class Scripts(NamedTuple):
    """A part that runs tests and scripts: what it looks for, the paths of its tests, and its scripts."""

    programs: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]
    scripts: tuple[str, ...]

    def __call__(self, clock: Clock) -> tuple[Needed, list[str], list[str]]:
        """Returns what it needed, a line for each path of tests, and the rows that the scripts print."""
        needed, found = find(clock, *self.programs), []
        for path in self.tests:
            # The packages' tests need nothing of the project's settings, and none of its test tools.
            own = ["-c", os.devnull, "--rootdir", ROOT] if path.startswith("plugins/") else []
            passed = clock.run(f"run {path}", [sys.executable, "-m", "pytest", "-q", *own, path])
            found.append(f"`{path}`: {_last_line(passed)}.")
        return (
            needed,
            found,
            [clock.run(f"run {name}", [sys.executable, ROOT / name]) for name in self.scripts],
        )


CUDA_PACKAGE, TORCH_PACKAGE = "plugins/fedplug-cuda", "plugins/fedplug-torch"
CUDA_SCRIPTS = f"{CUDA_PACKAGE}/benchmarks"
Check = Callable[[Clock], tuple[Needed, list[str], list[str]]]
# Each part with its page. The kernels are last, because their sanitizers use the time that is left.
PARTS: dict[str, tuple[str, Check]] = {
    "torch": (
        f"{CUDA_SCRIPTS}/results/select_and_encode.md",
        Scripts(
            (TORCH, PACKAGES),
            (f"{CUDA_PACKAGE}/tests", f"{TORCH_PACKAGE}/tests/test_devices.py"),
            (f"{CUDA_SCRIPTS}/select_and_encode.py", f"{CUDA_SCRIPTS}/peers.py"),
        ),
    ),
    "collectives": (
        f"{TORCH_PACKAGE}/benchmarks/results/gpu_steps.md",
        Scripts((TORCH, PACKAGES), (), (f"{CUDA_SCRIPTS}/ddp_step.py",)),
    ),
    "tensorflow": (
        "benchmarks/results/tensorflow_gpu.md",
        Scripts(
            (TENSORFLOW,),
            (
                *(f"tests/ops/test_{name}.py" for name in ("gpu", "buffers", "loader")),
                *(f"tests/tff/runtime/test_{name}.py" for name in ("devices", "computations")),
            ),
            ("benchmarks/tensorflow_gpu.py",),
        ),
    ),
    "kernels": ("benchmarks/results/cuda.md", check_kernels),
}


def with_results(
    page: str, needed: Needed, found: Sequence[str], tables: Sequence[str], now: datetime
) -> str:
    """Replaces the text between the marks of a page.

    Raises:
        ValueError: A mark is missing or occurs twice.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"expected {BEGIN} and {END} once each")
    head = f"**Run on {now:%Y-%m-%d}**: {', '.join(needed.versions)}.\nTimes are medians."
    section = "\n".join([BEGIN, head, "", *(f"- {line}" for line in found), "", *tables, END])
    before, _, rest = page.partition(BEGIN)
    return before + section + rest.partition(END)[2]


def main() -> int:
    """Returns 0 if every selected part passed and wrote its results, otherwise 1 after each failure."""
    clock, failed = Clock(), False
    names = os.environ.get("PARTS", "").split() or list(PARTS)
    if unknown := set(names) - set(PARTS):
        print(f"gpu-check: no part {min(unknown)!r}; known: {' '.join(PARTS)}", file=sys.stderr)
        return 1
    for name in sorted(names, key=list(PARTS).index):
        page, check = ROOT / PARTS[name][0], PARTS[name][1]
        try:
            results = check(clock)
        except CheckFailedError as error:
            failed = True
            print(f"gpu-check: {name} failed at: {error}", file=sys.stderr)
        else:
            page.write_text(with_results(page.read_text(), *results, datetime.now(timezone.utc)))
            print(f"gpu-check: {name} passed; results written to {PARTS[name][0]}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
