"""Tests `make gpu-check` on simulated machines: it reports missing tools and failures, and writes results."""

from __future__ import annotations

import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from benchmarks import gpu_check

TOOLS = {
    "nvidia-smi": "echo 'NVIDIA H200, 580.95, 9.0'",
    "nvcc": "echo 'Cuda compilation tools, release 12.8, V12.8.1'",
    "c++": "",
    "cmake": "echo 'cmake version 3.31.0'",
    "compute-sanitizer": "exit 0",
}
CUDA_CHECK = "echo '0 of 13 tests failed'"
CUDA_CHECK_TIMES = "echo 'device X'; echo '   1000000     10000      22.5'; echo '[  OK  ] CudaTimes'"
BEFORE = f"# CUDA kernels\n\n{gpu_check.BEGIN}\n**Never run.**\n{gpu_check.END}\n\nThe rest.\n"


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A machine that has everything; its folder of tools is the only one on PATH."""
    folder = tmp_path / "bin"
    for name, body in TOOLS.items():
        script(folder / name, body)
    script(folder / "sh", 'exec /bin/sh "$@"')
    monkeypatch.setenv("PATH", str(folder))
    for variable in ("CUDACXX", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    built = tmp_path / "build" / "csrc" / "tests"
    script(built / "cuda_check", CUDA_CHECK)
    script(built / "cuda_check_times", CUDA_CHECK_TIMES)
    monkeypatch.setattr(gpu_check, "BUILD", tmp_path / "build")
    monkeypatch.setattr(gpu_check, "RESULTS", gpu_check.ROOT / "runs" / tmp_path.name / "cuda.md")
    gpu_check.RESULTS.parent.mkdir(parents=True)
    gpu_check.RESULTS.write_text(BEFORE)
    monkeypatch.setattr(gpu_check, "TORCH_RESULTS", gpu_check.RESULTS.with_name("torch.md"))
    for page in ("COLLECTIVES_RESULTS", "TENSORFLOW_RESULTS"):
        monkeypatch.setattr(gpu_check, page, gpu_check.RESULTS.with_name(f"{page}.md"))
        getattr(gpu_check, page).write_text(BEFORE)
    gpu_check.TORCH_RESULTS.write_text(BEFORE)
    monkeypatch.setenv("PARTS", "kernels")
    script(
        folder / "python",
        'case "$1 $2" in *fedplug*problem*) echo usable;; *tensorflow*) echo noise; echo "2.14.1 True ON";; '
        '-c*) echo "2.9.0 12.8 True";; -m*) echo "= 9 passed in 1.0s =";; *) echo "| 1e+06 | 70.0 |";; esac',
    )
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    yield folder
    shutil.rmtree(gpu_check.RESULTS.parent)


def test_a_good_run_is_written_between_the_marks(tools, capsys):
    assert gpu_check.main() == 0
    text = gpu_check.RESULTS.read_text()
    assert text.startswith(f"# CUDA kernels\n\n{gpu_check.BEGIN}\n**Run on ")
    assert text.endswith(f"{gpu_check.END}\n\nThe rest.\n")
    assert "NVIDIA H200 (compute capability 9.0), driver 580.95, CUDA 12.8, PyTorch 2.9.0" in text
    assert "22.5" in text
    assert "| 1e+06 | 70.0 |" in text
    assert "0 of 13 tests failed" in text
    assert "`compute-sanitizer --tool racecheck` reports nothing" in text
    assert "Never run" not in text
    assert "written to" in capsys.readouterr().out


def test_a_part_needs_only_its_own_tools(tools, monkeypatch):
    monkeypatch.setenv("PARTS", "torch")
    (tools / "nvcc").unlink()
    assert gpu_check.main() == 0
    text = gpu_check.TORCH_RESULTS.read_text()
    assert "- `plugins/fedplug-cuda/tests`: 9 passed in 1.0s." in text
    assert text.count("| 1e+06 | 70.0 |") == 2
    assert gpu_check.RESULTS.read_text() == BEFORE


def test_all_parts_write_their_own_page(tools, monkeypatch):
    monkeypatch.delenv("PARTS")
    assert gpu_check.main() == 0
    assert "TensorFlow 2.14.1" in gpu_check.TENSORFLOW_RESULTS.read_text()
    assert "`tests/ops/test_gpu.py`: 9 passed" in gpu_check.TENSORFLOW_RESULTS.read_text()
    for page in (gpu_check.RESULTS, gpu_check.TORCH_RESULTS, gpu_check.COLLECTIVES_RESULTS):
        assert "Never run" not in page.read_text()


def test_a_part_that_lacks_something_or_fails_leaves_the_others_alone(tools, monkeypatch, capsys):
    monkeypatch.setenv("PARTS", "kernels tensorflow collectives")
    script(
        tools / "python",
        'case "$1 $2" in *fedplug*problem*) echo usable;; *tensorflow*) echo "2.14.1 False OFF";; '
        '-c*) echo "2.9.0 12.8 True";; *ddp_step*) echo lost; exit 3;; *) echo "| 1e+06 | 70.0 |";; esac',
    )
    assert gpu_check.main() == 1
    error = capsys.readouterr().err
    assert "TensorFlow 2.14.1 sees no GPU" in error
    assert (
        "the op library has no CUDA kernels: run `make setup` on a machine with nvcc (for tensorflow)"
        in error
    )
    assert "collectives failed at: run ddp_step.py: exit status 3\nlost" in error
    assert gpu_check.TENSORFLOW_RESULTS.read_text() == BEFORE
    assert gpu_check.COLLECTIVES_RESULTS.read_text() == BEFORE
    assert "70.0" in gpu_check.RESULTS.read_text()


def test_the_part_torch_names_missing_packages(tools, monkeypatch, capsys):
    monkeypatch.setenv("PARTS", "torch")
    script(tools / "python", 'case "$2" in *fedplug*) exit 1;; *) echo "2.9.0 12.8 True";; esac')
    assert gpu_check.main() == 1
    assert "-m pip install . ./plugins/fedplug-cuda ./plugins/fedplug-torch" in capsys.readouterr().err


def test_an_unknown_part_is_refused(tools, monkeypatch, capsys):
    monkeypatch.setenv("PARTS", "kernels jax")
    assert gpu_check.main() == 1
    assert "no part 'jax'; known: torch collectives tensorflow kernels" in capsys.readouterr().err


def test_each_missing_part_is_reported_in_one_line(tools, capsys):
    for name in ("nvidia-smi", "c++"):
        (tools / name).unlink()
    script(tools / "nvcc", "echo 'release 11.0, V11'")
    script(tools / "python", "exit 1")
    assert gpu_check.main() == 1
    lines = capsys.readouterr().err.splitlines()
    for said in ("no GPU", "nvcc 11.0 is too old", "no C++ compiler", "no PyTorch"):
        assert sum(said in line for line in lines) == 1
    assert len(lines) == 5  # and nothing was run
    assert gpu_check.RESULTS.read_text() == BEFORE


@pytest.mark.parametrize(
    ("tool", "body", "said"),
    [
        ("nvidia-smi", "echo 'Tesla V100, 550.1, 7.0'", "compute capability 7.0; 8.0 or newer is needed"),
        ("python", "echo '2.9.0 None False'", "PyTorch 2.9.0 sees no CUDA device"),
    ],
)
def test_an_unusable_library_is_reported(tools, capsys, tool, body, said):
    script(tools / tool, body)
    assert gpu_check.main() == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "what"), [("cuda_check", "check bits"), ("cuda_check_times", "time the kernels")]
)
def test_failed_parts_are_reported_with_their_output_and_write_nothing(tools, capsys, program, what):
    script(gpu_check.BUILD / "csrc" / "tests" / program, "echo 'differ at element 7'; exit 1")
    assert gpu_check.main() == 1
    error = capsys.readouterr().err
    assert f"failed at: {what}: exit status 1\ndiffer at element 7" in error
    assert gpu_check.RESULTS.read_text() == BEFORE


def test_a_race_is_a_failure(tools, capsys):
    script(tools / "compute-sanitizer", "echo 'Race reported'; exit 9")
    assert gpu_check.main() == 1
    assert "failed at: racecheck: exit status 9\nRace reported" in capsys.readouterr().err
    assert gpu_check.RESULTS.read_text() == BEFORE


def test_without_the_sanitizer_the_results_say_so(tools):
    (tools / "compute-sanitizer").unlink()
    assert gpu_check.main() == 0
    assert "`compute-sanitizer` was not there" in gpu_check.RESULTS.read_text()


def test_a_step_is_stopped_with_its_child_processes_at_the_time_limit():
    clock = gpu_check.Clock(limit=0)
    with pytest.raises(gpu_check.TimeIsUpError, match="a long step: not done within 0 s\nbegun"):
        # The sleeping process holds the pipe that is read to its end.
        clock.run("a long step", ["/bin/sh", "-c", "echo begun; sleep 60 & wait"])


@pytest.mark.parametrize(
    "path",
    [
        gpu_check.RESULTS,
        gpu_check.TORCH_RESULTS,
        gpu_check.COLLECTIVES_RESULTS,
        gpu_check.TENSORFLOW_RESULTS,
    ],
    ids=lambda path: path.stem,
)
def test_a_run_replaces_the_results_between_the_marks(path, tools):
    section = gpu_check.render(
        gpu_check.Machine(), ["found"], ["table"], datetime(2030, 1, 2, tzinfo=timezone.utc)
    )
    text = gpu_check.replace_section(path.read_text(), section)
    assert "Run on 2030-01-02" in text
    assert gpu_check.replace_section(text, section) == text
    with pytest.raises(ValueError, match="once each"):
        gpu_check.replace_section("no marks", section)
