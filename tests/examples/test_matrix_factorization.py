"""Embeddings that stay with their users: kept beats made anew; MovieLens files are read or refused."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug.errors import ConfigError


@pytest.fixture(scope="module")
def example(load_example):
    return load_example("matrix_factorization")


@pytest.mark.slow
def test_kept_embeddings_beat_others_find_the_true_factors_and_can_be_compressed(example) -> None:
    data = example.make_ratings(users=60, items=24, per_user=20, rank=2, noise=0.2, seed=0)
    federation = example.Federation(data, rank=2, clients_per_round=15, seed=0)
    results = example.compare(federation, rounds=40)
    kept, compressed = results["kept"], results["kept, top-k 10 %"]
    assert kept.end < 0.8 * federation.item_means()
    assert kept.end < 0.95 * results["reset every round"].end
    assert kept.end < kept.half
    assert kept.recovered > 0.8
    assert compressed.end < 0.9 * federation.item_means()
    assert compressed.bytes_sent < kept.bytes_sent / 2


@pytest.mark.parametrize("separator", ["\t", "::"], ids=["ml-100k", "ml-1m"])
def test_both_movielens_formats_are_read_and_numbered_from_0(example, tmp_path, separator) -> None:
    rows = [(196, 242, 3, 881250949), (186, 302, 3, 891717742), (196, 302, 1, 878887116)]
    path = tmp_path / "ratings"
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))
    data = example.read_movielens(path)
    np.testing.assert_array_equal(data.user, [1, 0, 1])
    np.testing.assert_array_equal(data.item, [0, 1, 1])
    np.testing.assert_array_equal(data.rating, [3, 3, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\t2\t3\t4\n1\t2\n", "line 2"),
        ("1,2,3,4\n", "line 1"),
        ("user::item::rating::time\n", "line 1"),
        ("", "holds no ratings"),
    ],
)
def test_a_file_that_is_not_ratings_is_refused_with_the_line(example, tmp_path, text, message) -> None:
    path = tmp_path / "ratings"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        example.read_movielens(path)
