"""What needs TensorFlow says so in one line where it is not installed; what does not need it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "tensorflow_federated"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
TENSORFLOW = "TensorFlow is not installed: `pip install tensorflow==2.14.1` (Python 3.11)"


def without_tensorflow(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def command(*arguments):
    return without_tensorflow("from fedplug.cli import main\nsys.exit(main(sys.argv[1:]))", *arguments)


@pytest.mark.parametrize("arguments", [["bench"], ["bench", "topk(0.01)"]])
def test_a_command_that_needs_it_ends_with_one_line(arguments):
    done = command(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"fedplug: error: {TENSORFLOW}\n")


def test_a_command_that_needs_tff_names_tff():
    done = command("run", str(Path(__file__).parents[2] / "examples/digits.toml"))
    assert done.returncode == 2
    assert done.stderr.startswith("fedplug: error: TensorFlow Federated is not installed: `uv pip install ")
    assert done.stderr.count("\n") == 1


def test_with_debug_the_traceback_is_shown():
    assert "Traceback" in command("--debug", "bench").stderr


def test_an_encoder_that_is_made_says_so():
    done = without_tensorflow("import fedplug\nfedplug.encoder('topk(0.01)')")
    assert done.stderr.splitlines()[-1] == (
        f"fedplug.errors.PluginError: encoder 'topk' cannot be used: {TENSORFLOW}"
    )


def test_doctor_says_it_beside_the_check():
    done = command("doctor")
    assert done.returncode == 1
    assert f"fix: {TENSORFLOW}" in done.stdout
    assert "force-reinstall" not in done.stdout


def test_kernels_stores_and_the_list_of_plugins_work():
    assert "topk" in command("plugins", "list").stdout
    program = (
        "import fedplug\nprint(fedplug.kernels.num_threads() > 0)\nfedplug.open_store('memory://').close()"
    )
    done = without_tensorflow(program)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
