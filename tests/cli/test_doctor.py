"""`fedplug doctor`: each check by itself, and the command as a whole."""

from __future__ import annotations

import pytest

from fedplug.cli import main
from fedplug.diagnostics import doctor
from fedplug.diagnostics.doctor import Finding, examine
from fedplug.errors import OpLibraryError
from fedplug.registry import resolve


def run_doctor(monkeypatch, **replaced):
    monkeypatch.setattr(doctor, "CHECKS", replaced)
    return main(["doctor"])


@pytest.mark.parametrize("name", list(doctor.CHECKS))
def test_every_check_passes_where_the_tests_run(name):
    finding = examine(doctor.CHECKS[name])
    assert finding.status in ("ok", "warn", "skip"), finding
    assert finding.detail


@pytest.mark.needs("tensorflow_federated")
@pytest.mark.parametrize("name", ["TensorFlow", "TFF", "inprocess", "native"])
def test_nothing_is_skipped_where_all_is_installed(name):
    assert examine(doctor.CHECKS[name]).status == "ok"


def test_an_error_of_fedplug_is_a_failure_in_its_own_words():
    def check():
        raise OpLibraryError("not built;\nrun make setup")

    assert examine(check) == Finding("fail", "not built; run make setup")


def test_a_failure_leaves_the_other_checks_alone_and_exits_with_1(monkeypatch, capsys):
    def broken():
        raise ImportError("no such library")

    assert run_doctor(monkeypatch, broken=broken, whole=lambda: Finding("ok", "fine")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["fail", "broken", "ImportError:", "no", "such", "library"]
    assert lines[1].strip().startswith("fix: ")
    assert "make setup" in lines[1]
    assert lines[2].split() == ["ok", "whole", "fine"]
    assert lines[-1] == "1 of 2 checks failed"


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (Finding("warn", "old", "update it"), "fix: update it\n"),
        (Finding("skip", "not installed"), "all checks passed; 1 skipped, because not installed\n"),
    ],
)
def test_a_warning_or_a_skipped_check_is_no_failure(monkeypatch, capsys, finding, said):
    assert run_doctor(monkeypatch, check=lambda: finding) == 0
    assert said in capsys.readouterr().out


@pytest.mark.needs("tensorflow")
def test_a_missing_op_library_is_a_warning_that_names_the_replacement(monkeypatch):
    from fedplug.ops._tensorflow import loader

    def absent(folders):
        raise OpLibraryError("it is not there")

    monkeypatch.setattr(loader, "find_library", absent)
    found = doctor.check_op_library()
    assert found.status == "warn"
    assert "lowering 'reference'" in found.detail
    assert "pip install fedplug-tensorflow" in found.fix
    assert doctor.check_cuda().status == "skip"


@pytest.mark.parametrize(
    ("numpy", "tensorflow", "fix"),
    [
        ("1.24.4", None, "fedplug needs 1.25 or newer"),
        ("2.0.0", "2.14.1", "TensorFlow 2.14.1 needs it"),
        ("2.5.0", "2.19.0", ""),
        ("2.5.0", None, ""),
        ("1.25.0", "2.14.1", ""),
    ],
)
def test_numpy_fits_the_installed_tensorflow(monkeypatch, numpy, tensorflow, fix):
    monkeypatch.setattr("numpy.__version__", numpy)
    monkeypatch.setattr("fedplug.registry.op_libraries.installed_tensorflow", lambda: tensorflow)
    found = doctor.check_numpy()
    assert found.status == ("fail" if fix else "ok")
    assert found.detail == numpy
    assert fix in found.fix


def test_a_codec_that_does_not_return_the_update_is_a_failure(monkeypatch):
    monkeypatch.setattr("fedplug.codecs.decode", lambda payload: 0)
    found = doctor.check_codec()
    assert (found.status, "plus residual are not the update" in found.detail) == ("fail", True)


def test_plugins_that_the_user_switched_off_are_no_failure(monkeypatch):
    monkeypatch.setenv("FEDPLUG_PLUGINS", "")
    resolve.catalog.cache_clear()
    try:
        assert examine(doctor.check_device_arrays).status == "skip"
    finally:
        resolve.catalog.cache_clear()
