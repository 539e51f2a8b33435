"""Tests `make gpu-check` on a simulated machine: it reports what is missing or fails, and writes results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import gpu_check

TOOLS = {
    "nvidia-smi": "echo 'NVIDIA H200, 580.95, 9.0'",
    "nvcc": "echo 'Cuda compilation tools, release 12.8, V12.8.1'",
    "cmake": "exit 0",
    "compute-sanitizer": "exit 0",
    "python": 'case "$1 $2" in *"import torch"*) echo "PyTorch 2.9.0";; *fedplug_torch*) ;; '
    '*tensorflow*) echo noise; echo "TensorFlow 2.14.1";; '
    '-m*) echo "= 9 passed in 1.0s =";; *) echo "| 1e+06 | 70.0 |";; esac',
    "cuda_check": "echo '0 of 13 tests failed'",
    "cuda_check_times": "echo 'device X'; echo '   1000000     10000      22.5'; echo '[  OK  ] CudaTimes'",
}
BEFORE = f"# CUDA kernels\n\n{gpu_check.BEGIN}\n**Never run.**\n{gpu_check.END}\n\nThe rest.\n"


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A machine that has everything, in one folder, and a checkout of the pages alone."""
    folder = tmp_path / "build" / "csrc" / "tests"
    for name, body in TOOLS.items():
        script(folder / name, body)
    for variable in ("CUDACXX", "PARTS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(gpu_check, "BUILD", tmp_path / "build")
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    for name in gpu_check.PARTS:
        page(name).parent.mkdir(parents=True, exist_ok=True)
        page(name).write_text(BEFORE)
    return folder


def page(name: str) -> Path:
    return gpu_check.ROOT / gpu_check.PARTS[name][0]


def test_all_parts_write_their_own_page_between_the_marks(tools, capsys):
    assert gpu_check.main() == 0, capsys.readouterr().err
    kernels, torch, ops = (page(name).read_text() for name in ("kernels", "torch", "tensorflow"))
    assert kernels.startswith(f"# CUDA kernels\n\n{gpu_check.BEGIN}\n**Run on ")
    assert kernels.endswith(f"{gpu_check.END}\n\nThe rest.\n")
    said = "NVIDIA H200 (compute capability 9.0), driver 580.95, PyTorch 2.9.0, CUDA 12.8."
    for line in (said, "22.5", "| 1e+06 | 70.0 |", "0 of 13 tests failed", "racecheck` reports nothing"):
        assert line in kernels
    assert "- `plugins/fedplug-cuda/tests`: 9 passed in 1.0s." in torch
    assert torch.count("| 1e+06 | 70.0 |") == 2
    assert "TensorFlow 2.14.1" in ops
    assert "Never run" not in page("collectives").read_text()


@pytest.mark.parametrize(
    ("tool", "body", "said"),
    [
        ("nvidia-smi", "exit 9", "look for a GPU: exit status 9"),
        ("nvidia-smi", "echo 'Tesla V100, 550.1, 7.0'", "compute capability 7.0; 8.0 or newer is needed"),
        ("nvcc", "echo 'release 11.0, V11'", "install a CUDA toolkit from 12.1 on"),
        ("python", "echo 'it sees no CUDA device'; exit 1", "device\na PyTorch with CUDA for this driver is"),
        ("cuda_check", "echo 'differ at 7'; exit 1", "check bits: exit status 1\ndiffer at 7"),
        ("compute-sanitizer", "echo 'Race reported'; exit 9", "racecheck: exit status 9\nRace reported"),
    ],
)
def test_a_part_that_lacks_something_or_fails_says_so_and_writes_nothing(
    tools, monkeypatch, capsys, tool, body, said
):
    monkeypatch.setenv("PARTS", "kernels")
    script(tools / tool, body)
    assert gpu_check.main() == 1
    error = capsys.readouterr().err
    assert error.startswith("gpu-check: kernels failed at: ")
    assert said in error
    assert page("kernels").read_text() == BEFORE


def test_a_failed_part_leaves_the_others_alone(tools, capsys):
    script(tools / "cuda_check", "exit 1")
    assert gpu_check.main() == 1
    assert "kernels failed at: check bits" in capsys.readouterr().err
    assert [name for name in gpu_check.PARTS if page(name).read_text() == BEFORE] == ["kernels"]


def test_an_unknown_part_is_refused(tools, monkeypatch, capsys):
    monkeypatch.setenv("PARTS", "kernels jax")
    assert gpu_check.main() == 1
    assert "no part 'jax'; known: torch collectives tensorflow kernels" in capsys.readouterr().err


def test_a_step_is_stopped_with_its_child_processes_at_the_time_limit():
    clock = gpu_check.Clock(limit=0)
    with pytest.raises(gpu_check.TimeIsUpError, match="a long step: not done within 0 s\nbegun"):
        # The sleeping process holds the pipe that is read to its end.
        clock.run("a long step", ["/bin/sh", "-c", "echo begun; sleep 60 & wait"])


def test_every_page_has_the_marks_once():
    for path, _ in gpu_check.PARTS.values():
        text = (gpu_check.ROOT / path).read_text()
        assert (text.count(gpu_check.BEGIN), text.count(gpu_check.END)) == (1, 1)
