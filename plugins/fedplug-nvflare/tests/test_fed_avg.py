"""Jobs with NVFlare's recipe, controller, clients and simulator."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import reference

from conftest import Jobs


def test_lossless_both_ways_is_plain_fed_avg_bit_for_bit(finished: Jobs) -> None:
    # Two clients, because the order of arrival affects the rounding of three updates.
    job = finished["lossless_both_ways"].result()
    np.testing.assert_array_equal(job.model, finished["plain"].result().model)
    for site in ("site-1", "site-2"):  # a process has only the store of the one before
        assert re.findall(r"model \w+ \((\w+)\): \d+ bytes", job.log(site)) == [
            "snapshot",
            "changes",
            "changes",
        ]


def test_a_lossy_broadcast_costs_less_than_a_point_of_accuracy(finished: Jobs) -> None:
    exact = reference.fed_avg(["topk(0.1)", "topk(0.1)", None], rounds=6)
    model = finished["both_ways"].result().model
    assert reference.accuracy(model, 3) > reference.accuracy(exact, 3) - 0.01


def test_bytes_both_ways_are_in_the_logs(finished: Jobs) -> None:
    job = finished["both_ways"].result()
    received = re.findall(r"model \w+ \(\w+\): (\d+) bytes instead of 2600", job.log("site-1"))
    assert len(received) == 6
    assert sum(map(int, received)) < 2600
    assert len(re.findall(r"update \d+-\w+: \d+ bytes instead of 2600", job.log("site-1"))) == 6
    assert "2 models took" in job.log("server")
    assert "3 updates took" in job.log("server")
    assert "FedplugReceiver" not in job.log("site-3")  # it gets plain weights


def test_topk_continues_after_client_and_job_were_restarted(finished: Jobs) -> None:
    expected = reference.fed_avg(["topk(0.1)"] * 2, rounds=10)
    forgotten = reference.fed_avg(["topk(0.1)"] * 2, rounds=10, forget_at=(8,))
    model = finished["continued"].result().model
    np.testing.assert_allclose(model, expected, rtol=0, atol=1e-5)
    assert np.abs(model - forgotten).max() > 1e-2


def test_a_broken_update_is_refused_and_leaves_the_residual_and_the_others(finished: Jobs) -> None:
    job = finished["mixed"].result()
    assert "update of client 'site-3' refused: tensor 'numpy_key': the checksum" in job.log("server")
    codecs = ["topk(0.1)", None, "topk(0.1)"]
    expected = reference.fed_avg(codecs, rounds=3, refused={(0, "site-3")})
    np.testing.assert_allclose(job.model, expected, rtol=0, atol=1e-5)
    assert "was not accepted by the server; its residual is undone" in job.log("site-3")
    assert "is undone" not in job.log("site-1")
    moved = reference.fed_avg(codecs, rounds=3, refused={(0, "site-3")}, lost={(0, "site-3")})
    assert np.abs(job.model - moved).max() > 1e-3
    receipts = json.loads((job.folder / "server/simulate_job/fedplug_receipts.json").read_text())
    assert sorted(receipts["receipts"]) == ["site-1", "site-3"]


def test_a_round_in_which_all_are_refused_does_not_end_the_job(finished: Jobs) -> None:
    job = finished["all_broken"].result()
    assert "the round is refused: no update was accepted, so the model stays as it is" in job.log("server")
    expected = reference.fed_avg(["topk(0.1)"] * 2, rounds=2, refused={(0, "site-1"), (0, "site-2")})
    np.testing.assert_allclose(job.model, expected, rtol=0, atol=1e-5)


def test_an_encoder_alone_ends_the_job_before_training(finished: Jobs) -> None:
    job = finished["alone"].result()
    assert "Simulation failed" in job.printed
    # The first site that has a task ends the job, perhaps before the other one has begun.
    sites = "".join(log.read_text(encoding="utf-8") for log in job.folder.glob("site-*/log.txt"))
    assert "no FedplugAggregator" in job.log("server")
    assert "give the recipe aggregator=FedplugAggregator()" in sites
    assert "update 0-" not in sites
    assert not job.model_file.exists()


PACKAGE = Path(__file__).parents[1]


def test_the_recipes_of_the_readme_can_be_built(monkeypatch):
    page = (PACKAGE / "README.md").read_text(encoding="utf-8")
    torch_recipe, both_ways = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(PACKAGE / "examples/digits")
    monkeypatch.syspath_prepend(".")
    exec("from model import Digits\n" + torch_recipe + both_ways, {})
