"""Tests that MLflow's client reads runs, parameters and metrics by step, each once after a resume."""

from __future__ import annotations

import logging
import subprocess
import sys
import types

import fedplug_mlflow
import pytest
from mlflow import MlflowClient

from fedplug.registry import resolve

PROCESS_ID = "top-k 1 %, 8 bits (seed 0)"
TENSORS = [{"name": "dense/kernel"}, {"name": "dense/bias"}]


def process_with(encoder):
    signature = {"process": "fed_avg", "encoder": {"encoder": encoder}, "broadcast_encoder": None}
    return types.SimpleNamespace(signature=signature, tensors=TENSORS, lowering="fused", dense_bytes=4840)


PROCESS = process_with("topk")


def metrics_of(round_num):
    return {
        "aggregator": {"uplink_bytes": 100 * round_num, "tensors": {"nmse": [0.5, float("nan")]}},
        "client_work": {"train": {"loss": 1 / round_num}},
    }


def finish(round_num, process=PROCESS, process_id=PROCESS_ID):
    resolve.notify(
        "fedplug_round_finished",
        process=process,
        process_id=process_id,
        round_num=round_num,
        metrics=metrics_of(round_num),
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
def uri(tmp_path):
    """Returns the client of a file store that receives rounds."""
    uri = f"file:{tmp_path / 'mlruns'}"
    fedplug_mlflow.log_to(uri)
    yield uri
    fedplug_mlflow.log_to(None)


def another_process(uri):
    """Simulates a new Python process that continues."""
    fedplug_mlflow.log_to(uri)


def runs_in(uri, experiment="fedplug"):
    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    return client.search_runs([found.experiment_id], order_by=["attributes.start_time ASC"])


def steps(uri, run, key):
    history = MlflowClient(tracking_uri=uri).get_metric_history(run.info.run_id, key)
    return [(metric.step, metric.value) for metric in history]


def test_a_training_is_a_run_with_parameters_and_metrics_by_step(uri):
    for round_num in (1, 2):
        finish(round_num)
        evaluate(round_num, 0.25 * round_num)
    (run,) = runs_in(uri)
    assert run.info.run_name == PROCESS_ID
    assert run.data.params == {
        "process": "fed_avg",
        "encoder": '{"encoder": "topk"}',
        "lowering": "fused",
        "dense_bytes": "4840",
    }
    assert steps(uri, run, "aggregator/uplink_bytes") == [(1, 100), (2, 200)]
    assert steps(uri, run, "client_work/train/loss") == [(1, 1.0), (2, 0.5)]
    assert steps(uri, run, "aggregator/tensors/nmse/dense/kernel") == [(1, 0.5), (2, 0.5)]
    assert steps(uri, run, "evaluation/test_accuracy") == [(1, 0.25), (2, 0.5)]
    assert "aggregator/tensors/nmse/dense/bias" not in run.data.metrics  # it is not known


def test_a_resumed_training_continues_its_run_without_steps_twice(uri):
    finish(1)
    evaluate(1, 0.25)
    finish(2)  # and the process is killed before the evaluation
    another_process(uri)
    evaluate(2, 0.5)
    finish(2)  # a store that was put back to an older copy: the round is trained again
    finish(3)
    (run,) = runs_in(uri)
    assert run.info.status == "RUNNING"
    assert steps(uri, run, "aggregator/uplink_bytes") == [(1, 100), (2, 200), (3, 300)]
    assert steps(uri, run, "evaluation/test_accuracy") == [(1, 0.25), (2, 0.5)]


def log_a_round(uri):
    fedplug_mlflow.log_to(uri)
    finish(1)


LOGS_IN_A_CHILD = """
import multiprocessing, runpy, sys

log_a_round = runpy.run_path(sys.argv[1])["log_a_round"]
child = multiprocessing.get_context("fork").Process(target=log_a_round, args=sys.argv[2:])
child.start()
child.join()
"""


def test_it_is_finished_when_a_process_of_multiprocessing_ends(tmp_path):
    uri = f"file:{tmp_path / 'mlruns'}"
    # In a program of its own: threads of gRPC's, which tests before may have left here, survive no fork.
    subprocess.run([sys.executable, "-c", LOGS_IN_A_CHILD, __file__, uri], check=True)
    (run,) = runs_in(uri)
    assert run.info.status == "FINISHED"


def test_a_training_that_begins_again_is_another_run(uri):
    evaluate(0, 0.1)
    finish(1)
    finish(2)
    finish(1)  # in the same Python process
    another_process(uri)
    finish(1)
    assert [steps(uri, run, "aggregator/uplink_bytes") for run in runs_in(uri)] == [
        [(1, 100), (2, 200)],
        [(1, 100)],
        [(1, 100)],
    ]


def test_trainings_of_other_processes_and_ids_are_distinguished(uri):
    finish(1)
    finish(1, process_id="other")
    another_process(uri)
    finish(2)
    finish(2, process=process_with("qsgd"))  # nothing to continue: a run that begins with round 2
    found = [(run.info.run_name, steps(uri, run, "aggregator/uplink_bytes")) for run in runs_in(uri)]
    assert found == [
        (PROCESS_ID, [(1, 100), (2, 200)]),
        ("other", [(1, 100)]),
        (PROCESS_ID, [(2, 200)]),
    ]


def test_the_environment_says_where_and_an_experiment_its_name(tmp_path, monkeypatch):
    uri = f"file:{tmp_path / 'elsewhere'}"
    monkeypatch.setenv("FEDPLUG_MLFLOW", uri)
    resolve.notify("fedplug_experiment_started", name="digits", folder=tmp_path, config={})
    try:
        finish(1)
        (run,) = runs_in(uri, "digits")
        assert run.data.tags["fedplug.process_id"] == PROCESS_ID
    finally:
        resolve.notify("fedplug_experiment_started", name="", folder=tmp_path, config={})
        fedplug_mlflow.log_to(None)


def test_nothing_is_written_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDPLUG_MLFLOW", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'not-for-us'}")
    finish(1)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_written_is_logged_once_and_left_alone(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    fedplug_mlflow.log_to(f"file:{tmp_path / 'file'}")
    try:
        with caplog.at_level(logging.ERROR, logger="fedplug"):
            finish(1)
            finish(2)
    finally:
        fedplug_mlflow.log_to(None)
    (record,) = caplog.records
    assert "fedplug_round_finished of fedplug-mlflow" in record.getMessage()


def test_logs_after_an_experiment_do_not_belong_to_it(uri):
    resolve.notify("fedplug_experiment_started", name="digits", folder=None, config={})
    finish(1)
    fedplug_mlflow.log_to(uri)
    finish(1, process_id="mine")
    assert len(runs_in(uri, "digits")) == 1
    assert len(runs_in(uri)) == 1
