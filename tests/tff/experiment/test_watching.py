"""How far an experiment is, read while somebody writes: torn lines, replaced files, several seeds."""

from __future__ import annotations

import json
import os

import pytest

from fedplug.tff.experiment.watching import Rows, read_progress

CONFIG = {"name": "x", "rounds": 3, "seed": 5, "repeats": 2, "runs": [{"name": "dense"}, {"name": "sparse"}]}


def row(run, seed, round_num, **values):
    return {
        "run": run,
        "seed": seed,
        "round": round_num,
        "test_accuracy": 0.5,
        "payloads": 2,
        "uplink_bytes": 100,
        "downlink_bytes": 400,
        "seconds": 2.0,
        **values,
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.json").write_text(json.dumps({"dense_bytes": 200, "tensors": []}))
    return tmp_path


def write(folder, *rows, mode="w", end="\n"):
    with (folder / "metrics.jsonl").open(mode) as file:
        file.write("\n".join(map(json.dumps, rows)) + end)


def progress_of(folder, log=None):
    return read_progress(folder, log or Rows(folder / "metrics.jsonl"))


def test_a_folder_without_a_configuration_has_no_progress(tmp_path):
    assert progress_of(tmp_path / "none") is None
    (tmp_path / "config.json").write_text('{"name": ')  # not there yet, or no experiment's
    assert progress_of(tmp_path) is None


def test_everything_is_pending_before_the_first_round(folder):
    progress = progress_of(folder)
    assert (progress.rounds, progress.total, progress.ended) == (0, 12, False)
    assert [(run.name, run.score, run.ratio, run.seconds_left) for run in progress.runs] == [
        ("dense", None, None, None),
        ("sparse", None, None, None),
    ]


def test_the_progress_of_a_run_includes_all_its_seeds(folder):
    write(
        folder,
        row("dense", 5, 1, test_accuracy=0.1),
        row("dense", 5, 2, test_accuracy=0.2, seconds=4.0),
        row("dense", 6, 1, test_accuracy=0.4, seconds=None),
    )
    dense, sparse = progress_of(folder).runs
    assert (dense.rounds, dense.total, dense.score) == (3, 6, pytest.approx(0.3))  # of the last of each
    assert (dense.uplink, dense.downlink, dense.ratio) == (300, 1200, 200 * 6 / 300)
    assert (dense.seconds_left, sparse.seconds_left) == (3 * 3.0, 6 * 3.0)  # the other is taken to be as fast


def test_a_line_counts_when_its_end_is_written(folder):
    log = Rows(folder / "metrics.jsonl")
    write(folder, row("dense", 5, 1), row("dense", 5, 2), end="")
    assert progress_of(folder, log).rounds == 1
    write(folder, mode="a", end="\n")
    assert progress_of(folder, log).rounds == 2


def test_rounds_and_seeds_that_the_configuration_does_not_ask_for_do_not_count(folder):
    write(folder, row("dense", 5, 3), row("dense", 5, 4), row("dense", 7, 1), row("gone", 5, 1))
    assert progress_of(folder).rounds == 1


def test_it_has_ended_with_the_last_round_of_the_last_seed(folder):
    rounds = [
        row(run, seed, number) for run in ("dense", "sparse") for seed in (5, 6) for number in (1, 2, 3)
    ]
    write(folder, *rounds[:-1])
    assert not progress_of(folder).ended
    write(folder, *rounds)
    assert progress_of(folder).ended
    assert progress_of(folder).runs[0].seconds_left == 0


def test_it_has_ended_with_the_table_of_the_command_that_trained_some_of_the_runs(folder):
    write(folder, row("dense", 5, 1))
    (folder / "table.txt").write_text("run\n")
    times = {"config.json": 10, "metrics.jsonl": 20, "table.txt": 30}
    for name, seconds in times.items():
        os.utime(folder / name, (seconds, seconds))
    assert progress_of(folder).ended
    os.utime(folder / "metrics.jsonl", (40, 40))  # the next command trains the others
    assert not progress_of(folder).ended


def test_the_progress_of_a_model_without_an_accuracy_has_its_own_metric(folder):
    rows = [row("dense", 5, 1, test_error=2.0), row("dense", 6, 1, test_error=None)]
    for each in rows:
        del each["test_accuracy"]
    write(folder, *rows)
    progress = progress_of(folder)
    assert progress.metric == "test_error"
    assert [run.score for run in progress.runs] == [2.0, None]  # of the seed that has a finite one
