"""Whether compiled code is that of the sources around it."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from fedplug.errors import StaleBuildError
from fedplug.registry import build_info


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with two sources."""
    for name in ("a.cc", "b.cc"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(build_info, "_ROOT", tmp_path)
    return tmp_path


def test_a_current_build_is_used(checkout):
    build_info.require_current("the ops", "*.cc", build_info.fingerprint(list(checkout.glob("*.cc"))))


@pytest.mark.parametrize("change", ["b.cc", "c.cc"])
def test_a_build_before_a_change_is_refused_with_the_remedy(checkout, change):
    before = build_info.fingerprint(list(checkout.glob("*.cc")))
    (checkout / change).write_text("changed")
    with pytest.raises(StaleBuildError, match=r"the ops was built from other sources .* run `make setup`"):
        build_info.require_current("the ops", "*.cc", before)


def test_a_build_that_does_not_say_is_refused(checkout):
    with pytest.raises(StaleBuildError, match="make setup"):
        build_info.require_current("the ops", "*.cc", None)


def test_where_there_are_no_sources_nothing_is_compared(checkout):
    build_info.require_current("the ops", "*.none", None)


@pytest.mark.parametrize("code", ["fedplug.codec('topk(0.01)')", "import fedplug.ops"])
def test_sources_that_are_not_compiled_fail_with_one_line(tmp_path, code, python):
    root = Path(__file__).parents[2]
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(root / "fedplug", tmp_path / "fedplug", ignore=ignored)
    (tmp_path / "csrc").mkdir()
    installed = "sys.meta_path = [each for each in sys.meta_path if 'editable' not in repr(each)]"
    done = python("-c", f"import sys\n{installed}\nimport fedplug\n{code}", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"fedplug.errors.OpLibraryError: fedplug was imported from the sources in {tmp_path}, which are "
        "not compiled; run `make setup` there, or start Python in another folder to import the installed "
        "fedplug\n"
    )


def test_every_source_of_an_editable_install_makes_setup_install_it_again():
    root = Path(__file__).parents[2]
    keys = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]["cache-keys"]
    noticed = {path for key in keys for path in root.glob(key["file"])}
    sources = ("CMakeLists.txt", "cmake/*.cmake", "csrc/*/*", "examples/*.*", "fedplug/**/*.py")
    assert not {path for pattern in sources for path in root.glob(pattern)} - noticed
