"""Tests the sources of data, and the partitions: disjoint, complete, and the same for the same seed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fedplug.errors import ConfigError
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data import Examples, load_data
from fedplug.tff.experiment.data import load as partitions

X = np.arange(60, dtype=np.float64).reshape(20, 3)
Y = np.arange(20) % 2
CLIENT = np.repeat(["b", "a"], 10)


def write_npz(folder, **arrays):
    np.savez(folder / "data.npz", **arrays)
    return DataConfig(source="npz", path="data.npz", clients=2, dirichlet=100.0)


def write_csv(folder, text, **keys):
    (folder / "data.csv").write_text(text, encoding="utf-8")
    return DataConfig(source="csv", path="data.csv", **keys)


def all_of(data):
    """Every example there is, clients' and test, sorted by its first input."""
    parts = [*data.clients.values(), data.test]
    x, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(x[:, 0])
    return x[order], y[order]


@pytest.mark.needs("sklearn")
def test_digits_are_1797_images_with_a_held_out_test_set() -> None:
    data = load_data(DataConfig(), seed=0)
    assert len(data.clients) == 40
    assert len(data.test.y) == 360
    assert sum(len(c.y) for c in data.clients.values()) == 1797 - 360
    assert data.test.x.shape == (360, 8, 8, 1)
    assert data.test.x.dtype == np.float32
    assert 0 <= data.test.x.min() < data.test.x.max() == 1


def test_an_npz_is_spread_over_clients_and_loses_no_example(tmp_path) -> None:
    data = load_data(write_npz(tmp_path, x=X, y=Y), 0, tmp_path)
    assert list(data.clients) == ["client000", "client001"]
    x, y = all_of(data)
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)
    assert np.bincount(data.test.y).tolist() == [2, 2]


def test_ids_in_an_npz_are_its_clients_and_each_gives_test_examples(tmp_path) -> None:
    data = load_data(write_npz(tmp_path, x=X, y=Y, client=CLIENT), 0, tmp_path)
    assert {name: len(part.y) for name, part in data.clients.items()} == {"a": 8, "b": 8}
    assert (data.clients["b"].x < 30).all()
    assert sorted(data.test.x[:, 0] < 30) == [False, False, True, True]


def test_test_examples_in_an_npz_are_the_test_and_nothing_is_held_out(tmp_path) -> None:
    data = load_data(write_npz(tmp_path, x=X, y=Y, x_test=X[:3], y_test=Y[:3]), 0, tmp_path)
    np.testing.assert_array_equal(data.test.x, X[:3])
    assert sum(len(part.y) for part in data.clients.values()) == 20


@pytest.mark.parametrize(
    ("x", "y", "expected_x", "expected_y"),
    [
        (np.full((20, 2), 51, np.uint8), Y, (np.float32, np.float32(0.2)), np.int32),
        (np.full((20, 2), 300), Y, (np.int32, 300), np.int32),
        (X[:, :2] * 0, Y / 7, (np.float32, 0), np.float32),
        (np.ones((20, 2), bool), Y.astype(bool), (np.float32, 1), np.int32),
    ],
)
def test_arrays_come_in_the_dtypes_that_models_take(tmp_path, x, y, expected_x, expected_y) -> None:
    test = load_data(write_npz(tmp_path, x=x, y=y), 0, tmp_path).test
    assert (test.x.dtype, test.x[0, 0], test.y.dtype) == (*expected_x, expected_y)


def test_labels_that_are_text_are_numbered_in_the_order_of_their_names(tmp_path) -> None:
    names = np.array(["cat", "ant"])[Y]
    _, y = all_of(load_data(write_npz(tmp_path, x=X, y=names), 0, tmp_path))
    np.testing.assert_array_equal(y, 1 - Y)


def test_the_columns_of_a_csv_are_features_label_and_client(tmp_path) -> None:
    lines = "".join(f"{'ab'[i % 2]},{i},{i % 3},{i / 2}\n" for i in range(20))
    config = write_csv(tmp_path, f"who,height,kind,width\n{lines}", label_column="kind", client_column="who")
    data = load_data(config, 0, tmp_path)
    assert list(data.clients) == ["a", "b"]
    x, y = all_of(data)
    np.testing.assert_array_equal(x, [[i, i / 2] for i in range(20)])
    np.testing.assert_array_equal(y, np.arange(20) % 3)


def test_synthetic_data_is_that_of_the_paper() -> None:
    config = DataConfig(source="synthetic", clients=30, alpha=0.5, beta=0.5, test_fraction=0.1)
    data, same, other = (load_data(config, seed) for seed in (0, 0, 1))
    assert len(data.clients) == 30
    assert data.test.x.shape[1:] == (60,)
    assert set(np.unique(data.test.y)) <= set(range(10))
    sizes = np.array([len(part.y) for part in data.clients.values()])
    assert sizes.min() >= 45  # nine tenths of at least 50
    assert sizes.max() > 5 * np.median(sizes)  # the heavy tail of lognormal(4, 2)
    largest = max(data.clients.values(), key=lambda part: len(part.y))
    deviations = largest.x.std(axis=0)
    np.testing.assert_allclose(deviations, np.arange(1, 61) ** -0.6, rtol=0.2)
    np.testing.assert_array_equal(data.test.x, same.test.x)
    assert not np.array_equal(data.test.x[:9], other.test.x[:9])


