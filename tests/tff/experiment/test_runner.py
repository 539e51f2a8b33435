"""Tests a whole experiment: its files, how an interrupted one ends, and a folder of an earlier release."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedplug
from fedplug.errors import ConfigError, MissingDependencyError, StoreError, UnknownNameError
from fedplug.stores import open_store
from fedplug.tff import experiment
from fedplug.tff.experiment import records, runner
from fedplug.tff.experiment.config import ExperimentConfig, RunConfig
from fedplug.tff.experiment.data import load_data
from fedplug.tff.experiment.data.federated import Fingerprint
from fedplug.tff.experiment.model.builder import ModelBuilder
from fedplug.tff.experiment.records import MetricsLog, record_environment

DENSE = """
name = "small"
rounds = 3
repeats = 2
clients_per_round = 3
[data]
clients = 6
[model]
hidden = [16]
[[runs]]
name = "dense"
"""
SPARSE = """
[[runs]]
name = "sparse"
encoder = {"*/bias" = "identity", "*" = "topk(0.05)"}
broadcast_encoder = "bfp(5) | rans"
"""
CONFIG = DENSE + SPARSE
ONCE = DENSE.replace("rounds = 3", "rounds = 1").replace("repeats = 2", "repeats = 1")

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def rows(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]


@pytest.fixture(scope="module", autouse=True)
def _built_once() -> Iterator[None]:
    """Makes experiments whose runs, data and models are alike share their processes."""
    build, built = runner._process, {}

    def process(config: ExperimentConfig, run: RunConfig, model: object) -> object:
        key = repr((run, config.data, config.model))
        if key not in built:
            built[key] = build(config, run, model)
        return built[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_process", process)
        yield


def test_an_interrupted_experiment_resumes_and_ends_with_the_same_numbers(
    config, tmp_path, monkeypatch, capsys
) -> None:
    append, write_results = MetricsLog.append, runner.write_results
    # Takes seconds, and is looked at once.
    monkeypatch.setattr(runner, "write_results", lambda folder: None)
    experiment.main(config, tmp_path / "straight")

    def interrupted(log: MetricsLog, row: dict[str, object]) -> None:
        if (row["run"], row["seed"], row["round"]) == ("sparse", 0, 2):
            raise KeyboardInterrupt  # after the commit of the round, before its line in the log
        append(log, row)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsLog, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            experiment.main(config, tmp_path / "resumed")
    experiment.main(config, tmp_path / "resumed")
    assert "resuming after 8 of 12 rounds" in capsys.readouterr().out
    assert rows(tmp_path / "resumed/small") == rows(tmp_path / "straight/small")
    lines = map(json.loads, (tmp_path / "resumed/small/metrics.jsonl").read_text().splitlines())
    untimed = [(row["run"], row["seed"], row["round"]) for row in lines if row["seconds"] is None]
    assert untimed == [("sparse", 0, 2), ("sparse", 0, 3)]  # interrupted; started up again
    # Fewer rounds than there are: a report of the first ones, and nothing is lost.
    monkeypatch.setattr(runner, "write_results", write_results)
    config.write_text(CONFIG.replace("rounds = 3", "rounds = 2\ntarget_accuracy = 1"), encoding="utf-8")
    experiment.main(config, tmp_path / "resumed")
    assert "resuming after 8 of 8 rounds" in (printed := capsys.readouterr().out)
    assert re.search(r"rounds to .*\n +accuracy 1 .*\n-+\ndense +not reached\nsparse +not reached\n", printed)
    first = [
        float(str(row["test_accuracy"]))
        for row in rows(tmp_path / "resumed/small")
        if row["run"] == "dense" and int(str(row["round"])) <= 2
    ]
    assert f"{sum(first) / 4:.4f} ± " in (tmp_path / "resumed/small/table.txt").read_text(encoding="utf-8")
    assert len(rows(tmp_path / "resumed/small")) == 12
    page = (Path(__file__).parents[3] / "docs/experiments.md").read_text(encoding="utf-8")
    assert all(f"`{column}`" in page for row in rows(tmp_path / "straight/small") for column in row)
    (environment,) = json.loads((tmp_path / "resumed/small/environment.json").read_text())
    assert {"since", "fedplug", "tensorflow", "processor", "simd"} <= environment.keys()
    left = {path.name for path in (tmp_path / "resumed/small").iterdir()}
    assert {"config.json", "provenance.json", "table.txt", "accuracy.svg", "report.html", "state"} <= left
    by_run = {(r["run"], r["seed"], r["round"]): r for r in rows(tmp_path / "resumed/small")}
    for seed in (0, 1):
        dense, sparse = (by_run[name, seed, 3] for name in ("dense", "sparse"))
        assert dense["uplink_bytes"] > 9 * sparse["uplink_bytes"]
        assert dense["downlink_bytes"] > 1.5 * sparse["downlink_bytes"]
    assert by_run["dense", 0, 1]["train_loss"] != by_run["dense", 1, 1]["train_loss"]


def test_every_environment_that_rounds_were_made_in_is_written_down_once(tmp_path) -> None:
    path = tmp_path / "environment.json"
    for simd in ("avx2", "avx2", "avx512"):
        record_environment(path, {"simd": simd})
    entries = json.loads(path.read_text(encoding="utf-8"))
    assert [entry["simd"] for entry in entries] == ["avx2", "avx512"]
    assert all(entry["since"] for entry in entries)


def test_every_key_of_a_run_reaches_its_process(config, monkeypatch) -> None:
    monkeypatch.setattr(fedplug.tff.process, "build_weighted_fed_avg", lambda *parts, **keys: (parts, keys))
    run = RunConfig(
        name="all",
        encoder="topk(0.1)",
        broadcast_encoder="bfp(6)",
        aggregator="sum",
        min_size=3,
        proximal_strength=0.5,
    )
    loaded = experiment.config.load_config(config)
    model = ModelBuilder(loaded.model, load_data(loaded.data, seed=0))
    (_, optimizer, _), keys = runner._process(loaded, run, model)
    assert keys.pop("tensor_metrics") is False  # of the experiment
    assert {"name": "all", "proximal_strength": optimizer._strength, **keys} == dataclasses.asdict(run)


def test_another_experiment_does_not_go_into_the_same_folder(config, tmp_path) -> None:
    folder = tmp_path / "runs/small"
    other = {0: Fingerprint(clients=6, examples=1, sha256=64 * "0")}
    records.claim(folder, experiment.config.load_config(config), other)
    with pytest.raises(ConfigError, match="made with other data: 6 clients with 1 examples"):
        experiment.main(config, tmp_path / "runs")
    config.write_text(CONFIG.replace("clients_per_round = 3", "clients_per_round = 2"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"other settings \(clients_per_round\)"):
        experiment.main(config, tmp_path / "runs")


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_a_damaged_description_of_a_folder_is_named(config, tmp_path, text) -> None:
    (tmp_path / "runs/small").mkdir(parents=True)
    (tmp_path / "runs/small/config.json").write_text(text, encoding="latin-1")
    with pytest.raises(StoreError, match=r"config\.json .*remove .*small to start again"):
        experiment.main(config, tmp_path / "runs")


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("topk(0.05)", "topp(0.05)", UnknownNameError, r"run 'sparse': unknown .*did you mean 'topk'"),
        ("rounds = 3", "rounds = 3\nstore = 'sqlit'", UnknownNameError, "did you mean 'sqlite'"),
        ("*/bias", "*/bais", ConfigError, r"'\*/bais' matches no tensor"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_written(config, tmp_path, old, new, error, message) -> None:
    config.write_text(CONFIG.replace(old, new), encoding="utf-8")
    with pytest.raises(error, match=message):
        experiment.main(config, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_missing_matplotlib_is_reported_before_the_training(config, tmp_path, monkeypatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name)
    )
    with pytest.raises(MissingDependencyError, match=r"the report needs Matplotlib.*pip install matplotlib"):
        experiment.main(config, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_folder_in_use_keeps_its_description(config, tmp_path) -> None:
    config.write_text(ONCE, encoding="utf-8")
    experiment.main(config, tmp_path / "runs")
    before = (tmp_path / "runs/small/config.json").read_bytes()
    with open_store(f"sqlite:///{tmp_path / 'runs/small/state'}"):
        config.write_text(DENSE, encoding="utf-8")
        with pytest.raises(StoreError, match="is open elsewhere"):
            experiment.main(config, tmp_path / "runs")
    assert (tmp_path / "runs/small/config.json").read_bytes() == before


def test_a_torn_last_line_of_the_log_is_dropped(tmp_path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for seed in (0, 1):
        for round_num in (1, 2, 3):
            log.append({"run": "a", "seed": seed, "round": round_num})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"run": "a", "rou')
    log.keep_up_to({("a", 0): 2})
    assert [row["round"] for row in log.rows("a", 0)] == [1, 2]
    assert [row["round"] for row in log.rows("a", 1)] == [1, 2, 3]


def test_an_experiment_of_an_earlier_release_continues(tmp_path, capsys):
    shutil.copytree(GOLDEN / "run", tmp_path / "golden")
    config = tmp_path / "run.toml"
    config.write_text((GOLDEN / "run.toml").read_text().replace("rounds = 2", "rounds = 3"))
    experiment.main(config, tmp_path)
    assert "resuming after 2 of 3 rounds" in capsys.readouterr().out
    before, after = (
        list(map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()))
        for folder in (GOLDEN / "run", tmp_path / "golden")
    )
    assert after[:2] == before
    assert after[2]["round"] == 3
