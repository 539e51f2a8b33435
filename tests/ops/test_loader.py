"""Loading the op library: the choice of the file, and refusals that say how to fix it."""

from __future__ import annotations

import json
import shutil

import pytest
import tensorflow as tf

from fedplug import ops
from fedplug.errors import OpLibraryError
from fedplug.ops._tensorflow import loader as _loader
from fedplug.ops.lowering import resolve_lowering


@pytest.fixture
def copied_library(tmp_path, monkeypatch):
    """A folder with a copy of the library and its build record, which the next load uses."""
    library = _loader.find_library(ops.__path__)
    for file in (library, library.with_name("build_info.json")):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(ops, "__path__", [str(tmp_path)])
    _loader.library.cache_clear()
    yield tmp_path
    _loader.library.cache_clear()


def test_a_library_built_for_another_tensorflow_is_named_with_the_remedy_and_not_loaded(copied_library):
    (copied_library / "build_info.json").write_text(json.dumps({"tensorflow": "2.13.0"}))
    (copied_library / "_fedplug_ops.so").write_bytes(b"loading this would be another error")
    with pytest.raises(OpLibraryError, match="make setup") as error:
        _loader.library()
    for part in (
        "2.13.0",
        tf.__version__,
        str(copied_library),
        "pip install --force-reinstall --no-deps fedplug-tensorflow",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize("record", [None, "", "{}", "[]", "not json"])
def test_a_library_without_a_readable_build_record_is_not_loaded(copied_library, record):
    file = copied_library / "build_info.json"
    file.unlink() if record is None else file.write_text(record)
    with pytest.raises(OpLibraryError, match=r"build_info\.json does not say which TensorFlow"):
        _loader.library()


def test_a_library_that_is_older_than_the_sources_is_not_loaded(copied_library):
    record = {"tensorflow": tf.__version__, "built_from": "other sources"}
    (copied_library / "build_info.json").write_text(json.dumps(record))
    with pytest.raises(OpLibraryError, match=r"other sources than .*; run `make setup`"):
        _loader.library()
    # fedplug does not silently continue without it, which would be slower.
    with pytest.raises(OpLibraryError, match=r"other sources than .*; run `make setup`"):
        resolve_lowering("auto")


def test_a_second_copy_is_refused(monkeypatch, request):
    first = _loader.library()
    copy = request.getfixturevalue("copied_library")
    with pytest.raises(OpLibraryError, match=r"this process has loaded .*a second copy") as error:
        _loader.library()
    assert str(copy) in str(error.value)
    monkeypatch.undo()  # the path of the first
    assert _loader.library() is first


def test_a_damaged_library_is_our_error_with_the_remedy(copied_library, monkeypatch):
    monkeypatch.setattr(_loader, "_loaded", {})  # as in a process that has none
    (copied_library / "_fedplug_ops.so").write_bytes(b"\x7fELF and then nothing")
    with pytest.raises(OpLibraryError, match=r"cannot be loaded(.|\n)*make setup"):
        _loader.library()


def test_a_missing_library_is_our_error_with_the_places_that_were_searched(tmp_path):
    with pytest.raises(OpLibraryError, match="make setup") as error:
        _loader.find_library([tmp_path / "a", tmp_path / "b"])
    assert str(tmp_path / "a") in str(error.value)
    assert str(tmp_path / "b") in str(error.value)


def test_the_first_folder_that_has_the_library_wins(tmp_path):
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "_fedplug_ops.so").touch()
    found = _loader.find_library([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert found.parent.name == "b"


def test_where_fedplug_has_none_its_distribution_is_asked(tmp_path, monkeypatch):
    package = tmp_path / "fedplug_tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package / "_fedplug_ops.so").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert _loader.find_library([tmp_path]) == package / "_fedplug_ops.so"
    (tmp_path / "_fedplug_ops.so").touch()
    assert _loader.find_library([tmp_path]) == tmp_path / "_fedplug_ops.so"
