"""Reading the folder of an experiment: incomplete, unfinished and damaged ones."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedplug.errors import ConfigError, StoreError
from fedplug.tff.experiment.report.folder import read_experiments

ROW = {
    "run": "a",
    "seed": 0,
    "round": 1,
    "test_accuracy": 0.5,
    "uplink_bytes": 200,
    "downlink_bytes": 6000,
    "clients": 3,
    "payloads": 2,
    "nonfinite_updates": 0,
    "seconds": 0.5,
}


def log(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_all_of_a_folder_is_read(make_folder) -> None:
    (experiment,) = read_experiments([make_folder(repeats=2, rounds=4, target=0.7)])
    assert [run.name for run in experiment.runs] == ["no compression", "top-k 1 %", "top-k 1 %, 8 bits"]
    assert [run.uncompressed for run in experiment.runs] == [True, False, False]
    assert {run.seeds for run in experiment.runs} == {(0, 1)}
    assert {len(rows) for run in experiment.runs for rows in run.repeats} == {4}
    assert (experiment.metric, experiment.target, experiment.rounds) == ("test_accuracy", 0.7, 4)
    assert experiment.tensors[0] == "conv2d/kernel"
    assert experiment.environments[0]["simd"] == "avx512"


def test_a_running_experiment_is_read_up_to_its_last_round(make_folder) -> None:
    folder = make_folder(rounds=5, last={"top-k 1 %": 2, "top-k 1 %, 8 bits": 0})
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"run": "top-k 1 %", "rou')
    (experiment,) = read_experiments([folder])
    assert [(run.name, len(run.repeats[0])) for run in experiment.runs] == [
        ("no compression", 5),
        ("top-k 1 %", 2),
    ]
    assert experiment.waiting == ("top-k 1 %, 8 bits",)


def test_rounds_and_seeds_beyond_the_configuration_are_left_out(make_folder) -> None:
    folder = make_folder(rounds=5, repeats=2)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "rounds": 3, "repeats": 1}))
    (experiment,) = read_experiments([folder])
    assert {run.seeds for run in experiment.runs} == {(0,)}
    assert {len(rows) for run in experiment.runs for rows in run.repeats} == {3}


def test_a_round_that_was_not_measured_has_the_accuracy_of_the_one_before(tmp_path) -> None:
    rows = [{**ROW, "round": i, "test_accuracy": x} for i, x in enumerate([None, 0.5, None, 0.75], start=1)]
    del rows[2]["test_accuracy"]
    (experiment,) = read_experiments([log(tmp_path / "x", *rows)])
    first, *others = [row["test_accuracy"] for row in experiment.runs[0].repeats[0]]
    assert math.isnan(first)
    assert others == [0.5, 0.5, 0.75]


@pytest.mark.parametrize(("metric", "more"), [("test_top5", True), ("test_loss", False)])
def test_another_metric_stands_in_for_an_accuracy(tmp_path, metric, more) -> None:
    row = {key: value for key, value in ROW.items() if key != "test_accuracy"} | {metric: 0.25}
    (experiment,) = read_experiments([log(tmp_path / "x", row)])
    assert (experiment.metric, experiment.more_is_better) == (metric, more)
    assert experiment.runs[0].repeats[0][0]["test_accuracy"] == 0.25


def test_experiments_of_one_name_are_distinguished_by_path(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    folders = [log(tmp_path / "a/x", ROW), log(tmp_path / "b/x", ROW)]
    experiments = read_experiments(folders)
    assert [experiment.label for experiment in experiments] == [str(folder) for folder in folders]
    assert experiments[1].runs[0].label == f"{folders[1]}: a"


def test_folders_without_anything_to_show_are_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.jsonl is empty: no round has finished yet"):
        read_experiments([log(tmp_path / "empty")])
    with pytest.raises(ConfigError, match="named twice"):
        read_experiments([log(tmp_path / "x", ROW), tmp_path / "x" / ".." / "x"])
    with pytest.raises(ConfigError, match="at least one folder"):
        read_experiments([])


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("metrics.jsonl", "{\n" + json.dumps(ROW), r"metrics\.jsonl, line 1, is not JSON"),
        ("metrics.jsonl", "[1]\n", r"metrics\.jsonl, line 1, is not a row of metrics"),
        ("metrics.jsonl", '{"run": "a", "round": 1}\n', r"line 1: uplink_bytes is None; it must be a whole"),
        ("metrics.jsonl", json.dumps({**ROW, "clients": "3"}), r"line 1: clients is '3'; it must be a whole"),
        ("metrics.jsonl", json.dumps({**ROW, "clients": 0}), r"line 1: clients is 0; .* of at least 1"),
        ("metrics.jsonl", "\xff\n", r"metrics\.jsonl is not text in UTF-8"),
        ("config.json", "{", r"config\.json is not JSON"),
        ("model.json", "nonsense", r"model\.json is not JSON"),
        ("environment.json", "[", r"environment\.json is not JSON"),
    ],
)
def test_damaged_files_are_named(tmp_path, file, text, message) -> None:
    folder = log(tmp_path / "x", ROW)
    (folder / file).write_text(text, encoding="latin-1")
    with pytest.raises(StoreError, match=message):
        read_experiments([folder])


@pytest.mark.parametrize("name", ["config.json", "model.json", "provenance.json", "environment.json"])
def test_a_file_that_holds_something_else_counts_as_missing(tmp_path, name) -> None:
    folder = log(tmp_path / "x", ROW)
    (folder / name).write_text('"text"')
    assert read_experiments([folder])[0].runs[0].name == "a"
