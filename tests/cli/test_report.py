"""``fedplug report``: where the page goes, and one line for what is wrong."""

from __future__ import annotations

import json

import pytest

from fedplug.cli import main

ROW = {"run": "a", "round": 1, "uplink_bytes": 1, "downlink_bytes": 1, "clients": 1, "payloads": 1}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "runs/x"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(json.dumps(ROW) + "\n")
    return folder


@pytest.mark.needs("matplotlib")
def test_a_report_of_one_folder_goes_into_it(folder, capsys):
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not list(folder.glob("*.partial"))


@pytest.mark.needs("matplotlib")
def test_a_report_of_several_goes_into_the_current_folder_or_the_given_file(
    folder, tmp_path, monkeypatch, capsys
):
    other = tmp_path / "runs/y"
    other.mkdir()
    (other / "metrics.jsonl").write_text(json.dumps(ROW))
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(folder), str(other)]) == 0
    assert main(["report", str(folder), str(other), "--out", "both.html"]) == 0
    assert capsys.readouterr().out == "report.html\nboth.html\n"
    assert (tmp_path / "report.html").read_bytes() == (tmp_path / "both.html").read_bytes()


@pytest.mark.needs("matplotlib")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: folder.rename(folder.with_name("z")), "such as runs/digits; there are: "),
        (lambda folder: (folder / "metrics.jsonl").unlink(), "has no metrics.jsonl"),
        (lambda folder: (folder / "report.html").mkdir(), "no regular file"),
    ],
)
def test_an_error_is_one_line(folder, capsys, change, message):
    change(folder)
    assert main(["report", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("fedplug: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "report.html").is_file()
