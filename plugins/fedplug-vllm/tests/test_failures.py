"""Disks, networks and trainers that fail: servers keep the version that they have, and find the next one."""

from __future__ import annotations

import logging
import math
import shutil
import time
from pathlib import Path

import pytest
import torch
from fedplug_vllm.channel import ChannelReader, ChannelWriter
from fedplug_vllm.publisher import Publisher
from fedplug_vllm.staging import Staging
from fsspec.implementations.local import LocalFileSystem
from models import NEVER, Files, Trainer, assert_has, served, wait_for, weights

from fedplug.errors import PayloadError


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ends of the names of files for which there is no room."""
    ends: list[str] = []
    write = LocalFileSystem.pipe_file

    def pipe_file(self: LocalFileSystem, path: str, value: bytes, **options: object) -> None:
        full = path.endswith(tuple(ends))
        write(self, path, value[: len(value) // 2] if full else value, **options)
        if full:
            raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(LocalFileSystem, "pipe_file", pipe_file)
    return ends


@pytest.mark.parametrize("end", ["change", ".json.part"])
def test_after_a_full_disk_the_next_step_leads_on(tmp_path: Path, full_disk: list[str], end: str) -> None:
    trainer = Trainer(tmp_path)
    staging = trainer.server()
    full_disk.append(end)
    with pytest.raises(OSError, match="No space left"):
        trainer.step()
    assert not list(tmp_path.glob("0-2-change")) or end != "change"
    with pytest.raises(PayloadError, match="has no step 2; it has 1 to 1"):
        staging.take(2)
    full_disk.clear()
    trainer.step()
    assert_has(staging.take(3), trainer.model)


def test_ranks_count_alike_after_one_of_them_failed(tmp_path: Path, full_disk: list[str]) -> None:
    ranks = [Publisher(str(tmp_path), part=part, parts=2) for part in (0, 1)]
    full_disk.append("1-2-change")
    for _ in range(2):
        for rank in ranks:
            try:
                rank.publish(weights().items())
            except OSError:
                continue
    full_disk.clear()
    assert [rank.publish(weights().items()).number for rank in ranks] == [3, 3]


def test_a_step_that_a_killed_trainer_left_incomplete_is_never_joined_with_a_new_one(tmp_path: Path) -> None:
    for part, steps in ((0, 3), (1, 2)):
        writer = ChannelWriter(str(tmp_path), part, 2, keep=2)
        for _ in range(steps):
            writer.number += 1
            writer.write("version", None, None, b"", None)
    reader = ChannelReader(str(tmp_path))
    for part in (1, 0):
        writer = ChannelWriter(str(tmp_path), part, 2, keep=2)
        assert writer.number == 2
    assert [reader.manifest(part).last for part in (0, 1)] == [2, 2]


def test_an_old_file_that_is_gone_does_not_stop_the_trainer(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, snapshot_every=1)
    (tmp_path / "0-1-snapshot").unlink()
    for _ in range(2):
        trainer.step()
    assert_has(Staging(trainer.url, poll_seconds=NEVER).take(3), trainer.model)


def test_a_folder_that_vanishes_and_returns(tmp_path: Path) -> None:
    folder, away = tmp_path / "channel", tmp_path / "away"
    trainer = Trainer(folder)
    staging = trainer.server(poll_seconds=0.01)
    folder.rename(away)
    with pytest.raises(PayloadError, match=r"there is no part-0.json yet"):
        staging.take(2)
    with pytest.raises(FileNotFoundError, match="channel/0-2-change"):
        trainer.step()
    away.rename(folder)
    trainer.step()
    assert_has(wait_for(staging, 3), trainer.model)
    staging.close()


def test_the_thread_tries_again_until_a_torn_file_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = Trainer(tmp_path)
    path = tmp_path / "0-1-snapshot"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with caplog.at_level(logging.WARNING, "fedplug"):
        staging = Staging(trainer.url, poll_seconds=0.01)
        while "0-1-snapshot has 100 bytes, and the list says" not in caplog.text:
            time.sleep(0.01)
    path.write_bytes(whole)
    assert_has(wait_for(staging, 1), trainer.model)
    staging.close()


class Unreliable(Files):
    """Serves a folder, and fails in one way after another before each file."""

    failures: list[str]

    def do_GET(self) -> None:  # noqa: N802  # the name that the standard library calls
        failure = self.failures.pop(0) if self.failures else ""
        if failure.isdigit():
            self.send_error(int(failure))
        elif failure:
            data = Path(self.translate_path(self.path)).read_bytes()
            sent = data[:-1] if failure == "short" else data[: len(data) // 2]
            self.send_response(200)
            self.send_header("Content-Length", str(len(sent if failure == "short" else data)))
            self.end_headers()
            self.wfile.write(sent)
            self.close_connection = True
        else:
            super().do_GET()


@pytest.mark.parametrize("failure", ["404", "500", "half", "short"])
@pytest.mark.parametrize("before", [0, 1], ids=["list", "message"])
def test_an_http_server_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failure: str, before: int
) -> None:
    pytest.importorskip("aiohttp")
    trainer = Trainer(tmp_path)
    Unreliable.failures = [""] * before + [failure]
    with served(tmp_path, Unreliable) as url, caplog.at_level(logging.WARNING, "fedplug"):
        staging = Staging(url, poll_seconds=0.01)
        assert_has(wait_for(staging, 1), trainer.model)
        staging.close()
    if (failure, before) != ("404", 0):  # a list that is not there is no failure
        assert "new weights were not staged" in caplog.text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_version_without_a_change_and_one_with_a_nan(tmp_path: Path, dtype: torch.dtype) -> None:
    trainer = Trainer(tmp_path, weights(dtype) | {"empty": torch.zeros(0, 3, dtype=dtype)})
    staging, model = trainer.server(patches=True), trainer.model
    trainer.publisher.publish(model.items())
    same = staging.take(2)
    assert (same.changes, same.fetched_bytes < 1000) == ([], True)
    staging.applied(same)
    model["embed"][3, 4] = math.nan
    trainer.publisher.publish(model.items())
    assert_has(update := staging.take(3), model)  # vLLM cannot patch a NaN
    staging.applied(update)
    model["embed"][3, 4] = 1
    trainer.publisher.publish(model.items())
    (change,) = staging.take(4).changes or ()
    assert (change.indices.tolist(), change.values.tolist()) == ([3 * 16 + 4], [1])


def test_a_folder_without_a_trainer(tmp_path: Path) -> None:
    staging = Staging(str(tmp_path), poll_seconds=0.001)
    time.sleep(0.05)
    assert staging.staged is None
    shutil.rmtree(tmp_path)
    time.sleep(0.05)
    staging.close()
