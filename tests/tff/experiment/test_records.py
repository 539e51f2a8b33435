"""Tests that only an experiment with the same settings and data continues in a folder, and its records."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedplug.errors import ConfigError, PluginError, StoreError, UnknownNameError
from fedplug.tff.experiment.config import ExperimentConfig, load_config
from fedplug.tff.experiment.data.federated import Examples, FederatedData, fingerprint
from fedplug.tff.experiment.records import Provenance, check_data, check_settings, claim

DENSE = """
name = "small"
rounds = 3
clients_per_round = 3
[data]
clients = 6
[model]
hidden = [16]
[[runs]]
name = "dense"
"""
CONFIG = DENSE + '[[runs]]\nname = "sparse"\nencoder = "topk(0.1)"\n'

Reader = Callable[[str], ExperimentConfig]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "small"


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """A configuration from its text."""

    def read(text: str) -> ExperimentConfig:
        path = tmp_path / "small.toml"
        path.write_text(text, encoding="utf-8")
        return load_config(path)

    return read


def data(ones: float = 1.0, client: str = "b", test: float = 0.0) -> FederatedData:
    clients = {"a": (0.0, 2), client: (ones, 3)}
    return FederatedData(
        {name: examples(value, count) for name, (value, count) in clients.items()}, examples(test, 4)
    )


def examples(value: float, count: int) -> Examples:
    return Examples(np.full([count, 5], value, np.float32), np.arange(count, dtype=np.int32))


def test_runs_may_be_added_to_a_folder_but_not_changed_or_left_out(folder, read) -> None:
    claim(folder, read(CONFIG), {})
    check_settings(folder, read(CONFIG + '[[runs]]\nname = "more"\nencoder = "qsgd(4)"\n'))
    for other in (DENSE, CONFIG.replace("topk(0.1)", "topk(0.2)")):
        with pytest.raises(ConfigError, match=r"other settings \(run 'sparse'\)"):
            check_settings(folder, read(other))


def test_a_folder_without_a_newer_key_is_continued(folder, read) -> None:
    claim(folder, read(CONFIG), {})
    found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del found["target_accuracy"]
    for run in found["runs"]:
        del run["proximal_strength"]
    (folder / "config.json").write_text(json.dumps(found), encoding="utf-8")
    check_settings(folder, read("target_accuracy = 0.9\n" + CONFIG))
    with pytest.raises(ConfigError, match=r"other settings \(run 'sparse'\)"):
        check_settings(folder, read(CONFIG + "proximal_strength = 0.1\n"))
    (folder / "config.json").write_text(json.dumps({**found, "of_tomorrow": 1}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"unknown key 'of_tomorrow' in .*config\.json"):
        check_settings(folder, read(CONFIG))


def test_a_disk_that_is_full_leaves_the_description_of_the_folder(folder, read, monkeypatch) -> None:
    claim(folder, read(CONFIG), {})
    before = (folder / "config.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot write .*config\.json: No space left"):
        claim(folder, read(CONFIG.replace("rounds = 3", "rounds = 4")), {})
    assert (folder / "config.json").read_bytes() == before


@pytest.mark.parametrize("other", [data(ones=2.0), data(client="c"), data(test=1.0)])
def test_rounds_of_other_data_are_not_continued(folder, read, other) -> None:
    claim(folder, read(CONFIG), {0: fingerprint(data())})
    check_data(folder, {0: fingerprint(data())})
    with pytest.raises(
        ConfigError, match=r"made with other data: 2 clients with 5 examples \(sha256 .*\) then, "
    ):
        check_data(folder, {0: fingerprint(other)})


def test_a_seed_may_be_added_and_those_of_before_are_remembered(folder, read) -> None:
    claim(folder, read(CONFIG), {0: fingerprint(data())})
    check_data(folder, {1: fingerprint(data(2.0))})
    claim(folder, read(CONFIG), {1: fingerprint(data(2.0))})
    for seed, other in ((0, data(2.0)), (1, data())):
        with pytest.raises(ConfigError, match="made with other data"):
            check_data(folder, {seed: fingerprint(other)})


def test_data_that_are_made_when_they_are_read_are_not_compared(folder, read) -> None:
    unknown = data()._replace(clients={"a": lambda round_num: None})
    assert fingerprint(unknown) is None
    claim(folder, read(CONFIG), {0: None})
    assert not (folder / "data.json").exists()
    check_data(folder, {0: fingerprint(data())})


@pytest.mark.parametrize("text", ['{"0": 1}', '{"zero": {}}', '{"0": {"clients": 1}}'])
def test_damaged_fingerprints_are_named(folder, text) -> None:
    folder.mkdir()
    (folder / "data.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=r"data\.json has no valid fingerprints"):
        check_data(folder, {0: fingerprint(data())})


GONE = {"kind": "encoder", "name": "gone", "distribution": "gone-codec", "version": "1.2"}
HERE = {"kind": "encoder", "name": "topk", "distribution": "fedplug", "version": "0.1.0"}


def look_up(provenance, run):
    with provenance.naming_what_is_missing(run):
        raise UnknownNameError("encoder", "gone", ["topk"])


def test_a_missing_part_is_named_with_its_package(tmp_path):
    provenance = Provenance(tmp_path / "provenance.json")
    provenance.write({"sparse": [HERE, GONE], "dense": [HERE]})
    with pytest.raises(PluginError, match=r"unknown encoder.*pip install gone-codec==1\.2.*provenance\.json"):
        look_up(provenance, "sparse")


@pytest.mark.parametrize("run", ["dense", "another"])
def test_an_unknown_name_stays_the_same_error(tmp_path, run):
    provenance = Provenance(tmp_path / "provenance.json")
    provenance.write({"sparse": [HERE, GONE], "dense": [HERE]})
    with pytest.raises(UnknownNameError, match="known: topk"):
        look_up(provenance, run)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_folder_without_such_a_file_is_no_problem(tmp_path, text):
    (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(UnknownNameError):
        look_up(Provenance(tmp_path / "provenance.json"), "sparse")
    with pytest.raises(UnknownNameError):
        look_up(Provenance(tmp_path / "nothing.json"), "sparse")
