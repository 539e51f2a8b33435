"""How the command line answers: output, one line for an error, exit codes."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import safetensors.numpy

import fedplug
from fedplug import cli
from fedplug.cli import main
from fedplug.errors import ConfigError
from fedplug.tff import experiment


@pytest.fixture
def make_run(monkeypatch):
    """Replaces the training behind ``fedplug run``, which has tests of its own."""

    def make(error):
        def fail(paths, runs_dir, **options):
            raise error

        monkeypatch.setattr(experiment, "main", fail)

    return make


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize(
    "arguments", [["--help"], ["plugins", "list"], ["plugins", "list", "--json"], ["--version"]]
)
def test_quick_commands_import_neither_numpy_nor_tensorflow(arguments, python):
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
    result = python("-c", program)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout


def test_help_names_every_command(python):
    text = python("-m", "fedplug", "--help").stdout
    assert all(
        f"\n    {command} " in text
        for command in ["init", "run", "report", "examples", "plugins", "store", "bench", "doctor"]
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


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["run", "a.toml", "--jobs", "2", "--jobs", "2"], "--jobs"),
        (["run", "--runs-dir", "a", "b.toml", "--runs-dir=c"], "--runs-dir"),
        (["diff", "-o", "a", "old", "new", "--output", "b"], "-o/--output"),
        (["patch", "old", "step", "-o", "new", "--max-bytes", "1", "--max-bytes", "2"], "--max-bytes"),
        (["report", "--out", "a", "runs/x", "--out", "a"], "--out"),
        (["plugins", "new", "--kind", "store", "a", "--kind", "encoder"], "--kind"),
        (["store", "rewind", "a", "--process", "p", "3", "--process", "q"], "--process"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(arguments, option, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert f"argument {option}: it has one value, and is given twice\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["diff", "absent", "-o", "step", "absent too"],
        ["patch", "absent", "-o", "new", "step", "--max-bytes", "1"],
        ["report", "absent", "--out", "page", "absent too"],
        ["store", "rewind", "absent", "--process", "p", "3"],
        ["plugins", "show", "--debug", "sign"],
        ["--debug", "plugins", "list", "--json"],
    ],
)
def test_an_option_may_stand_between_arguments(arguments, capsys):
    main(arguments)
    assert "usage" not in capsys.readouterr().err


def test_run_hands_the_file_to_the_experiment(monkeypatch):
    calls = []
    monkeypatch.setattr(experiment, "main", lambda *arguments, **options: calls.append((arguments, options)))
    assert main(["run", "some.toml"]) == 0
    options = ["--set", "a=1", "other.toml", "--jobs", "2", "--set", "b=2"]
    assert main(["run", "--runs-dir", "there", "some.toml", *options]) == 0
    assert calls == [
        ((["some.toml"], "runs"), {"settings": [], "only": [], "jobs": 1}),
        ((["some.toml", "other.toml"], "there"), {"settings": ["a=1", "b=2"], "only": [], "jobs": 2}),
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
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=600)
    os.close(writing)
    assert (result.returncode, result.stderr) == (cli.EXIT_BROKEN_PIPE, b"")


def command(*arguments, stdout=subprocess.PIPE, redirected="", **environment):
    """Runs the command in a shell, with redirections."""
    line = f'exec "$0" -m fedplug "$@" {redirected}'
    return subprocess.run(
        ["sh", "-c", line, sys.executable, *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        check=False,
        timeout=600,
    )


def hostile_step(path, name="\x1b]0;owned\x07\x1b[2J\n12 bytes in 1: safe \N{RIGHT-TO-LEFT OVERRIDE}"):
    path.write_bytes(fedplug.diff({}, {name: np.zeros(3, np.uint8)}))
    return path


def test_names_print_no_control_characters(tmp_path, capsys):
    assert main(["diff", "--info", str(hostile_step(tmp_path / "step"))]) == 0
    output = capsys.readouterr().out
    assert output.replace("\n", "").isprintable()
    assert output.count("\n") == 3  # a header, one array, the sum
    assert r"\x1b]0;owned\x07\x1b[2J\n12 bytes in 1: safe \u202e" in output


def test_errors_print_no_control_characters(tmp_path, capsys):
    absent = tmp_path / "absent\x1b[2J"
    assert main(["diff", "--info", str(absent)]) == 2
    error = capsys.readouterr().err
    assert error.removesuffix("\n").isprintable()
    assert r"absent\x1b[2J" in error


def test_a_name_outside_the_encoding_of_the_terminal_is_escaped(tmp_path):
    step = hostile_step(tmp_path / "step", "Gr\u00f6\u00dfe \u2261")
    done = command("diff", "--info", step, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"Gr\xf6\xdfe \u2261" in done.stdout


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_no_error_and_gets_into_no_file(tmp_path, closed):
    old, new, step = (tmp_path / name for name in ("old.safetensors", "new.safetensors", "step"))
    for path, value in ((old, 0), (new, 1)):
        safetensors.numpy.save_file({"k": np.full(100, value, np.float32)}, path)
    done = command("diff", old, new, "-o", step, redirected=closed)
    assert (done.returncode, done.stderr) == (0, b"")
    whole = step.read_bytes()
    assert command("diff", old, new, "-o", step).returncode == 0
    assert step.read_bytes() == whole


def test_output_that_cannot_be_written_is_one_line(monkeypatch, capsys):
    class Full(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def fileno(self):
            return self._file.fileno()

    full = Full()
    with tempfile.TemporaryFile() as full._file:
        stdout = io.TextIOWrapper(io.BufferedWriter(full))
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(["plugins", "list"]) == 2
        assert "No space left on device" in capsys.readouterr().err
        monkeypatch.undo()
        monkeypatch.setattr(Full, "write", lambda self, data: len(data))
        stdout.close()  # here, as a failure of Python's own closing is a warning
