"""Tests that `fedplug plugins check` finds no fault in a package written by `fedplug plugins new`."""

from __future__ import annotations

import zipfile

import pytest

import fedplug.testing
from fedplug.cli import main
from fedplug.registry import resolve
from fedplug.registry.specs import ComponentSpec

NAMES = {
    "encoder": "acme_x",
    "assignment": "acme_m",
    "aggregator": "acme_a",
    "schedule": "acme_s",
    "store": "acme_db",
    "stage": "acme_q",
    "runtime": "acme_r",
    "observer": "acme_o",
}
BUILD = """
import os, sys, setuptools.build_meta
folder, *packages = sys.argv[1:]
for package in packages:
    os.chdir(package)
    setuptools.build_meta.build_wheel(folder)
"""


@pytest.fixture(scope="module")
def new_plugins(tmp_path_factory, run):
    """Writes a package of each kind with the command, and installs all of them into one folder."""
    folder = tmp_path_factory.mktemp("plugins")
    for kind, name in NAMES.items():
        assert main(["plugins", "new", name, "--kind", kind, "--dir", str(folder)]) == 0
    packages = [folder / f"fedplug-{name.replace('_', '-')}" for name in NAMES.values()]
    site = folder / "site"
    built = run("-c", BUILD, str(folder), *packages, cwd=folder, site=site)
    assert built.returncode == 0, built.stderr
    for wheel in folder.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(site)
    return packages, site


@pytest.mark.needs("tensorflow_federated")
@pytest.mark.parametrize(  # the check of a stage is that of an encoder, a pipeline
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind == "stage" else kind for kind in NAMES]
)
def test_a_new_plugin_passes_the_check_at_once(kind, new_plugins, monkeypatch, capsys):
    _, site = new_plugins
    monkeypatch.syspath_prepend(str(site))
    # The tests of the package, see below, try all shapes and dtypes.
    monkeypatch.setattr(fedplug.testing.EncoderSuite, "shapes", ((7,),))
    monkeypatch.setattr(fedplug.testing.EncoderSuite, "dtypes", ("float32", "float16"))
    resolve.catalog.cache_clear()
    try:
        name = f"fedplug-{NAMES[kind].replace('_', '-')}" if kind == "observer" else NAMES[kind]
        assert main(["plugins", "check", name]) == 0, capsys.readouterr().out
    finally:
        resolve.catalog.cache_clear()
    output = capsys.readouterr().out
    assert f"package fedplug-{NAMES[kind].replace('_', '-')}" in output
    assert kind == "observer" or f" {NAMES[kind]}" in output.replace("topk(0.3) |", "")
    assert "fail" not in output


@pytest.mark.needs("setuptools")
def test_a_new_aggregator_does_not_fail_where_tensorflow_is_missing(new_plugins, run):
    _, site = new_plugins
    program = "import sys; sys.modules.update(tensorflow=None, tensorflow_federated=None)\n"
    program += f"from fedplug.cli import main; sys.exit(main(['plugins', 'check', {NAMES['aggregator']!r}]))"
    result = run("-c", program, cwd=site.parent, site=site)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "aggregator acme_a needs tensorflow, not installed" in result.stdout
    assert "fail" not in result.stdout


def test_every_kind_of_part_can_be_written():
    """The backend of a device is no template: it is a library of kernels."""
    kinds = {kind for kind, (_, spec) in resolve.KINDS.items() if issubclass(spec, ComponentSpec)} - {
        "device"
    }
    assert set(NAMES) == kinds | {"assignment", "stage", "observer"}


@pytest.mark.slow
@pytest.mark.needs("tensorflow_federated")
def test_the_tests_of_a_new_plugin_pass(new_plugins, run):
    packages, site = new_plugins
    own = [
        "-k",
        "not TestAggregator and not TestRuntime and not TestDense and not TestSparse",
        "-p",
        "no:cacheprovider",
    ]  # they ran above
    tests = [package / "tests" for package in packages]
    result = run("-m", "pytest", "-q", *own, *tests, cwd=site.parent, site=site)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed" in result.stdout


@pytest.mark.needs("tensorflow_federated")
def test_a_new_plugin_is_in_the_style_of_the_house(new_plugins, run):
    packages, site = new_plugins
    for command in (["check"], ["format", "--check"]):
        options = ["--config", "line-length = 110", "--config", "src = ['fedplug-*']"]
        result = run("-m", "ruff", *command, *options, *packages, cwd=site.parent, site=site)
        assert result.returncode == 0, result.stdout + result.stderr


def test_new_overwrites_nothing(tmp_path, capsys):
    assert main(["plugins", "new", "acme", "--dir", str(tmp_path)]) == 0
    assert main(["plugins", "new", "acme", "--dir", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "name"), [("encoder", "topk"), ("store", "memory")])
def test_new_refuses_the_name_of_a_part_that_is_there(kind, name, tmp_path, capsys):
    assert main(["plugins", "new", name, "--kind", kind, "--dir", str(tmp_path)]) == 2
    assert f"already has the {kind} {name!r}; choose another name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["Acme", "1st", "a-b", "", "class", "../up"])
def test_new_refuses_invalid_names(name, tmp_path, capsys):
    assert main(["plugins", "new", name, "--dir", str(tmp_path)]) == 2
    assert "is not a valid component name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_check_of_a_good_store_lists_its_checks_and_returns_0(capsys):
    assert main(["plugins", "check", "memory"]) == 0
    output = capsys.readouterr().out
    assert "store memory://" in output
    assert "  ok    a committed round is read back" in output
