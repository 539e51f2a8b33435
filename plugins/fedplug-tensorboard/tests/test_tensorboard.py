"""Tests that TensorBoard's reader finds scalars by step, each once, also after a resume and a full disk."""

from __future__ import annotations

import errno
import logging
import types

import fedplug_tensorboard
import pytest
from fedplug_tensorboard import Writer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter

from fedplug.registry import resolve

PROCESS_ID = "top-k 1 %, 8/4 bits (seed 0)"
FOLDER = "top-k 1 %, 8_4 bits (seed 0)"
PROCESS = types.SimpleNamespace(tensors=[{"name": "dense/kernel"}, {"name": "dense/bias"}])


def finish(round_num, uplink=None):
    metrics = {"uplink_bytes": uplink or 100 * round_num, "tensors": {"nmse": [0.5, float("nan")]}}
    resolve.notify(
        "fedplug_round_finished",
        process=PROCESS,
        process_id=PROCESS_ID,
        round_num=round_num,
        metrics={"aggregator": metrics},
    )


def evaluate(round_num, accuracy):
    resolve.notify(
        "fedplug_round_evaluated",
        process=PROCESS,
        process_id=PROCESS_ID,
        round_num=round_num,
        metrics={"test_accuracy": accuracy},
    )


@pytest.fixture
def logs(tmp_path):
    fedplug_tensorboard.log_to(tmp_path / "logs")
    yield tmp_path / "logs"
    fedplug_tensorboard.log_to(None)


def another_process(logs):
    """Simulates a new Python process that continues."""
    fedplug_tensorboard.log_to(logs)


def read(folder):
    """``{tag: [(step, value), ...]}``, as TensorBoard shows it."""
    found = EventAccumulator(str(folder)).Reload()
    return {
        tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]
    }


def test_a_training_is_a_folder_of_scalars_by_round(logs):
    for round_num in (1, 2):
        finish(round_num)
        evaluate(round_num, 0.25 * round_num)
    assert read(logs / FOLDER) == {
        "aggregator/uplink_bytes": [(1, 100), (2, 200)],
        "aggregator/tensors/nmse/dense/kernel": [(1, 0.5), (2, 0.5)],
        "evaluation/test_accuracy": [(1, 0.25), (2, 0.5)],
    }


def test_a_resumed_training_has_no_step_twice_and_none_lost(logs):
    finish(1)
    evaluate(1, 0.25)
    finish(2)  # and the process is killed before the evaluation
    another_process(logs)
    evaluate(2, 0.5)
    finish(3)
    another_process(logs)
    finish(3, uplink=7)  # a store that was put back to an older copy: the round is trained again
    assert read(logs / FOLDER) == {
        "aggregator/uplink_bytes": [(1, 100), (2, 200), (3, 7)],
        "aggregator/tensors/nmse/dense/kernel": [(1, 0.5), (2, 0.5), (3, 0.5)],
        "evaluation/test_accuracy": [(1, 0.25), (2, 0.5)],
    }


def test_a_training_that_begins_again_takes_the_place_of_the_last(logs):
    evaluate(0, 0.1)
    finish(1)
    finish(2)
    finish(1, uplink=7)  # in the same Python process
    assert read(logs / FOLDER)["aggregator/uplink_bytes"] == [(1, 7)]
    assert read(logs / FOLDER)["evaluation/test_accuracy"] == [(0, pytest.approx(0.1))]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of TensorBoard's thread
def test_a_full_disk_is_logged_and_later_records_are_read(logs, monkeypatch, caplog):
    def torn(writer, data):
        writer._writer.write(data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    finish(1)
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR, logger="fedplug"):
        patch.setattr(RecordWriter, "write", torn)
        finish(2)
    assert "fedplug_round_finished of fedplug-tensorboard" in caplog.text
    assert "No space left" in caplog.text
    finish(3)
    assert read(logs / FOLDER)["aggregator/uplink_bytes"] == [(1, 100), (3, 300)]


def test_the_environment_says_where_and_an_experiment_has_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPLUG_TENSORBOARD", str(tmp_path / "logs"))
    resolve.notify("fedplug_experiment_started", name="digits", folder=tmp_path, config={})
    try:
        finish(1)
    finally:
        resolve.notify("fedplug_experiment_started", name="", folder=tmp_path, config={})
        fedplug_tensorboard.log_to(None)
    assert read(tmp_path / "logs" / "digits" / FOLDER)["aggregator/uplink_bytes"] == [(1, 100)]


def test_nothing_is_written_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDPLUG_TENSORBOARD", raising=False)
    finish(1)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_alone_takes_any_numbers(tmp_path):
    with Writer(tmp_path / "client 7") as writer:
        writer.write(0, {"dense/kernel/nmse": 0.5})
        writer.write(1, {})
        writer.write(2, {"dense/kernel/nmse": 0.25})
    assert read(tmp_path / "client 7") == {"dense/kernel/nmse": [(0, 0.5), (2, 0.25)]}
