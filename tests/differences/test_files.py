"""Differences between checkpoints in files: byte-identical results, which appear whole or not at all."""

from __future__ import annotations

import json
import os

import ml_dtypes
import numpy as np
import pytest

from fedplug import cli
from fedplug.differences import describe_file, diff_files, patch_files
from fedplug.differences.checkpoints import open_checkpoint
from fedplug.differences.models import encode_model
from fedplug.errors import ArgumentError, PayloadError

NAMES = {"float32": "F32", "bfloat16": "BF16", "int64": "I64", "uint8": "U8", "float8_e4m3fn": "F8_E4M3"}


def write(path, tensors, metadata=None, padding=3):
    """Writes a safetensors file: the format in ten lines."""
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, array in tensors.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, indent=1).encode() + b" " * padding
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for a in tensors.values()))
    return path


def tensors(step, seed=0):
    rng = np.random.default_rng(seed)
    exact = rng.normal(0, 0.02, (300, 200)) + step * np.random.default_rng(seed + 1).normal(size=(300, 200))
    return {
        "layer/kernel": exact.astype(ml_dtypes.bfloat16),
        "bias": exact[0].astype(np.float32),
        "quantized": np.arange(9).astype(ml_dtypes.float8_e4m3fn),
        "empty": np.zeros((0, 4), np.float32),
        "steps": np.int64([step != 0]),
    }


def write_sharded(folder, step, shards=2):
    folder.mkdir()
    names = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    for i, name in enumerate(names):
        write(folder / name, {f"{i}.{key}": array for key, array in tensors(step, i).items()})
    weight_map = {f"{i}.{key}": name for i, name in enumerate(names) for key in tensors(0)}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": shards}, "weight_map": weight_map}, indent=2))
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_patched_file_has_the_bytes_of_the_new_one(tmp_path):
    old = write(tmp_path / "old.safetensors", tensors(0) | {"gone": np.zeros(9, np.float32)})
    new = write(
        tmp_path / "new.safetensors", tensors(1e-6) | {"added": np.ones(5, np.uint8)}, {"format": "pt"}
    )
    step, result = tmp_path / "step.fedplug", tmp_path / "result.safetensors"
    done = []
    diff_files(old, new, step, done.append)
    patch_files(old, step, result, progress=done.append)
    assert result.read_bytes() == new.read_bytes()
    assert step.stat().st_size < new.stat().st_size / 5
    assert done == 2 * ["__metadata__", *tensors(0), "added"]
    kinds = {change.name: change.kind for change in describe_file(step)}
    assert kinds.pop("gone") == "removed"
    assert kinds.pop("added") == kinds.pop("__metadata__") == "whole"
    assert {name for name, kind in kinds.items() if kind == "changed"} == {"layer/kernel", "bias", "steps"}
    assert {name for name, kind in kinds.items() if kind == "same"} == {"quantized", "empty"}
    patch_files(old, step, old)  # in place
    assert old.read_bytes() == new.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {old.name, new.name, step.name, result.name}


@pytest.mark.parametrize("shards", [2, 3])
def test_a_patched_folder_has_the_files_of_the_new_one(tmp_path, shards):
    old, new = write_sharded(tmp_path / "old", 0), write_sharded(tmp_path / "new", 1e-6, shards)
    step, result = tmp_path / "step.fedplug", tmp_path / "result"
    diff_files(str(old / "model.safetensors.index.json"), new, step)
    with pytest.raises(ArgumentError, match="name another file"):
        diff_files(old, new, new / f"model-00001-of-0000{shards}.safetensors")
    patch_files(old, step, result)
    assert contents(result) == contents(new)
    with pytest.raises(ArgumentError, match="exists"):
        patch_files(old, step, result)


def test_a_folder_becomes_a_file_and_back(tmp_path):
    single, sharded = write(tmp_path / "a.safetensors", tensors(0)), write_sharded(tmp_path / "sharded", 0)
    diff_files(single, sharded, tmp_path / "split")
    patch_files(single, tmp_path / "split", tmp_path / "folder")
    assert contents(tmp_path / "folder") == contents(sharded)
    diff_files(sharded, single, tmp_path / "join")
    patch_files(sharded, tmp_path / "join", tmp_path / "b.safetensors")
    assert (tmp_path / "b.safetensors").read_bytes() == single.read_bytes()


