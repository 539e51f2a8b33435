"""`fedplug doctor`: each check by itself, and the command as a whole."""

from __future__ import annotations

import pytest

from fedplug.cli import main
from fedplug.diagnostics import doctor
from fedplug.diagnostics.doctor import Finding, examine
from fedplug.errors import OpLibraryError


def run_doctor(monkeypatch, **replaced):
    monkeypatch.setattr(doctor, "CHECKS", replaced)
    return main(["doctor"])


@pytest.mark.needs("tensorflow_federated")
@pytest.mark.parametrize("name", list(doctor.CHECKS))
def test_every_check_passes_where_the_tests_run(name):
    finding = examine(doctor.CHECKS[name])
    assert finding.status in ("ok", "warn"), finding
    assert finding.detail


def test_an_error_of_fedplug_is_a_failure_in_its_own_words():
    def check():
        raise OpLibraryError("not built;\nrun make setup")

    assert examine(check) == Finding("fail", "not built; run make setup")


def test_any_other_error_is_a_failure_with_a_fix():
    def check():
        raise ImportError("no such library")

    finding = examine(check)
    assert (finding.status, finding.detail) == ("fail", "ImportError: no such library")
    assert "make setup" in finding.fix


def test_a_failure_leaves_the_other_checks_alone_and_exits_with_1(monkeypatch, capsys):
    def broken():
        raise ImportError("no such library")

    assert run_doctor(monkeypatch, broken=broken, whole=lambda: Finding("ok", "fine")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["fail", "broken", "ImportError:", "no", "such", "library"]
    assert lines[1].strip().startswith("fix: ")
    assert lines[2].split() == ["ok", "whole", "fine"]
    assert lines[-1] == "1 of 2 checks failed"


def test_a_warning_is_no_failure(monkeypatch, capsys):
    assert run_doctor(monkeypatch, old=lambda: Finding("warn", "old", "update it")) == 0
    assert "fix: update it" in capsys.readouterr().out
