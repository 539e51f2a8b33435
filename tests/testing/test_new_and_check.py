"""`fedplug plugins new` writes a package that `fedplug plugins check` finds nothing wrong with."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest

from fedplug.cli import main

BUILD = "import setuptools.build_meta, sys; setuptools.build_meta.build_wheel(sys.argv[1])"


def run(*arguments, cwd, site):
    environment = {**os.environ, "PYTHONPATH": str(site), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def new_plugin(tmp_path_factory):
    """A package written by the command, and a folder it is installed in as an installer would."""
    folder = tmp_path_factory.mktemp("plugin")
    assert main(["plugins", "new", "acme_x", "--dir", str(folder)]) == 0
    package, site = folder / "fedplug-acme-x", folder / "site"
    built = run("-c", BUILD, str(folder), cwd=package, site=site)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return package, site


def test_a_new_plugin_passes_the_check_at_once(new_plugin):
    package, site = new_plugin
    result = run("-m", "fedplug", "plugins", "check", "acme_x", cwd=package.parent, site=site)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "package fedplug-acme-x" in result.stdout
    assert "encoder acme_x" in result.stdout
    assert "fail" not in result.stdout


def test_the_tests_of_a_new_plugin_pass(new_plugin):
    package, site = new_plugin
    own = ["-k", "TestPackage or half_a_level", "-p", "no:cacheprovider"]
    result = run("-m", "pytest", "-q", *own, str(package / "tests"), cwd=package, site=site)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed" in result.stdout


def test_a_new_plugin_is_in_the_style_of_the_house(new_plugin):
    package, site = new_plugin
    for command in (["check"], ["format", "--check"]):
        options = ["--config", "line-length = 110"]
        result = run("-m", "ruff", *command, *options, str(package), cwd=package, site=site)
        assert result.returncode == 0, result.stdout + result.stderr


def test_new_overwrites_nothing(tmp_path, capsys):
    assert main(["plugins", "new", "acme", "--dir", str(tmp_path)]) == 0
    assert main(["plugins", "new", "acme", "--dir", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_new_refuses_the_name_of_an_encoder_that_is_there(tmp_path, capsys):
    assert main(["plugins", "new", "topk", "--dir", str(tmp_path)]) == 2
    assert "has an encoder 'topk' already; choose another name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["Acme", "1st", "a-b", "", "class", "../up"])
def test_new_refuses_what_cannot_be_a_name(name, tmp_path, capsys):
    assert main(["plugins", "new", name, "--dir", str(tmp_path)]) == 2
    assert "is no name for an encoder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_check_of_a_store_says_what_is_ok_and_ends_with_0(capsys):
    assert main(["plugins", "check", "memory"]) == 0
    output = capsys.readouterr().out
    assert "store memory://" in output
    assert "  ok    a committed round is read back" in output
