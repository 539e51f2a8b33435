"""How the command line answers: output, one line for an error, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import fedplug
from fedplug import cli, experiment
from fedplug.cli import main
from fedplug.errors import ConfigError


def run_python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def make_run(monkeypatch):
    """Replaces the training behind ``fedplug run``, which has tests of its own."""

    def make(error):
        def fail(paths, runs_dir, **options):
            raise error

        monkeypatch.setattr(experiment, "main", fail)

    return make


@pytest.mark.parametrize(
    "arguments", [["--help"], ["plugins", "list"], ["plugins", "list", "--json"], ["--version"]]
)
def test_quick_commands_import_neither_numpy_nor_tensorflow(arguments):
    program = (
        "import sys\n"
        "from fedplug.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "heavy = {'numpy', 'tensorflow', 'tensorflow_federated', 'fedplug.kernels'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    result = run_python("-c", program)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout


def test_help_names_every_command():
    text = run_python("-m", "fedplug", "--help").stdout
    assert all(
        f"\n    {command} " in text
        for command in ["init", "run", "report", "watch", "examples", "plugins", "store", "bench", "doctor"]
    )


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"fedplug {fedplug.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["trian"], ["run"], ["plugins"], ["plugins", "list", "--jsn"]])
def test_wrong_usage_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: fedplug" in capsys.readouterr().err


def test_run_hands_the_file_to_the_experiment(monkeypatch):
    calls = []
    monkeypatch.setattr(experiment, "main", lambda *arguments, **options: calls.append((arguments, options)))
    assert main(["run", "some.toml"]) == 0
    assert main(["run", "--runs-dir", "there", "some.toml", "other.toml", "--jobs", "2", "--set", "a=1"]) == 0
    assert calls == [
        ((["some.toml"], "runs"), {"settings": [], "only": [], "jobs": 1}),
        ((["some.toml", "other.toml"], "there"), {"settings": ["a=1"], "only": [], "jobs": 2}),
    ]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConfigError("two\nlines of trouble"), "two lines of trouble"),
        (OSError(28, "No space left on device", "runs/x"), "runs/x: No space left on device"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(make_run, capsys, error, message):
    make_run(error)
    assert main(["run", "some.toml"]) == 2
    assert capsys.readouterr().err == f"fedplug: error: {message}\n"


@pytest.mark.parametrize("arguments", [["--debug", "run", "some.toml"], ["run", "--debug", "some.toml"]])
def test_debug_shows_the_traceback_wherever_it_stands(arguments, make_run):
    make_run(ConfigError("trouble"))
    with pytest.raises(ConfigError, match="trouble"):
        main(arguments)


def test_an_internal_error_keeps_its_traceback(make_run):
    make_run(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["run", "some.toml"])


def test_an_interrupted_run_says_that_it_can_be_resumed(make_run, capsys):
    make_run(KeyboardInterrupt())
    assert main(["run", "some.toml"]) == 130
    assert capsys.readouterr().err == (
        "fedplug: interrupted; the same command resumes from the last finished round\n"
    )


def test_a_closed_output_pipe_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fedplug", "plugins", "list"]
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=120)
    os.close(writing)
    assert (result.returncode, result.stderr) == (cli.EXIT_BROKEN_PIPE, b"")
