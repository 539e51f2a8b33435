"""`fedplug watch`: waits, follows, ends with the experiment; in a terminal, in a pipe, and after Ctrl-C."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import pytest

from fedplug.cli import main, watch


def row(round_num):
    return {
        "run": "dense",
        "seed": 0,
        "round": round_num,
        "test_accuracy": 0.25 * round_num,
        "payloads": 2,
        "uplink_bytes": 1500,
        "downlink_bytes": 40,
        "seconds": 61.0,
    }


class Experiment:
    """Writes its folder a step further with every look at it."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.steps = [self.begin, *[lambda number=number: self.append(row(number)) for number in (1, 2)]]
        clock = types.SimpleNamespace(sleep=lambda seconds: self.steps.pop(0)())
        monkeypatch.setattr(watch, "time", clock)

    def begin(self):
        self.folder.mkdir(parents=True)
        config = {"name": "x", "rounds": 2, "seed": 0, "repeats": 1, "runs": [{"name": "dense"}]}
        (self.folder / "config.json").write_text(json.dumps(config))
        (self.folder / "model.json").write_text(json.dumps({"dense_bytes": 7500}))

    def append(self, row):
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    return Experiment(tmp_path / "runs" / "x", monkeypatch)


def test_a_pipe_gets_a_line_per_round_until_the_experiment_ends(experiment, capsys):
    assert main(["watch", "--wait", str(experiment.folder)]) == 0
    assert experiment.steps == []
    assert (
        capsys.readouterr().out
        == f"""\
waiting for an experiment in {experiment.folder}
RUN    ROUNDS  ACCURACY  UPLINK  DOWNLINK  RATIO TO DENSE  TIME LEFT
dense  0 of 2  -         0 B     0 B       -               -

{experiment.folder}: 0 of 2 rounds, time left -
dense (seed 0) round 1: accuracy 0.2500, uplink 1.50 kB, downlink 40 B
dense (seed 0) round 2: accuracy 0.5000, uplink 1.50 kB, downlink 40 B
RUN    ROUNDS  ACCURACY  UPLINK   DOWNLINK  RATIO TO DENSE  TIME LEFT
dense  2 of 2  0.5000    3.00 kB  80 B      10.0x           0:00

{experiment.folder}: 2 of 2 rounds, finished
"""
    )


def test_a_terminal_shows_one_line_that_is_redrawn(experiment, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["watch", "--wait", str(experiment.folder)]) == 0
    waiting, before, first, last = capsys.readouterr().out.split("\x1b[J")
    assert waiting.endswith("\x1b[1A")  # of one line
    assert before.endswith("\x1b[4A")
    assert "1 of 2 rounds, time left 1:01" in first
    assert last.endswith("2 of 2 rounds, finished\n")


def test_once_shows_how_far_it_is_and_ends(experiment, capsys):
    experiment.begin()
    experiment.append(row(1))
    assert main(["watch", "--once", str(experiment.folder)]) == 0
    assert "dense  1 of 2  0.2500    1.50 kB" in capsys.readouterr().out


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two experiments in ``runs`` of the current folder, and a folder that holds none."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Experiment(tmp_path / "runs" / name, monkeypatch).begin()
    (tmp_path / "runs" / "c").mkdir()


@pytest.mark.parametrize("name", ["runs/typo", "runs/c", "runs", "a"])
@pytest.mark.parametrize(
    "command",
    [
        ["watch"],
        ["watch", "--once"],
        ["watch", "--wait", "--once"],
        ["watch", "--wait"],
        pytest.param(["report"], marks=pytest.mark.needs("matplotlib")),
    ],
)
def test_the_existing_experiments_are_listed(two, name, command, capsys, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "time", types.SimpleNamespace(sleep=interrupt))
    code = main([*command, name])
    caught = capsys.readouterr()
    assert code == (2 if "--wait" not in command else 0 if "--once" in command else 130)
    said = caught.out if "--wait" in command else caught.err
    assert said.endswith("; there are: runs/a, runs/b\n")


@pytest.mark.parametrize(
    "text", ['{"runs": [1]}', '{"runs": [{"name": "x"}]}', "[" * 9999, '{"runs": {"a": 1}, "seed": 0}', "\0"]
)
def test_a_folder_of_something_else_is_no_experiment(tmp_path, capsys, text):
    (tmp_path / "config.json").write_text(text)
    assert main(["watch", str(tmp_path)]) == 2
    assert f"there is no experiment in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize("option", [[], ["--once"]])
@pytest.mark.parametrize("name", [".", "absent", "absent/too", "file"])
def test_what_is_no_experiment_is_an_error(tmp_path, capsys, option, name):
    (tmp_path / "file").touch()
    assert main(["watch", *option, str(tmp_path / name)]) == 2
    assert f"there is no experiment in {tmp_path / name}" in capsys.readouterr().err


def test_an_invalid_interval_is_an_error(tmp_path, capsys):
    assert main(["watch", "--interval", "0", str(tmp_path)]) == 2
    assert "--interval is 0" in capsys.readouterr().err


def test_ctrl_c_ends_the_watching_and_says_so_in_one_line(experiment, capsys):
    def interrupt():
        raise KeyboardInterrupt

    experiment.steps.insert(1, interrupt)
    assert main(["watch", "--wait", str(experiment.folder)]) == 130
    assert capsys.readouterr().err == "fedplug: no longer watching; the experiment continues\n"


@pytest.mark.needs("tensorflow")
def test_it_loads_neither_numpy_nor_tensorflow(experiment):
    experiment.begin()
    program = "import sys\nfrom fedplug.cli import main\nmain(sys.argv[1:])\n"
    check = "assert not {'numpy', 'tensorflow'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program + check, "watch", "--once", str(experiment.folder)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
