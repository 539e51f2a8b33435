"""A user with an array, a Keras model and a question writes one file, and has table, picture and resuming."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fedplug.cli import main

pytestmark = [pytest.mark.needs("tensorflow_federated"), pytest.mark.needs("matplotlib")]

PAGE = Path(__file__).parents[3] / "docs" / "experiments.md"
MODEL = """
import os
from multiprocessing.util import Finalize
from pathlib import Path

import tensorflow as tf

# As an observer does that closes its files; runs where a process ends of itself.
Finalize(None, Path(__file__).with_name(f"{os.getpid()}.ended").touch, exitpriority=0)

def network():
    layers = [tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)]
    return tf.keras.Sequential([tf.keras.Input((4,)), *layers])
"""
QUESTION = """
name = "question"
rounds = 4
clients_per_round = 3

[data]
source = "npz"
path = "measurements.npz"
clients = 6

[model]
build = "network:network"

[[runs]]
name = "dense"

[[runs]]
name = "sparse"
encoder = "topk(0.2)"
min_size = 1
"""


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "fedplug", "run", *arguments, "--runs-dir", str(folder)]


def fedplug(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments), capture_output=True, text=True, timeout=300, check=False
    )


def rows(folder: Path) -> list[dict[str, object]]:
    """Returns the runs' results, in an order that does not depend on the jobs."""
    lines = (folder / "question" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    found = [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]
    return sorted(found, key=lambda row: (row["run"], row["round"]))


def _wait_until_gone(group: int) -> None:
    """Until no worker is left, nor what Python starts beside them."""
    deadline = time.monotonic() + 60
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.05)
        pytest.fail("a process of an interrupted command goes on")


@pytest.fixture(scope="module")
def question(tmp_path_factory) -> Path:
    """Writes a user's array and model, and the configuration file."""
    folder = tmp_path_factory.mktemp("mine")
    x = np.random.default_rng(0).normal(size=(300, 4))
    np.savez(folder / "measurements.npz", x=x, y=np.sin(x).sum(axis=1))
    (folder / "network.py").write_text(MODEL, encoding="utf-8")
    (folder / "question.toml").write_text(QUESTION, encoding="utf-8")
    return folder / "question.toml"


@pytest.fixture(scope="module")
def straight(question) -> Path:
    """The results of one process, which nothing interrupted."""
    folder = question.parent / "straight"
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])  # where the user's folder is put
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main(command(folder, str(question))[3:]) == 0, err.getvalue()
    sys.modules.pop("network", None)
    assert re.search(r"^dense +\d", out.getvalue(), re.MULTILINE)
    last = r"^8/8 rounds; sparse: mean absolute error \d\.\d+, [\d.]+ k?B up$"
    assert re.search(last, err.getvalue(), re.MULTILINE)
    return folder


def test_one_file_gives_table_and_picture(straight) -> None:
    table = (straight / "question" / "table.txt").read_text(encoding="utf-8")
    assert [line.split()[0] for line in table.splitlines()[3:5]] == ["dense", "sparse"]
    assert table.endswith("\naccuracy: here the mean absolute error on the test examples\n")
    assert (straight / "question" / "accuracy.svg").read_bytes().startswith(b"<?xml")
    found = rows(straight)
    assert len(found) == 8
    assert all(0 < float(str(row["test_mean_absolute_error"])) < 5 for row in found)
    dense, sparse = found[3], found[7]
    assert int(str(dense["uplink_bytes"])) > int(str(sparse["uplink_bytes"]))


@pytest.mark.slow
def test_jobs_that_are_interrupted_resume_and_end_with_the_same_numbers(question, straight) -> None:
    folder = question.parent / "jobs"
    longer = [str(question), "--jobs", "2", "--set", "rounds=200"]
    with subprocess.Popen(
        command(folder, *longer), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        log = folder / "question" / "metrics.jsonl"
        deadline = time.monotonic() + 240
        while not (log.exists() and log.stat().st_size) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=600)
    assert process.returncode == 130
    assert error.splitlines()[-1] == (
        "fedplug: interrupted; the same command resumes from the last finished round"
    )
    assert "Traceback" not in error
    _wait_until_gone(process.pid)
    before = len(list(question.parent.glob("*.ended")))
    done = fedplug(folder, str(question), "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert len(list(question.parent.glob("*.ended"))) == before + 3  # two workers, and the command itself
    assert "resuming after" in done.stdout
    assert [row for row in rows(folder) if int(str(row["round"])) <= 4] == rows(straight)


@pytest.mark.slow
def test_a_pattern_trains_some_runs_and_the_others_follow(question, straight) -> None:
    folder = question.parent / "some"
    done = fedplug(folder, str(question), "--only", "spar*")
    assert done.returncode == 0, done.stderr
    assert {row["run"] for row in rows(folder)} == {"sparse"}
    assert "dense " not in done.stdout.partition("-----")[2]
    done = fedplug(folder, str(question))
    assert done.returncode == 0, done.stderr
    assert rows(folder) == rows(straight)
    records = json.loads((folder / "question" / "provenance.json").read_text(encoding="utf-8"))
    assert set(records) == {"dense", "sparse"}


@pytest.fixture
def refused(monkeypatch) -> Iterator[Callable[..., None]]:
    """Runs a command that is a mistake, in this process: a new one takes seconds to begin."""

    def run(folder: Path, *arguments: str) -> None:
        assert main(command(folder, *arguments)[3:]) == 2

    monkeypatch.setattr(sys, "path", [*sys.path])  # where the user's folder is put
    yield run
    sys.modules.pop("network", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "data.path=absent.npz"], "cannot read .*absent.npz: No such file"),
        (
            ["--set", "target_accuracy=0.9"],
            "target_accuracy is 0.9; it must be left out, because the model's metric",
        ),
        (
            ["--set", "clients_per_round=7"],
            "clients_per_round is 7; .* between 1 and the number of clients, 6",
        ),
        (["--set", "model.build=network:net"], "unknown function 'net' .*did you mean 'network'"),
        (["--jobs", "0"], "--jobs is 0; it must be at least 1"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    question, tmp_path, arguments, message, refused, capsys
) -> None:
    refused(tmp_path / "runs", str(question), *arguments)
    error = capsys.readouterr().err
    assert re.fullmatch(f"fedplug: error: .*{message}.*\n", error), error
    assert not (tmp_path / "runs").exists()


def test_two_configurations_are_checked_together_and_need_names_of_their_own(
    question, tmp_path, refused, capsys
) -> None:
    refused(tmp_path / "runs", str(question), str(question))
    assert "two configurations have the name 'question'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_functions_and_the_file_of_the_page_run(tmp_path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (python,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    *_, toml = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mine.py").write_text(python, encoding="utf-8")
    (tmp_path / "question.toml").write_text(toml, encoding="utf-8")
    done = fedplug(tmp_path / "runs", str(tmp_path / "question.toml"))
    assert done.returncode == 0, done.stderr
    assert all("test_accuracy" in row for row in rows(tmp_path / "runs"))
