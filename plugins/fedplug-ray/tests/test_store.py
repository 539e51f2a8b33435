"""`ray+sqlite://`: training where the states are, and a cluster whose processes are killed at any moment.

`FEDPLUG_KILLS` is the number of kills, 6 unless it is set.
"""

from __future__ import annotations

import collections
import importlib.util
import inspect
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray.runtime.context import create_ray_execution_context

import fedplug
from fedplug.cli import main
from fedplug.errors import ConfigError, StoreInUseError
from fedplug.stores import look_into
from fedplug.stores.sharded.shard import Shard
from fedplug.testing import StateStoreSuite
from fedplug.testing.kills import check_whole, commit_next

KILLS = int(os.environ.get("FEDPLUG_KILLS", "6"))
KILLS_OF_A_DRIVER = 4
DRIVER = pathlib.Path(__file__).with_name("store_driver.py")
PACKAGE = pathlib.Path(__file__).parents[1]
ROOT = PACKAGE.parents[1]
HELPERS = ROOT / "tests" / "stores"


def load(name):
    spec = importlib.util.spec_from_file_location(name, HELPERS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def second_node(cluster, node_command):
    """A second node of the cluster, on this machine."""
    command = node_command(f"--address={cluster.get_runtime_context().gcs_address} --num-cpus=2")
    node = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with node:
        while sum(each["Alive"] for each in cluster.nodes()) < 2:
            assert node.poll() is None
            time.sleep(0.1)
        yield
        node.terminate()


class Count:
    """Counts the bytes that this process serializes for others and receives, without those that Ray adds."""

    def __init__(self, ray, monkeypatch):
        self.sent = self.received = 0
        context = ray._private.worker.global_worker.get_serialization_context()
        serialize, deserialize = context.serialize, context.deserialize_objects

        def counted(value):
            made = serialize(value)
            self.sent += made.total_bytes
            return made

        def taken(objects, *arguments):
            self.received += sum(len(data) for data, *_ in objects if data is not None)
            return deserialize(objects, *arguments)

        monkeypatch.setattr(context, "serialize", counted)
        monkeypatch.setattr(context, "deserialize_objects", taken)


STATE = 500_000  # parameters of which a client keeps the residual


def data_of(client):
    rng = np.random.default_rng(client)
    x, y = rng.normal(size=(16, 20)).astype(np.float32), rng.integers(0, 3, 16).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


def trained(process, url, rounds):
    with fedplug.open_store(url) as store:
        data = {f"client {i}": data_of(i) for i in range(8)}
        trainer = fedplug.Trainer(process, data, clients_per_round=6, store=store)
        state = trainer.run(rounds)
        kept = store.open_process("default")
        kept.verify()
        return state.global_model_weights, kept.read_clients(kept.client_ids()), len(store.machines)


def test_training_where_the_states_are_has_the_same_bits_on_any_machines(
    process, on_ray, second_node, tmp_path, assert_same_bits
):
    on_ray(1)
    url = f"ray+sqlite:///{tmp_path}/{{}}?partitions=4"
    *expected, machines = trained(process, url.format("a"), 3)
    assert machines == 2
    on_ray(2)
    trained(process, url.format("b"), 2)
    with fedplug.open_store(url.format("b")) as store:
        store.drain({min(store.machines)})
    *found, _ = trained(process, url.format("b") + "&replicas=1", 3)  # goes on, after states moved twice
    assert_same_bits(found, expected)
    with fedplug.use_runtime("inprocess"):  # by value
        *found, _ = trained(process, url.format("c"), 3)
    assert_same_bits(found, expected)


def test_the_lines_of_the_documentation_run(process, on_ray, tmp_path, monkeypatch):
    page = ROOT / "docs" / "scaling.md"
    *_, lines, _ = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    on_ray(2)
    monkeypatch.chdir(tmp_path)
    names = {"fedplug": fedplug, "process": process, "client_data": {"a": data_of(0), "b": data_of(1)}}
    exec(lines.replace("run(100)", "run(1)"), names)
    with names["store"] as store:
        assert store.open_process("default").last_round == 1


def test_the_lines_of_the_readme_run(on_ray, tmp_path, monkeypatch):
    [lines] = re.findall(
        r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    on_ray(2)
    monkeypatch.chdir(tmp_path)
    started = []
    monkeypatch.setattr(fedplug, "use_runtime", lambda *name, **options: started.append((name, options)))
    exec(lines, names := {})
    names["store"].close()
    [(name, options)] = started
    assert name == ("ray",)
    inspect.signature(create_ray_execution_context).bind(**options)


def test_no_state_passes_through_the_driver(on_ray, cluster, second_node, tmp_path, monkeypatch):
    state = tff.TensorType(np.float32, [STATE])

    @tff.tensorflow.computation(state)
    def next_state(value):
        return value + 1.0

    @tff.federated_computation(tff.FederatedType(state, tff.CLIENTS))
    def next_round(states):
        return tff.federated_map(next_state, states)

    clients = [f"client {i}" for i in range(24)]
    on_ray(2)
    with fedplug.open_store(f"ray+sqlite:///{tmp_path}/s?partitions=4") as store:
        kept = store.open_process("p", {})
        initial = {"": np.zeros(STATE, np.float32)}
        count = Count(cluster, monkeypatch)
        for number in range(3):
            before = count.sent, count.received
            staged = next_round(kept.references(clients, initial))
            kept.commit(number, client_states=dict(zip(clients, staged, strict=True)), server_state={})
        sent, received = count.sent - before[0], count.received - before[1]
        assert 0 < sent < 2000 * len(clients)
        assert 0 < received < 1000 * len(clients)
        monkeypatch.undo()
        np.testing.assert_array_equal(kept.read_clients(["client 7"])["client 7"][""], np.full(STATE, 3.0))


@pytest.mark.slow
def test_killed_processes_leave_one_round_whole(cluster, second_node, tmp_path):
    address, log = cluster.get_runtime_context().gcs_address, tmp_path / "s.kills"
    environment = {**os.environ, "PYTHONPATH": str(HELPERS)}
    possible, kills = "-1", []
    for seed in itertools.count():
        arguments = address, tmp_path / "s", seed, possible, min(KILLS_OF_A_DRIVER, KILLS - len(kills))
        done = subprocess.run(
            [sys.executable, str(DRIVER), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        before, kills = len(kills), log.read_text().splitlines()
        assert done.returncode == -9, done.stderr
        assert any(kill.startswith("the driver") for kill in kills[before:])
        # Ray writes there, too, when it sees a process die.
        said = [line for line in done.stdout.splitlines() if re.fullmatch(r"-?\d+( -?\d+)*", line)]
        possible = said[-1] if said else possible
        if len(kills) >= KILLS:
            break
    assert possible != "-1"
    print(*(f"{number} of {kill}" for kill, number in sorted(collections.Counter(kills).items())), sep="\n")


@pytest.mark.slow
def test_a_shard_on_a_slow_disk_commits_all_or_nothing_and_may_be_killed(cluster, tmp_path):
    slow_disk = load("slow_disk")
    if not slow_disk.usable():
        pytest.skip("strace is not installed, or may not be used")
    with fedplug.open_store(f"ray+sqlite:///{tmp_path}/s?partitions=4") as store:
        process = store.open_process("p", {})
        check_whole(process, commit_next(process))
        shard = store.fleet._actors[min(store.machines)]
        for delay in (None, 0.02, 0.1):
            pid = cluster.get(shard.__ray_call__.remote(lambda self: os.getpid()))
            with slow_disk.slowed_down(pid):
                killer = threading.Timer(delay or 0.0, os.kill, [pid, signal.SIGKILL if delay else 0])
                killer.start()
                number = commit_next(process)
                killer.join()  # while the process is there, though the commit was faster than the kill
            check_whole(process, number)
        assert number == 3


def test_a_shard_reports_its_waiting_times(cluster, tmp_path, monkeypatch):
    actor = importlib.import_module("fedplug_ray.shards.actor")
    monkeypatch.setattr(actor, "_PREDECESSOR_SECONDS", 0.2)
    before = Shard(tmp_path, "before")
    with pytest.raises(
        StoreInUseError, match=r"open elsewhere.*; waited 0.2 s for the previous driver's shard"
    ):
        actor.ShardActor(str(tmp_path), "after").call("verify", "p", 0, [])
    before.close()


class RayStoreSuite(StateStoreSuite):
    def make_store(self, folder):
        return fedplug.open_store(f"ray+sqlite:///{folder}/store")


# The others are about what the driver does: `tests/stores/test_sharded.py` runs them all, without a cluster.
@pytest.mark.parametrize(
    "check",
    [
        "test_every_dtype_and_shape_comes_back_bit_for_bit",
        "test_any_text_is_a_process_id_a_client_id_and_a_tensor_name",
        "test_a_commit_that_is_refused_changes_nothing",
        "test_changing_arrays_handed_in_or_out_changes_nothing",
        "test_committed_data_survives_reopening_the_store",
    ],
)
def test_it_keeps_the_promises_of_a_store(cluster, check):
    getattr(RayStoreSuite(), check)()


def test_it_has_one_user_at_a_time(cluster, tmp_path):
    with fedplug.open_store(f"ray+sqlite:///{tmp_path}/s") as store:
        assert store.get_config() == {
            "path": f"{tmp_path}/s",
            "replicas": 0,
            "lost": "fail",
            "partitions": None,
            "keep_rounds": 1,
        }
        with pytest.raises(StoreInUseError):
            fedplug.open_store(f"ray+sqlite:///{tmp_path}/s")


@pytest.mark.slow
def test_it_goes_back_on_all_machines(process, on_ray, second_node, tmp_path, assert_same_bits, capsys):
    url = f"ray+sqlite:///{tmp_path}/{{}}?partitions=4&replicas=1&keep_rounds=3"
    on_ray(2)
    *expected, machines = trained(process, url.format("a"), 4)
    assert machines == 2
    trained(process, url.format("b"), 4)
    with fedplug.open_store(url.format("b")) as store:
        assert store.open_process("default").kept_rounds() == [2, 3, 4]
        store.drain({min(store.machines)})
    assert main(["store", "rewind", url.format("b"), "2"]) == 0  # to before states moved
    assert "is rolled back from round 4 to round 2" in capsys.readouterr().out
    assert main(["store", "rewind", url.format("b"), "3"]) == 2
    assert "round 3 of process 'default' is not kept; kept are: 2" in capsys.readouterr().err
    *found, _ = trained(process, url.format("b"), 4)  # rounds 3 and 4 again
    assert_same_bits(found, expected)


def test_the_commands_copy_it_and_name_unsupported_operations(cluster, second_node, tmp_path, capsys):
    url, copy, back = f"ray+sqlite:///{tmp_path}/s", tmp_path / "copy", f"ray+sqlite:///{tmp_path}/back"
    with fedplug.open_store(f"{url}?replicas=1") as store:
        last = [commit_next(store.open_process("p", {}), 100) for _ in range(4)][-1]
        assert main(["store", "copy", url, str(copy)]) == 2
        assert "is open elsewhere" in capsys.readouterr().err
    for source, target in ((url, str(copy)), (str(copy), back)):
        assert main(["store", "copy", source, target]) == 0
        assert main(["store", "verify", target]) == 0
        with fedplug.open_store(target if "://" in target else f"sqlite:///{target}") as store:
            check_whole(store.open_process("p"), last)
    with look_into(url) as store:  # as did copy
        process = store.open_process("p")
        assert process.record.replicas == 1
        process.verify()
    capsys.readouterr()
    assert main(["store", "verify", f"ray+sqlite:///{tmp_path}/typo"]) == 2
    assert "there is no sharded store in" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    assert main(["store", "repair", url]) == 2
    assert "the folders 'index' and 'shards/NAME/states' on their machines" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["ray://x", "ray+sqlite://x", "ray+sqlite:///", "ray+sqlite:///~/x", "ray+sqlite:///x?copies=1"]
)
def test_an_invalid_url_is_refused(url):
    with pytest.raises(ConfigError, match=r"ray\+"):
        fedplug.open_store(url)
