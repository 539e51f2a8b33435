"""Tests the command line without TensorFlow: errors are one line, and everything else works."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path

import pytest

from fedplug.errors import MissingDependencyError

# Importing a module that is None raises ModuleNotFoundError, as if it were not installed.
WITHOUT = "import sys\nsys.modules.update(tensorflow=None, tensorflow_federated=None)\n"
EXTRA = "`pip install 'fedplug[tff]'` on Python 3.11"
MISSING = f"needs TensorFlow Federated, which is not installed: {EXTRA}"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def without_tensorflow(python):
    return lambda program, *arguments: python("-c", WITHOUT + program, *arguments)


@pytest.fixture
def command(without_tensorflow):
    return partial(without_tensorflow, "from fedplug.cli import main\nsys.exit(main(sys.argv[1:]))")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", str(EXAMPLES / "digits.toml")],
        ["examples", "run", "digits"],
        ["examples", "run", "stateful_topk"],
    ],
)
def test_a_command_that_needs_it_ends_with_one_line(arguments, command):
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fedplug: error: ")
    assert EXTRA in done.stderr
    assert done.stderr.count("\n") == 1


def test_debug_shows_the_traceback(command):
    assert "Traceback" in command("--debug", "examples", "run", "digits").stderr


@pytest.mark.parametrize(
    ("use", "what"),
    [
        ("import fedplug\nfedplug.tff.process", "fedplug.tff.process"),
        ("import fedplug.tff.process", "fedplug.tff.process"),
        ("from fedplug.tff.process import build_weighted_fed_avg", "fedplug.tff.process"),
        ("import fedplug\nfedplug.use_runtime('inprocess')", "fedplug.tff.runtime"),
        ("import fedplug\nfedplug.Trainer", "fedplug.tff.training"),
    ],
)
def test_an_error_without_tff_names_the_feature_and_the_extra(use, what, without_tensorflow):
    done = without_tensorflow(use)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"fedplug.errors.MissingDependencyError: {what} {MISSING}")


def test_a_component_that_needs_it_names_itself_and_the_extra(without_tensorflow):
    done = without_tensorflow("import fedplug\nfedplug.aggregator('mean')")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("fedplug.errors.MissingDependencyError: aggregator 'mean' needs TensorFlow, which")
    assert EXTRA in last


def test_a_missing_package_is_an_import_error_that_can_be_pickled():
    error = pickle.loads(pickle.dumps(MissingDependencyError("a part", "fedplug_ray")))
    assert isinstance(error, ModuleNotFoundError)
    assert error.name == "fedplug_ray"
    assert str(error) == (
        "a part needs fedplug-ray, which is not installed: `pip install 'fedplug[ray]'` on Python 3.11"
    )


def test_doctor_finds_no_fault(command):
    done = command("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line[6:18].strip(): line for line in done.stdout.splitlines()}
    for name in ("TensorFlow", "TFF"):
        assert lines[name].startswith("skip")
        assert lines[name].endswith("not installed (pip install 'fedplug[tff]' on Python 3.11)")
    for name in ("op library", "CUDA", "inprocess", "native"):
        assert lines[name].startswith("skip")
    for name in ("Python", "NumPy", "kernels", "codec", "stores"):
        assert lines[name].startswith("ok")
    skipped = sum(line.startswith("skip") for line in lines.values())
    assert done.stdout.endswith(f"all checks passed; {skipped} skipped, because not installed\n")


def test_encoders_kernels_stores_and_the_list_of_plugins_work(command, without_tensorflow):
    assert "topk" in command("plugins", "list").stdout
    program = (
        "import fedplug\nprint(fedplug.kernels.num_threads() > 0, fedplug.encoder('topk(0.01)'))\n"
        "fedplug.open_store('memory://').close()"
    )
    done = without_tensorflow(program)
    assert (done.returncode, done.stdout) == (0, "True topk(fraction=0.01, error_feedback=True)\n"), (
        done.stderr
    )


def test_bench_works(command):
    done = command("bench", "--json", "--elements", "1000", "topk(0.1)")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["encoders"][0]["encoder"] == "topk(0.1)"
