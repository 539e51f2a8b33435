"""The package imports everywhere, and names the missing part."""

import os
import subprocess
import sys

import fedplug_cuda

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
