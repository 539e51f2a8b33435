"""Apps run by `flwr run`, in Flower's simulation and on a SuperLink with two SuperNodes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from digits_app import task
from local_flower import Nodes, arrays, record
from processes import SECONDS, Flower, environment
from restart_app import client_app, server_app

HERE = Path(__file__).parent
DIGITS = HERE.parent / "examples" / "digits"

CONFIG = "num-server-rounds=2"
SAID = re.compile(r"accuracy ([0-9.]+), uplink ([0-9,]+) bytes instead of ([0-9,]+)")


@pytest.fixture(scope="module", autouse=True)
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    """Starts the example while the first tests run, because Ray starts slowly."""
    with Flower(tmp_path_factory.mktemp("simulation"), "--simulation") as flower:
        flower.run(DIGITS, CONFIG, "--federation-config", "num-supernodes=3 client-resources-num-cpus=1")
        yield flower


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    with Flower(tmp_path_factory.mktemp("flower")) as flower:
        for client in (0, 1):
            flower.start_node(f"node{client}", client, 2)
        yield flower


def it_learned(flower: Flower, clients: int) -> None:
    """Checks the accuracy and the bytes that the example prints."""
    flower.wait(lambda: SAID.search(flower.log("run")) is not None)
    accuracy, sent, dense = (word.replace(",", "") for word in SAID.search(flower.log("run")).groups())
    assert float(accuracy) > 0.2
    assert int(dense) == 2 * clients * record(task.new_model()).count_bytes()
    assert int(sent) < int(dense) / 40


def test_the_example_on_a_superlink_with_two_supernodes(two_nodes: Flower) -> None:
    two_nodes.run(DIGITS, CONFIG)
    it_learned(two_nodes, 2)


def test_a_restarted_supernode_continues_with_the_same_bits(two_nodes: Flower, nodes: Nodes) -> None:
    folder = two_nodes.folder / "restart"
    folder.mkdir()
    two_nodes.run(HERE / "restart", f"folder='{folder}'")
    two_nodes.wait((folder / "paused").exists)
    two_nodes.stop_node("node0")
    two_nodes.start_node("node0", 0, 2)
    (folder / "go").touch()
    two_nodes.wait((folder / "done").exists)

    for client in (0, 1):
        nodes.add(client + 1, app=client_app.app, **{"partition-id": client})
    expected, _ = nodes.run_rounds(server_app.make_strategy(), (1, 2), arrays(server_app.initial_arrays()))
    with np.load(folder / "arrays.npz") as found:
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert [found["fedplug-compressed"] for found in metrics.values()] == [2, 2]
    ids = re.findall(r"SuperNode ID: (\d+)", two_nodes.log("node0"))
    assert len(set(ids)) == 2


def test_the_example_in_the_simulation(simulation: Flower) -> None:
    it_learned(simulation, 3)
    assert len(list(simulation.home.glob("fedplug/run-*/*/partition-*"))) == 3


def test_the_example_under_secagg_in_the_simulation(tmp_path: Path) -> None:
    """One of eight clients drops out of each of the two rounds."""
    command = [sys.executable, "secagg.py", "2"]
    done = subprocess.run(
        command, cwd=DIGITS, env=environment(tmp_path), capture_output=True, text=True, timeout=2 * SECONDS
    )
    found = re.search(r"accuracy [0-9.]+, masked ([0-9,]+) bytes instead of ([0-9,]+)", done.stdout)
    assert found, done.stdout[-3000:] + done.stderr[-3000:]
    sent, plain = (int(word.replace(",", "")) for word in found.groups())
    assert plain == 2 * 7 * 8 * sum(array.size for array in task.new_model().values())
    assert sent < plain / 70