FUNCTIONS = """
import numpy as np
x, y = np.ones((20, 3)), np.arange(20) % 2
def pooled(seed, path, scale):
    return {"x": x * scale + seed, "y": y, "client": [path.name] * 20}
def by_client():
    return {"clients": {"a": (x, y), "b": lambda round_num: (x, y)}, "test": (x, y)}
def nothing():
    return {"clients": {}, "test": (x, y)}
def numbered():
    return {"clients": {1: (x, y)}, "test": (x, y)}
def empty():
    return {"clients": {"a": (x[:0], y[:0])}, "test": (x, y)}
def unlike():
    return {"clients": {"a": (x, y), "b": (x[:, :2], y)}, "test": (x, y)}
def text():
    return {"clients": {"a": "x"}, "test": (x, y)}
def other():
    return x, y
def wrong():
    raise RuntimeError("no disk\\nat all")
def strict(rows):
    return {}
value = 3
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """A module of a user, of another name in every test, beside the configuration."""
    name = f"mine_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def test_a_function_brings_arrays_and_gets_its_arguments(functions, tmp_path) -> None:
    config = DataConfig(source=f"{functions}:pooled", path="there", arguments={"scale": 2.0})
    data = load_data(config, 5, tmp_path)
    assert list(data.clients) == ["there"]
    assert (data.test.x == 7).all()


def test_a_function_brings_clients(functions, tmp_path) -> None:
    data = load_data(DataConfig(source=f"{functions}:by_client"), 0, tmp_path)
    assert isinstance(data.clients["a"], Examples)
    assert callable(data.clients["b"])
    assert data.test.x.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "returned no clients; clients must be a mapping"),
        ("numbered", "the client id 1 is not text"),
        ("empty", "client 'a': there are no examples"),
        ("unlike", r"client 'b' is float32\[2\], int32\[\]; it must be float32\[3\], int32\[\], like .* 'a'"),
        ("text", "client 'a' is a str; it must be a pair of arrays"),
        (
            "other",
            "returned a tuple; it must be a dictionary with the keys x and y, or with clients and test",
        ),
        ("wrong", "failed: RuntimeError: no disk$"),
        ("strict", "cannot be called: missing a required argument: 'rows'; available are .* path, seed"),
        ("wring", "unknown function 'wring' in .*did you mean 'wrong'"),
        ("value", "this is a int, but it must be a function"),
    ],
)
def test_an_invalid_function_is_an_error_of_one_line(functions, tmp_path, name, message) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_data(DataConfig(source=f"{functions}:{name}"), 0, tmp_path)
    assert "[data] source" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "source", "message"),
    [
        (
            None,
            "no_such_module_here:f",
            "there is no module 'no_such_module_here' in .*and none is installed",
        ),
        ("import absent_of_all", "broken:f", "importing it failed: ModuleNotFoundError: .*absent_of_all"),
        ("1 +", "unread:f", "importing it failed: SyntaxError"),
        ("raise SystemExit(3)", "exits:f", "importing it failed: SystemExit: 3"),
        (None, "a b:f", "must have the form 'package.module:function'"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_line(functions, tmp_path, text, source, message) -> None:
    del functions
    if text:
        (tmp_path / f"{source.partition(':')[0]}.py").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_data(DataConfig(source=source), 0, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "lacks the array 'y'; it has x"),
        ({"x": X, "y": Y, "x_test": X}, "lacks the array 'y_test'"),
        ({"x": X, "y": Y, "clients": CLIENT}, "unknown array 'clients' in .*did you mean 'client'"),
        ({"x": X, "y": Y[:-1]}, "x has 20 examples and y 19"),
        ({"x": X[:0], "y": Y[:0]}, "there are no examples"),
        ({"x": X, "y": Y - 1}, "y has the label -1"),
        ({"x": np.where(X == 4, np.nan, X), "y": Y}, "x has 1 values that are not finite"),
        ({"x": X.astype(str), "y": Y}, "x is <U32.*it must be an array of numbers"),
        ({"x": X.astype(object), "y": Y}, "Python objects, which are refused"),
        ({"x": X, "y": Y + 2**40}, "y ranges from .* it must fit into int32"),
        ({"x": X, "y": Y, "client": CLIENT[:3]}, r"client is <U1\[3\]; it must have an id.* the 20 examples"),
        (
            {"x": X, "y": Y, "x_test": X[:, :2], "y_test": Y},
            r"x_test is float32\[2\]; it must be float32\[3\]",
        ),
    ],
)
def test_an_invalid_npz_is_an_error_of_one_line(tmp_path, arrays, message) -> None:
    config = write_npz(tmp_path, **arrays)
    with pytest.raises(ConfigError, match=message) as caught:
        load_data(config, 0, tmp_path)
    assert "\n" not in str(caught.value)
    assert "data.npz" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown column 'label' in .*data.csv"),
        ("label,x\n", "no line after its header"),
        ("label,x\n1,2\n1\n", "line 3 has 1 cells; it must have 2"),
        ("label,x\n1,two\n", "line 2: x is 'two'; it must be a number"),
        ("label,x\n1,nan\n", "x has 1 values that are not finite"),
        (
            "Label,x\n1,2\n",
            r"unknown column 'label'.*did you mean 'Label'\? \(the key label_column of \[data\]\)",
        ),
        ("label,x,x\n1,2,3\n", "the column 'x' twice"),
        ("label\n1\n", "it must have features"),
    ],
)
def test_an_invalid_csv_is_an_error_of_one_line(tmp_path, text, message) -> None:
    config = write_csv(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_data(config, 0, tmp_path)
    assert "\n" not in str(caught.value)
    assert "data.csv" in str(caught.value)


@pytest.mark.parametrize("source", ["npz", "csv"])
def test_a_missing_or_other_file_is_one_line(tmp_path, source) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*absent: No such file"):
        load_data(DataConfig(source=source, path="absent"), 0, tmp_path)
    (tmp_path / "noise").write_bytes(b"\xff\x00noise" * 9)
    with pytest.raises(ConfigError, match="noise"):
        load_data(DataConfig(source=source, path="noise"), 0, tmp_path)


@pytest.mark.parametrize(
    ("y", "partition", "message"),
    [
        (Y, "given", "partition is 'given'"),
        (X[:, 0] / 3, "dirichlet", "partition is 'dirichlet', but the labels are not classes"),
    ],
)
def test_a_partition_that_the_data_do_not_allow_is_refused(tmp_path, y, partition, message) -> None:
    np.savez(tmp_path / "data.npz", x=X, y=y)
    with pytest.raises(ConfigError, match=message):
        load_data(DataConfig(source="npz", path="data.npz", partition=partition), 0, tmp_path)


LABELS = np.repeat(np.arange(10), 100)
EVERY = {
    "dirichlet": lambda seed: partitions.by_dirichlet(LABELS, 20, 0.3, seed),
    "classes": lambda seed: partitions.by_classes(LABELS, 20, 2, seed),
    "iid": lambda seed: partitions.iid(len(LABELS), 20, seed),
}


@pytest.mark.parametrize("split", EVERY.values(), ids=EVERY)
def test_every_example_goes_to_exactly_one_client(split) -> None:
    parts = split(0)
    assert len(parts) == 20
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts)) == list(range(1000))


@pytest.mark.parametrize("split", EVERY.values(), ids=EVERY)
def test_the_seed_decides(split) -> None:
    one, same, other = (split(seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_small_concentration_skews_the_labels_and_a_large_one_does_not() -> None:
    def share_of_the_commonest_label(concentration: float) -> float:
        parts = partitions.by_dirichlet(LABELS, 10, concentration, seed=0)
        return float(np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts]))

    assert share_of_the_commonest_label(0.3) > 0.3
    assert share_of_the_commonest_label(1000.0) < 0.15


def test_a_client_has_examples_of_as_many_classes_as_it_has_shards() -> None:
    for part in partitions.by_classes(LABELS, 50, 2, seed=0):  # 100 shards of 10 examples, ten a class
        assert len(part) == 20
        assert len(np.unique(LABELS[part])) <= 2


def test_iid_parts_differ_by_one_example_at_most() -> None:
    assert {len(part) for part in partitions.iid(103, 10, seed=0)} == {10, 11}


def test_given_ids_own_their_examples_and_are_text() -> None:
    found = partitions.given(np.array([7, 30, 7, 5]))
    assert {name: part.tolist() for name, part in found.items()} == {"30": [1], "5": [3], "7": [0, 2]}


def test_the_same_fraction_of_every_group_is_held_out_and_none_loses_all() -> None:
    groups = np.array([0] * 100 + [1] * 10 + [2])
    train, test = partitions.hold_out(groups, 0.2, seed=0)
    assert sorted([*train, *test]) == list(range(111))
    assert np.bincount(groups[test], minlength=3).tolist() == [20, 2, 0]
    assert partitions.hold_out(groups[-1:], 0.99, seed=0)[0].tolist() == [0]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (
            lambda: partitions.by_dirichlet(LABELS[::50], 5, 0.3, 0),
            "use fewer clients or a larger dirichlet",
        ),
        (lambda: partitions.by_classes(LABELS, 501, 2, 0), "1000 examples for 501 clients .* 1002 shards"),
        (lambda: partitions.iid(5, 6, 0), "clients is 6; it must be at most the number of examples, 5"),
    ],
)
def test_too_many_clients_are_refused(split, message) -> None:
    with pytest.raises(ConfigError, match=message):
        split()