def test_an_error_leaves_the_old_file(tmp_path):
    old = write(tmp_path / "old.safetensors", tensors(0))
    new = write(tmp_path / "new.safetensors", tensors(1e-6))
    step = tmp_path / "step.fedplug"
    diff_files(old, new, step)
    other = write(tmp_path / "other.safetensors", tensors(1e-6))  # differs in its second tensor
    result = tmp_path / "result"
    result.write_text("before")
    for base, damaged, limit in [
        (other, step.read_bytes(), None),
        (old, step.read_bytes()[:-1], None),
        (old, step.read_bytes() + b"x", None),
        (old, step.read_bytes(), new.stat().st_size - 1),
    ]:
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(PayloadError):
            patch_files(base, tmp_path / "damaged", result, max_bytes=limit)
        assert result.read_text() == "before"
    with pytest.raises(ArgumentError, match="not a safetensors file"):
        diff_files(step, new, result)
    assert result.read_text() == "before"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "names",
    [
        ["tensor"],
        ["__metadata__/../x"],
        ["__metadata__/a", "__metadata__"],
        ["__metadata__", "__metadata__/a"],
    ],
)
def test_a_hostile_difference_writes_no_other_files(tmp_path, names):
    old = write(tmp_path / "old.safetensors", {})
    base, _ = open_checkpoint(old)
    message = b"".join(encode_model(base, {name: np.zeros(3) for name in names}))
    (tmp_path / "step").write_bytes(message)
    before = contents(tmp_path)
    with pytest.raises(PayloadError):
        patch_files(old, tmp_path / "step", tmp_path / "result")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (b"[]", b""),
        (b"{", b""),
        (b'{"a": 3}', b""),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', b""),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', b"12345"),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}', b""),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]}}', b"12345"),
        (b'{"a": {"dtype": "F32", "shape": "x", "data_offsets": [0, 4]}}', b"1234"),
        *[
            (b'{"a": {"dtype": %s, "shape": %s, "data_offsets": %s}}' % parts, b"1234")
            for parts in (
                (b'"U8"', b'"4"', b"[0, 4]"),
                (b'"U8"', b'["4"]', b"[0, 4]"),
                (b'"U8"', b"[2.0, 2]", b"[0, 4]"),
                (b'"U8"', b"[true, 4]", b"[0, 4]"),
                (b'"U8"', b"[-2, -2]", b"[0, 4]"),
                (b'"U8"', b"[[4]]", b"[0, 4]"),
                (b'"U8"', b'{"4": 4}', b"[0, 4]"),
                (b'"U8"', b"null", b"[0, 4]"),
                (b'["U8"]', b"[4]", b"[0, 4]"),
                (b"8", b"[4]", b"[0, 4]"),
                (b'"U8"', b"[4]", b"[0, 4, 4]"),
                (b'"U8"', b"[4]", b'"04"'),
                (b'"U8"', b"[4]", b"[false, 4]"),
                (b'"U8"', b"[4]", b"[0.0, 4.0]"),
                (b'"U8"', b"[4]", b'{"0": 0, "4": 4}'),
            )
        ],
        (b'{"\\ud800": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}', b"1234"),
        (b'{"__metadata__/x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}', b"1234"),
        (b"[" * 100000, b""),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, header, data):
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    with pytest.raises(ArgumentError, match="not a safetensors file"):
        diff_files(path, path, tmp_path / "step")


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("F4", [6], 3),
        ("F32", [1] * 33, 4),
        ("F32", [2**32, 0], 0),
        ("F32", [2**31 - 1, 2**31 - 1, 2**31 - 1, 0], 0),
        ("F32", [0], 0),
    ],
)
def test_tensors_that_numpy_or_a_payload_cannot_have_are_bytes(tmp_path, dtype, shape, size):
    text = json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}})
    header = text.encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"abcd"[:size])
    diff_files(path, path, tmp_path / "step")
    patch_files(path, tmp_path / "step", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == path.read_bytes()


def test_the_commands(tmp_path, capsys):
    old, new = (
        write(tmp_path / "old.safetensors", tensors(0)),
        write(tmp_path / "new.safetensors", tensors(1e-6)),
    )
    step, result = str(tmp_path / "step"), tmp_path / "result"
    assert cli.main(["diff", str(old), str(new), "-o", step]) == 0
    assert cli.main(["diff", "--info", step]) == 0
    shown = capsys.readouterr().out
    assert "layer/kernel  changed  bfloat16[300, 200]  120,000" in shown
    assert "x fewer" in shown
    assert cli.main(["patch", str(old), step, "-o", str(result)]) == 0
    assert result.read_bytes() == new.read_bytes()
    assert cli.main(["patch", str(new), step, "-o", str(result)]) == 2
    assert "array 'layer/kernel': the base is not the version" in capsys.readouterr().err
    assert cli.main(["patch", str(old), step, "-o", str(result), "--max-bytes", "5"]) == 2
    assert cli.main(["diff", str(old), "-o", step]) == 2
    assert cli.main(["diff", "--info", step, step]) == 2
    before = contents(tmp_path)
    assert cli.main(["diff", str(old), str(new), "-o", str(old)]) == 2
    assert cli.main(["patch", str(old), step, "-o", step]) == 2
    assert contents(tmp_path) == before


def test_the_memory_is_that_of_the_largest_tensor(tmp_path, python):
    rng = np.random.default_rng(0)
    kernels = {f"kernel{i}": rng.normal(size=1 << 20).astype(np.float32) for i in range(24)}  # 4 MiB each
    old = write(tmp_path / "old.safetensors", kernels)
    new = write(
        tmp_path / "new.safetensors", {name: kernel + np.float32(1e-7) for name, kernel in kernels.items()}
    )
    code = """
import resource, sys
from pathlib import Path
from fedplug.differences import diff_files, patch_files
old, new, step, result = map(Path, sys.argv[1:])
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = used()
diff_files(old, new, step)
patch_files(old, step, result)
print(used() - before)
"""
    done = python("-c", code, old, new, tmp_path / "step", tmp_path / "result")
    assert int(done.stdout) < 70  # MiB, of 96 in each file


def test_more_shards_than_a_process_may_open(tmp_path, python):
    """One file of each checkpoint is open at a time; macOS allows 256 files, and models have more shards."""
    old, new = write_sharded(tmp_path / "old", 0, 40), write_sharded(tmp_path / "new", 1e-6, 40)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)); "
    for arguments in (
        ["diff", old, new, "-o", tmp_path / "step"],
        ["patch", old, tmp_path / "step", "-o", tmp_path / "made"],
    ):
        code = f"{limit}from fedplug.cli import main; raise SystemExit(main({list(map(str, arguments))!r}))"
        done = python("-c", code)
        assert (done.returncode, done.stderr) == (0, "")
    assert contents(tmp_path / "made") == contents(new)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path):
    path = write(tmp_path / "model.safetensors", tensors(0))
    parts, _ = open_checkpoint(path)
    write(tmp_path / "other", tensors(1)).replace(path)
    with pytest.raises(ArgumentError, match="changed while it was read"):
        parts["bias"]


@pytest.mark.parametrize("what", ["old", "new", "step", "index"])
def test_a_fifo_is_refused_and_blocks_nothing(tmp_path, what):
    fifo = tmp_path / ("fifo.index.json" if what == "index" else "fifo")
    os.mkfifo(fifo)
    model, output = write(tmp_path / "model.safetensors", tensors(0)), tmp_path / "output"
    read = patch_files if what == "step" else diff_files
    with pytest.raises(ArgumentError, match="is no regular file"):
        read(*((model, fifo) if what in ("new", "step") else (fifo, model)), output)
    assert not output.exists()
