"""The record of the plugins with which a folder's runs were made."""

from __future__ import annotations

import pytest

from fedplug.errors import PluginError, StoreError, UnknownNameError
from fedplug.tff.experiment.provenance import Provenance

GONE = {"kind": "encoder", "name": "gone", "distribution": "gone-codec", "version": "1.2"}
HERE = {"kind": "encoder", "name": "topk", "distribution": "fedplug", "version": "0.1.0"}


def look_up(provenance, run):
    with provenance.naming_what_is_missing(run):
        raise UnknownNameError("encoder", "gone", ["topk"])


def test_a_missing_part_is_named_with_its_package(tmp_path):
    provenance = Provenance(tmp_path / "provenance.json")
    provenance.write({"sparse": [HERE, GONE], "dense": [HERE]})
    with pytest.raises(PluginError, match=r"unknown encoder.*pip install gone-codec==1\.2.*provenance\.json"):
        look_up(provenance, "sparse")


@pytest.mark.parametrize("run", ["dense", "another"])
def test_an_unknown_name_stays_the_same_error(tmp_path, run):
    provenance = Provenance(tmp_path / "provenance.json")
    provenance.write({"sparse": [HERE, GONE], "dense": [HERE]})
    with pytest.raises(UnknownNameError, match="known: topk"):
        look_up(provenance, run)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_folder_without_such_a_file_is_no_problem(tmp_path, text):
    (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(UnknownNameError):
        look_up(Provenance(tmp_path / "provenance.json"), "sparse")
    with pytest.raises(UnknownNameError):
        look_up(Provenance(tmp_path / "nothing.json"), "sparse")


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    with pytest.raises(StoreError, match="cannot write"):
        Provenance(tmp_path / "missing" / "provenance.json").write({})
