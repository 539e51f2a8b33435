"""The addresses that a trainer can write to, and the parts of several ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fedplug_vllm.publisher import Publisher, shards
from fedplug_vllm.staging import Staging
from models import NEVER, Trainer, assert_has, bits, served, trained, weights

from fedplug.errors import ArgumentError, PayloadError


def assert_follows(writer_url: object, reader_url: str) -> None:
    trainer = Trainer(writer_url)
    staging = Staging(reader_url, poll_seconds=NEVER)
    for step in (1, 2, 3):
        update = staging.take(step)
        staging.applied(update)
        assert_has(update, trainer.model)
        trainer.step()


def test_an_object_store() -> None:
    assert_follows("memory://bucket/run", "memory://bucket/run")


def test_http_from_the_folder_of_the_trainer(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    with served(tmp_path) as url:
        assert_follows(tmp_path, url)


class Sharded:
    """A DTensor, as far as `shards` reads it."""

    def __init__(self, whole: torch.Tensor, rank: int, ranks: int, placement: str = "S(0)") -> None:
        self.shape, self.placements, self.ndim = whole.shape, (placement,), 1
        each = -(-len(whole) // ranks)
        self._rows = whole[each * rank : each * (rank + 1)]
        self.device_mesh = self
        self.size, self.get_local_rank = lambda: ranks, lambda: rank

    def to_local(self) -> torch.Tensor:
        return self._rows


@pytest.mark.parametrize("ranks", [2, 3, 40])
def test_each_rank_sends_its_rows_and_nobody_gathers(tmp_path: Path, ranks: int) -> None:
    model = weights() | {"empty": torch.zeros(0, 4)}
    publishers = [Publisher(str(tmp_path), part=rank, parts=ranks) for rank in range(ranks)]
    whole = Staging(str(tmp_path), poll_seconds=NEVER)
    changed = Staging(str(tmp_path), poll_seconds=NEVER, patches=True)
    for step in (1, 2, 3):
        model = trained(model, step)
        for rank, publisher in enumerate(publishers):
            named = {
                name: Sharded(tensor, rank, ranks) if tensor.ndim else tensor
                for name, tensor in model.items()
            }
            publisher.publish(*_items(shards(named.items())))  # type: ignore[arg-type]
        assert_has(whole.take(step), model)
        update = changed.take(step)
        assert (update.changes is None) == (step == 1)
        for change in update.changes or ():
            values = model[change.name].view(-1)[torch.from_numpy(change.indices)]
            assert bits(values) == change.values.tobytes()
        changed.applied(update)


def _items(sharded: tuple[dict, dict]) -> tuple[object, dict]:
    local, layout = sharded
    return local.items(), layout


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    tensor = weights()["embed"]
    local, layout = shards([("embed", Sharded(tensor, 0, 2))])  # type: ignore[list-item]
    Publisher(str(tmp_path), part=0, parts=2).publish(local.items(), layout)
    staging = Staging(str(tmp_path), poll_seconds=NEVER)
    with pytest.raises(PayloadError, match=r"there is no part-1.json yet"):
        staging.take(1)


def test_parts_that_do_not_make_a_whole_are_refused(tmp_path: Path) -> None:
    tensor = weights()["embed"]
    local, layout = shards([("embed", Sharded(tensor, 0, 2))])  # type: ignore[list-item]
    Publisher(str(tmp_path)).publish(local.items(), layout)
    with pytest.raises(PayloadError, match="array 'embed' has 50 rows, and the ranks sent 25"):
        Staging(str(tmp_path), poll_seconds=NEVER).take(1)


def test_a_parameter_that_is_sharded_by_another_dimension_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'embed' is sharded as"):
        shards([("embed", Sharded(weights()["embed"], 0, 2, "S(1)"))])  # type: ignore[list-item]


@pytest.mark.parametrize("options", [{"part": 2, "parts": 2}, {"part": -1}, {"snapshot_every": 0}])
def test_impossible_numbers_are_refused(tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match="part is"):
        Publisher(str(tmp_path), **options)


def test_the_base_of_a_change_is_kept_whatever_the_size_of_the_model(tmp_path):
    publisher = Publisher(str(tmp_path))
    # The default is 2 GiB, which two versions of a billion weights exceed.
    assert publisher._broadcaster._keep_bytes > 2**50
