"""`fedplug bench`: the tables it prints, and what it refuses before it measures anything."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
import safetensors.numpy

from fedplug.cli import main
from fedplug.diagnostics import bench

X = np.random.default_rng(0).standard_normal((40, 50), np.float32)


def test_a_line_for_each_encoder_and_the_machine(capsys):
    assert main(["bench", "--elements", "2000", "identity", "qsgd(8)"]) == 0
    output = capsys.readouterr().out
    assert re.match(r".+, \w+, \d+ kernel threads\n\n", output)
    assert "normally distributed numbers: 2,000 float32 in 1 array\n" in output
    speed = r" +\d+\.\d+ ± \d+%"
    for name in ("identity", r"qsgd\(8\)"):
        assert re.search(rf"^{name} +\d+\.\d+ +\S+ +\S+{speed}{speed}$", output, re.MULTILINE), name
    assert "copy" not in output


def test_an_unbiased_encoder_with_an_error_above_1_is_explained(capsys):
    assert main(["bench", "--elements", "2000", "randomk(0.01)", "topk(0.01)", "auto"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (explained,) = [line for line in lines if "unbiased" in line]
    assert explained.startswith("randomk(0.01): the NMSE is the variance of an unbiased encoder")
    assert main(["bench", "--elements", "2000", "--rounds", "200", "randomk(0.01)"]) == 0
    assert "unbiased" not in capsys.readouterr().out


def test_several_files_and_sizes_in_one_call(tmp_path, capsys):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:30])
    updates = [
        str(tmp_path / "a.npy"),
        "qsgd(8)",
        str(tmp_path / "b.npy"),
        "--elements",
        "1000",
        "--elements",
        "3000",
    ]
    assert main(["bench", "--json", *updates]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["update"]["elements"] for each in found] == [2000, 1500, 1000, 3000]
    assert main(["bench", *updates]) == 0
    output = capsys.readouterr().out
    assert len(re.findall(r"^qsgd\(8\)  ", output, re.MULTILINE)) == 4
    assert output.count("kernel threads") == 1


def test_json_figures_are_objects_with_attribute_names(capsys):
    command = ["bench", "--json", "--rounds", "2", "--elements", "2000", "topk(0.1)"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["update"]["elements"] == 2000
    assert found["rounds"] == 2
    assert {"fedplug", "numpy", "processor", "simd", "kernel_threads"} <= found["environment"].keys()
    assert found["encoders"][0].keys() == {field.name for field in dataclasses.fields(bench.EncoderFigures)}


def test_a_file_of_ones_own(tmp_path, capsys):
    path = tmp_path / "update.npy"
    np.save(path, X)
    assert main(["bench", "--json", "topk(0.1)", str(path), "qsgd(8)"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["update"] == {
        "source": str(path),
        "elements": 2000,
        "dense_bytes": 8000,
        "arrays": {"array": ["float32", [40, 50]]},
        "left_out": [],
    }
    assert [each["encoder"] for each in found["encoders"]] == ["topk(0.1)", "qsgd(8)"]


def test_arrays_that_are_left_out_of_a_file_are_named(tmp_path, capsys):
    path = tmp_path / "update.npz"
    np.savez(path, k=X, step=np.arange(3))
    assert main(["bench", str(path), "qsgd(8)"]) == 0
    assert re.search(r"^left out, because not float16, .*: step$", capsys.readouterr().out, re.MULTILINE)


def test_statistics_are_named_and_are_not_in_the_error(tmp_path, capsys):
    path = tmp_path / "update.safetensors"
    found = []
    for scale in (0, 1e6):
        arrays = {"conv.weight": X} | ({"bn.running_var": np.float32(scale) * X} if scale else {})
        safetensors.numpy.save_file(arrays, path)
        assert main(["bench", str(path), "qsgd(2)"]) == 0
        found.append(capsys.readouterr().out)
    errors = [re.search(r"^qsgd\(2\) +\S+ +(\S+)", output, re.MULTILINE)[1] for output in found]
    assert errors[0] == errors[1]
    assert "statistics, which" not in found[0]
    assert "\nstatistics, which are sent exactly and excluded from the NMSE: bn.running_var\n" in found[1]


def test_the_update_between_two_checkpoints(tmp_path, capsys):
    old, new = tmp_path / "old.safetensors", tmp_path / "new.safetensors"
    safetensors.numpy.save_file({"k": X, "b": X[0]}, old)
    safetensors.numpy.save_file({"k": X + 1, "b": X[0] + 1}, new)
    assert main(["bench", "--update", str(old), str(new), "topk(0.01, scope='model') | qsgd(8)"]) == 0
    output = capsys.readouterr().out
    assert f"{new} - {old}: 2,050 float32 in 2 arrays\n" in output
    assert re.search(r"^topk\(0\.01, scope='model'\) \| qsgd\(8\) +\d+\.\d+ +0\.9\d", output, re.MULTILINE)


def checkpoint(folder):
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        safetensors.numpy.save_file({f"{name}.kernel": X}, folder / f"{name}.safetensors")
    index = {"weight_map": {f"{name}.kernel": f"{name}.safetensors" for name in ("a", "b")}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("path", ["so", "so/", "so/model.safetensors.index.json", "./sign", "runs (1)"])
def test_a_checkpoint_of_several_files(tmp_path, monkeypatch, capsys, path):
    """The name of a folder may look like the name of an encoder, as "so" like "sign"."""
    monkeypatch.chdir(tmp_path)
    checkpoint(tmp_path / path.split("/model")[0])
    assert main(["bench", "--json", path, "qsgd(8)"]) == 0
    assert list(json.loads(capsys.readouterr().out)["update"]["arrays"]) == ["a.kernel", "b.kernel"]


def test_the_name_of_an_encoder_is_not_the_folder_of_that_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    checkpoint(tmp_path / "sign")
    assert main(["bench", "--elements", "1000", "--json", "sign"]) == 0
    assert "normally distributed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["identity", "tpok(0.1)"], "unknown encoder 'tpok'; did you mean 'topk'"),
        (["--elements", "10"], "elements is 10; it must be 1000 or more"),
        (["--rounds", "0"], "rounds is 0; it must be 1 or more"),
        (["absent.safetensors"], "absent.safetensors cannot be read: No such file"),
        (["model.pt"], "model.pt is neither a .safetensors nor a .npy file, nor a .npz archive"),
        (["models/last"], "models/last is neither a .safetensors"),
        (["."], ". has 0 files *.safetensors.index.json"),
    ],
)
def test_a_mistake_is_reported_before_any_measurement(arguments, message, capsys, monkeypatch):
    monkeypatch.delattr(bench, "measure")
    assert main(["bench", *arguments]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert message in caught.err
    assert caught.err.count("\n") == 1
