"""The package imports everywhere, and names the missing part. The programs of its pages run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import fedplug_cuda
import pytest

from fedplug.cli import main


def problem_with(library):
    code = "import fedplug_cuda; print(fedplug_cuda.problem())"
    env = {**os.environ, "FEDPLUG_CUDA_LIBRARY": library}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
    ).stdout


def test_a_missing_library_is_named_with_the_remedy(tmp_path):
    assert "pip install ./plugins/fedplug-cuda" in problem_with(str(tmp_path / "none.so"))


def test_another_library_is_refused():
    assert "cannot be loaded" in problem_with("libc.so.6")


def test_the_device_selects_the_entries_of_the_cpu(device):
    assert fedplug_cuda.self_check() == "device 0 selects the entries that the CPU selects"


def test_the_list_of_plugins_names_the_package(capsys):
    assert main(["plugins", "list"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("device "))
    assert line.split()[:4] == ["device", "cuda", "fedplug-cuda", "0.1.0"]


PACKAGE = Path(__file__).resolve().parents[1]


def program(page):
    return "".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))


def test_docs_gpu_md(device):
    found = {}
    exec(program(PACKAGE.parents[1] / "docs" / "gpu.md"), found)
    assert found["payloads"].keys() == {"kernel"}


def test_readme(device):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch sees no CUDA device")
    found = {}
    exec(program(PACKAGE / "README.md"), found)
    assert int((found["total"] != 0).sum()) == found["found"].row_splits[1]
