"""The eight criteria of "Delta weight sync requirements" (ai-dynamo/modelexpress, issue 524), without vLLM.

`test_vllm.py` has those that need a running server, A3 and A8, with vLLM itself.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
import torch
from fedplug_vllm.channel import ChannelReader
from fedplug_vllm.checkpoint import save
from fedplug_vllm.publisher import Publisher
from fedplug_vllm.staging import Staging, Update, as_tensor
from models import NEVER, Trainer, assert_has, bits, trained, wait_for, weights
from safetensors.torch import load_file

from fedplug.errors import PayloadError


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "channel")


def staging_at(url: str, **options: object) -> Staging:
    """A server that stages a version only when it is taken."""
    return Staging(url, poll_seconds=NEVER, **options)  # type: ignore[arg-type]


def patched(model: dict[str, torch.Tensor], update: Update) -> dict[str, torch.Tensor]:
    """Returns a running model after the changed elements were written into it."""
    assert update.changes is not None
    after = {name: tensor.clone() for name, tensor in model.items()}
    for change in update.changes:
        after[change.name].view(-1)[torch.from_numpy(change.indices)] = as_tensor(change.values)
    return after


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert {name: bits(tensor) for name, tensor in found.items()} == {
        name: bits(tensor) for name, tensor in expected.items()
    }


def test_a1_a_trainer_publishes_a_snapshot_and_a_change(url: str) -> None:
    trainer = Trainer(url)
    first, second = trainer.first, trainer.step()
    assert first.change_bytes is None
    assert second.snapshot_bytes is None
    assert second.change_bytes is not None
    assert second.change_bytes < first.snapshot_bytes / 4
    steps = ChannelReader(url).manifest(0).steps
    assert [step.number for step in steps] == [1, 2]
    assert steps[1].base == steps[0].version


def test_a2_a_version_that_was_applied_at_once_is_not_staged_again(url: str) -> None:
    trainer = Trainer(url)
    staging = trainer.server(poll_seconds=0.001)
    time.sleep(0.1)
    assert staging.staged is None
    trainer.step()
    wait_for(staging, 2)
    staging.close()


def test_a2_a_server_has_the_newest_version_staged_also_if_it_is_slower_than_the_trainer(url: str) -> None:
    trainer = Trainer(url)
    staging, running = trainer.server(poll_seconds=0.001, patches=True), trainer.model
    for step in (2, 3):
        trainer.step()
        wait_for(staging, step)
    slow, model = staging.take(3), trainer.model
    trainer.step()
    wait_for(staging, 4)
    assert_same(running := patched(running, slow), model)
    staging.applied(slow)  # the staged changes began at step 1, so they are made again
    wait_for(staging, 4)
    assert_same(patched(running, staging.take(4)), trainer.model)
    staging.close()


def test_a3_the_changed_elements_make_the_running_model_the_new_version(url: str) -> None:
    trainer = Trainer(url)
    staging, running = trainer.server(patches=True), trainer.model
    for step in range(2, 7):
        trainer.step()
        update = staging.take(step)
        running = patched(running, update)
        staging.applied(update)
        assert_same(running, trainer.model)


def test_a4_a_local_checkpoint_follows_and_can_be_reloaded(url: str, tmp_path: Path) -> None:
    trainer = Trainer(url)
    staging = staging_at(url)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"of the checkpoint that was there")
    for step in (2, 3):
        trainer.step()
        save(staging.take(step), folder)
        assert_same(load_file(folder / "model.safetensors"), trainer.model)
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]


class TestA5UnsafeUpdatesAreRefusedAndNameTheReason:
    @pytest.fixture
    def trainer(self, url: str) -> Trainer:
        return Trainer(url, snapshot_every=2)

    @pytest.fixture
    def staging(self, trainer: Trainer) -> Staging:
        """A server with the first version applied, and a second one at the address."""
        staging = trainer.server()
        trainer.step()
        return staging

    def test_a_damaged_message(self, url: str, staging: Staging) -> None:
        path = Path(url) / "0-2-change"
        data = bytearray(path.read_bytes())
        data[-20] ^= 1
        path.write_bytes(data)
        with pytest.raises(PayloadError):
            staging.take(2)
        assert staging.staged is None

    def test_a_base_that_the_server_does_not_have(self, url: str, staging: Staging) -> None:
        path = Path(url) / "part-0.json"
        told = json.loads(path.read_text())
        path.write_text(json.dumps(told | {"steps": told["steps"][1:]}))
        with pytest.raises(PayloadError, match="nothing leads from version None to step 2"):
            staging_at(url).take(2)

    def test_another_model(self, url: str, trainer: Trainer, staging: Staging) -> None:
        forms = {name: ("bfloat16", tuple(tensor.shape)) for name, tensor in trainer.model.items()}
        for expected, message in [
            ({"other": ("bfloat16", (1,))}, "the server's model has no such array"),
            (forms | {"embed": ("bfloat16", (16, 50))}, r"'embed' is bfloat16\[50, 16\]"),
            (forms | {"embed": ("float8_e4m3fn", (50, 16))}, r"has float8_e4m3fn\[50, 16\]"),
        ]:
            with pytest.raises(PayloadError, match=message):
                staging_at(url, expected=expected).take(2)
        as_loaded = staging_at(
            url, expected=forms | {"embed": ("float32", (50, 16)), "buffer": ("int64", ())}
        )
        assert_has(as_loaded.take(2), trainer.model)

    def test_a_model_that_is_too_large(self, url: str, staging: Staging) -> None:
        with pytest.raises(PayloadError, match="bytes, more than the 1,000 allowed"):
            staging_at(url, max_bytes=1000).take(2)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "parts": 0}', '{"format": 1}'])
    def test_a_list_that_is_none(self, url: str, text: str) -> None:
        Path(url).mkdir()
        (Path(url) / "part-0.json").write_text(text)
        with pytest.raises(PayloadError, match=r"part-0.json is not the list"):
            staging_at(url).take(1)

    @pytest.mark.parametrize(
        ("was", "now", "message"),
        [
            ('"format": 1', '"format": 2', "format 2, and this fedplug-vllm reads format 1"),
            *(
                ("0-2-change", name, "not a name of a file beside the list")
                for name in ("../0-2-change", "/etc/hostname", "..", "", "0-2-change/..", "part-0.json")
            ),
        ],
    )
    def test_a_list_of_another_release_or_of_files_elsewhere(
        self, url: str, staging: Staging, was: str, now: str, message: str
    ) -> None:
        path = Path(url) / "part-0.json"
        path.write_text(path.read_text().replace(was, now))
        with pytest.raises(PayloadError, match=message):
            staging.take(2)

    def test_then_a_later_version_leads_on(self, url: str, trainer: Trainer, staging: Staging) -> None:
        (Path(url) / "0-2-change").unlink()
        with pytest.raises(PayloadError, match="is in the trainer's list, and not there"):
            staging.take(2)
        for _ in range(3):  # until the list has only what snapshots lead to
            trainer.step()
        assert_has(staging.take(5), trainer.model)


class TestA6AStaleServerRecovers:
    def test_by_the_changes_that_it_missed(self, url: str) -> None:
        trainer = Trainer(url)
        staging, running = trainer.server(patches=True), trainer.model
        for _ in range(4):
            trainer.step()
        update = staging.take(5)
        assert update.fetched_bytes < sum(tensor.nbytes for tensor in trainer.model.values())
        assert_same(patched(running, update), trainer.model)

    def test_by_a_snapshot_after_a_restart(self, url: str) -> None:
        trainer = Trainer(url, snapshot_every=3)
        for _ in range(10):
            trainer.step()
        update = staging_at(url).take(11)
        assert update.changes is None
        assert_has(update, trainer.model)

    def test_when_the_trainer_restarts(self, url: str) -> None:
        trainer = Trainer(url)
        staging, again = trainer.server(), Trainer(url, trainer.model)
        assert staging.take(2).fetched_bytes == 0
        again.step()
        assert_has(staging.take(3), again.model)

    def test_when_the_trainer_begins_anew_in_an_empty_folder(self, url: str) -> None:
        staging = Trainer(url).server(poll_seconds=0.01)
        shutil.rmtree(url)
        trainer = Trainer(url, trained(weights(), 1))
        wait_for(staging, 1)
        assert_has(staging.take(1), trainer.model)
        staging.close()

    def test_files_that_no_step_needs_are_removed(self, url: str) -> None:
        trainer = Trainer(url, snapshot_every=2)
        for _ in range(8):
            trainer.step()
        names = {path.name for path in Path(url).iterdir()}
        assert names == {"part-0.json", *(f"0-{n}-change" for n in (7, 8, 9)), "0-7-snapshot", "0-9-snapshot"}


def test_a7_bytes_and_seconds_are_reported_apart(url: str) -> None:
    trainer = Trainer(url)
    first = trainer.first
    assert first.model_bytes == sum(tensor.nbytes for tensor in trainer.model.values())
    staging = staging_at(url)
    update = staging.take(1)
    assert update.fetched_bytes == first.snapshot_bytes
    assert {"fetch", "decode", "prepare"} == update.seconds.keys()
    staging.applied(update)
    second = trainer.step()
    assert staging.take(2).fetched_bytes == second.change_bytes


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int8], ids=str
)
def test_a8_a_chain_of_changes_has_the_bits_of_the_trainer(url: str, dtype: torch.dtype) -> None:
    model = {name: tensor.to(dtype) for name, tensor in weights(torch.float32).items()}
    publisher = Publisher(url, snapshot_every=100)
    staging = staging_at(url)
    for step in range(1, 8):
        changed = trained({name: tensor.float() for name, tensor in model.items()}, step)
        model = {name: tensor.to(dtype) for name, tensor in changed.items()}
        publisher.publish(model.items())
        update = staging.take(step)
        staging.applied(update)
        assert_has(update, model)
