"""Op libraries of plugins: found without loading anything, refused when built for another TensorFlow."""

from __future__ import annotations

import json
import shutil

import pytest

from fedplug.errors import OpLibraryError, PluginError, UnknownNameError
from fedplug.registry import op_libraries, resolve

PLUGIN = """
    from fedplug.registry.hookspecs import hookimpl
    from fedplug.registry.specs import OpLibrarySpec

    @hookimpl
    def fedplug_op_libraries():
        return [OpLibrarySpec(name="acme_ops", target="acme_package:_ops.so", summary="for a test")]
"""


@pytest.fixture
def package(install, tmp_path):
    """A package with an op library that is no library, and the plugin that declares it."""
    folder = tmp_path / "acme_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('imported')\n")
    (folder / "_ops.so").write_bytes(b"nothing that could be loaded")
    record(folder, op_libraries.installed_tensorflow())
    install("acme-codec", PLUGIN)
    return folder


def record(folder, tensorflow):
    (folder / op_libraries.BUILD_RECORD).write_text(json.dumps({"tensorflow": tensorflow}))
    resolve.catalog.cache_clear()


def the_problem():
    (problem,) = resolve.catalog().problems()
    return problem


@pytest.mark.usefixtures("package")
def test_a_library_is_listed_without_loading_it_or_importing_its_package():
    entry = resolve.find("op_library", "acme_ops")
    assert (entry.kind, entry.status, entry.distribution) == ("op_library", "ok", "acme-codec")


def test_a_library_for_another_tensorflow_is_listed_with_both_versions_and_the_command(package):
    record(package, "2.13.0")
    problem = the_problem()
    assert problem.status == "incompatible"
    assert "built for TensorFlow 2.13.0" in problem.reason
    assert str(op_libraries.installed_tensorflow()) in problem.reason
    assert "--no-binary acme-codec acme-codec" in problem.fix
    with pytest.raises(PluginError, match=r"2\.13\.0"):
        resolve.find("op_library", "acme_ops")
    assert resolve.resolve("store", "memory").name == "memory"


def test_a_library_that_was_never_built_names_the_searched_folders(package):
    (package / "_ops.so").unlink()
    resolve.catalog.cache_clear()
    assert f"no _ops.so in {package}" in the_problem().reason


def test_a_library_that_was_never_built_is_no_problem_without_tensorflow(package, monkeypatch):
    (package / "_ops.so").unlink()
    monkeypatch.setattr(op_libraries, "installed_tensorflow", lambda: None)
    resolve.catalog.cache_clear()
    assert not resolve.catalog().problems()


def test_a_library_without_a_record_is_not_trusted(package):
    (package / op_libraries.BUILD_RECORD).unlink()
    resolve.catalog.cache_clear()
    assert "does not say which TensorFlow" in the_problem().reason


def test_a_missing_package_is_reported(package):
    shutil.rmtree(package)
    resolve.catalog.cache_clear()
    assert "there is no package 'acme_package'" in the_problem().reason


def test_a_target_that_is_no_file_of_a_package_is_refused(install):
    install("acme-codec", PLUGIN.replace("acme_package:_ops.so", "../acme/_ops.so"))
    assert "write 'package:file.so'" in the_problem().reason


def test_a_library_has_no_class(package):
    with pytest.raises(PluginError, match="has no class"):
        resolve.resolve("op_library", "acme_ops")


@pytest.fixture
def op_library():
    """Returns the loader of libraries, and makes it forget them afterwards."""
    from fedplug.ops import lowering
    from fedplug.ops._tensorflow import loader

    yield lowering.op_library
    loader.op_library.cache_clear()


@pytest.mark.usefixtures("package")
def test_a_damaged_library_is_an_error_with_the_command_that_rebuilds_it(op_library):
    with pytest.raises(OpLibraryError, match=r"cannot be loaded(.|\n)*--no-binary acme-codec acme-codec"):
        op_library("acme_ops")


def test_an_unknown_library_names_the_known_ones(op_library):
    with pytest.raises(UnknownNameError, match="unknown op_library 'acme'"):
        op_library("acme")
