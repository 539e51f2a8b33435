"""Tests that a package of `fedplug plugins new --compiled` compiles, and passes its check and its tests."""

from __future__ import annotations

import shutil
import zipfile

import pytest

from fedplug.cli import main

BUILD = "import sys, scikit_build_core.build as build; build.build_wheel(sys.argv[1])"
PROMISES = ("hostile bytes are refused or are a valid payload", "no byte outside of a buffer is read")


def written(folder, *options):
    assert main(["plugins", "new", "acme_c", "--compiled", "--dir", str(folder), *options]) == 0
    return folder / "fedplug-acme-c"


@pytest.fixture(scope="module")
def installed(tmp_path_factory, run):
    """Writes the package, and compiles and installs it into one folder."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("compiled")
    package, site = written(folder), folder / "site"
    built = run("-c", BUILD, str(folder), cwd=package, site=site)
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return package, site


@pytest.mark.slow
@pytest.mark.needs("scikit_build_core")
def test_a_new_compiled_encoder_passes_the_check_at_once(installed, run):
    package, site = installed
    result = run("-m", "fedplug", "plugins", "check", "acme_c", cwd=package.parent, site=site)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "fail" not in result.stdout
    for promise in PROMISES:
        assert f"  ok    {promise}\n" in result.stdout


@pytest.mark.slow
@pytest.mark.needs("scikit_build_core")
def test_the_tests_of_a_new_compiled_encoder_pass(installed, run):
    package, site = installed
    # The check above ran the suite of the quantizer alone.
    options = ("-q", "-p", "no:cacheprovider", "-k", "not TestDense")
    result = run("-m", "pytest", *options, str(package), cwd=package.parent, site=site)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_compiled_stage_is_the_compiled_encoder(tmp_path, capsys):
    packages = [written(tmp_path / kind, "--kind", kind) for kind in ("encoder", "stage")]
    texts = [
        {path.relative_to(package): path.read_text() for path in package.rglob("*") if path.is_file()}
        for package in packages
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", ["aggregator", "assignment", "observer", "runtime", "schedule", "store"])
def test_other_kinds_have_no_compiled_form(kind, tmp_path, capsys):
    assert main(["plugins", "new", "acme_c", "--compiled", "--kind", kind, "--dir", str(tmp_path)]) == 2
    assert f"leave it out for --kind {kind}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.needs("ruff")
def test_a_new_compiled_encoder_is_in_the_style_of_the_house(tmp_path, run):
    package = written(tmp_path)
    for command in (["check"], ["format", "--check"]):
        options = ["--config", "line-length = 110", "--config", "src = ['.']"]
        result = run("-m", "ruff", *command, *options, ".", cwd=package, site=tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
