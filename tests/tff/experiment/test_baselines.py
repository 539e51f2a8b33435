"""The presets of published settings, on small files in the layout that TFF's downloads have."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.tff.experiment.config import load_config
from fedplug.tff.experiment.data import load_data
from fedplug.tff.experiment.model.builder import ModelBuilder
from fedplug.tff.experiment.model.evaluator import Evaluator

EXAMPLES = Path(__file__).parents[3] / "examples"
GENERATOR = np.random.default_rng(0)


def feature(value):
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if np.asarray(value).dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=np.ravel(value)))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=np.ravel(value)))


def character():
    return {"pixels": GENERATOR.random((28, 28)), "label": GENERATOR.integers(62)}


def snippet():
    return {"snippets": b"To be, or not to be, that is the question: whether 'tis nobler in the mind" * 2}


def image():
    pixels = GENERATOR.integers(0, 256, (32, 32, 3))
    return {"image": pixels, "label": GENERATOR.integers(100), "coarse_label": 0}


PRESETS = {
    "femnist": ("emnist_all", ("all_train", "all_test"), character),
    "shakespeare": ("shakespeare", ("train", "test"), snippet),
    "cifar100": ("cifar100", ("train", "test"), image),
}


def write_database(path, splits, make):
    """Three clients of five examples in each split, as in TFF's SQLite files."""
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)"
        )
        database.execute(
            "CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)"
        )
        for split in splits:
            for client in ("f0", "f1", "f2"):
                database.execute("INSERT INTO client_metadata VALUES (?, ?, 5)", (client, split))
                for _ in range(5):
                    features = {key: feature(value) for key, value in make().items()}
                    example = tf.train.Example(features=tf.train.Features(feature=features))
                    row = (split, client, example.SerializeToString())
                    database.execute("INSERT INTO examples VALUES (?, ?, ?)", row)
    database.close()


@pytest.fixture
def preset(request, tmp_path):
    """A copy of a preset beside data in its layout."""
    name = request.param
    file, splits, make = PRESETS[name]
    (tmp_path / "data").mkdir()
    write_database(tmp_path / "data" / f"{file}.sqlite", splits, make)
    text = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
    (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    return tmp_path / f"{name}.toml"


@pytest.mark.parametrize(
    "preset",
    ["femnist", *(pytest.param(name, marks=pytest.mark.slow) for name in PRESETS if name != "femnist")],
    indirect=True,
)
def test_a_preset_reads_tffs_files_and_its_model_takes_them(preset) -> None:
    config = load_config(preset)
    data = load_data(config.data, 0, preset.parent)
    assert list(data.clients) == ["f0", "f1", "f2"]
    model = ModelBuilder(config.model, data, preset.parent)
    evaluator = Evaluator(model, data.test)
    assert evaluator.keys[0] == "test_accuracy"
    assert 0 <= evaluator.evaluate(model.initial_weights(0))["test_accuracy"] <= 1

    def batches(round_num):
        return list(data.clients["f1"](round_num).as_numpy_iterator())

    for (x, y), (again_x, again_y) in zip(batches(1), batches(1), strict=True):
        np.testing.assert_array_equal(x, again_x)
        np.testing.assert_array_equal(y, again_y)
    if preset.stem != "shakespeare":  # whose snippets here are all the same
        assert not np.array_equal(batches(1)[0][0], batches(2)[0][0])


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_without_its_data_says_how_to_get_them(name, tmp_path) -> None:
    config = load_config(EXAMPLES / f"{name}.toml")
    with pytest.raises(ConfigError, match=r"there is no .*\.sqlite; .* python -c .*load_data") as caught:
        load_data(config.data, 0, tmp_path)
    assert "\n" not in str(caught.value)
