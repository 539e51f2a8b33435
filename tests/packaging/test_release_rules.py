"""Each rule of a release finds what it is for, and nothing in a release that is as it should be."""

from __future__ import annotations

import datetime
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import release_rules

TODAY = datetime.date(2026, 3, 2)
LICENCE = b"Apache License\n"
CHANGELOG = "# Changelog\n\n## 1.2.0 - 2026-03-01\n\n- A thing.\n\n## 1.1.0 - 2026-01-01\n\n- Another.\n"
PROJECT = """
[project]
name = "fedplug"
version = "1.2.0"
description = "It"
readme = "README.md"
license = "Apache-2.0"
requires-python = ">=3.10"
"""


def git(root, *command):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, "-C", root, *command], check=True, capture_output=True)


@pytest.fixture
def root(tmp_path) -> Path:
    """A repository that is ready for its release."""
    files = {
        "pyproject.toml": f'{PROJECT}\n[project.optional-dependencies]\nops = ["fedplug-ops==1.2.0"]\n',
        "plugins/fedplug-ops/pyproject.toml": PROJECT.replace('"fedplug"', '"fedplug-ops"'),
        "plugins/fedplug-ops/LICENSE": LICENCE.decode(),
        "plugins/fedplug-ops/tests/golden/a.bin": "frozen",
        "tests/golden/b.bin": "frozen",
        "LICENSE": LICENCE.decode(),
        "CITATION.cff": "version: 1.2.0\ndate-released: 2026-03-01\n",
        "CHANGELOG.md": CHANGELOG,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "all")
    git(tmp_path, "tag", "v1.1.0")
    return tmp_path


def replace(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


RULES = {
    "versions": release_rules.versions,
    "changelog": lambda root: release_rules.changelog(root, TODAY),
    "tree": release_rules.tree,
    "frozen": release_rules.frozen_payloads,
    "metadata": release_rules.metadata,
}
OPS = "plugins/fedplug-ops/pyproject.toml"


@pytest.mark.parametrize("rule", RULES)
def test_a_correct_package_has_no_faults(root, rule):
    assert list(RULES[rule](root)) == []


@pytest.mark.parametrize(
    ("rule", "path", "old", "new", "said"),
    [
        ("versions", "pyproject.toml", "1.2.0", "1.2.1", "released, 1.2.1"),
        ("versions", OPS, "1.2.0", "1.2.1", "version 1.2.1, but fedplug's is 1.2.0"),
        (
            "versions",
            "pyproject.toml",
            "fedplug-ops==1.2.0",
            "fedplug-ops==1.1.0",
            "fedplug-ops==1.1.0",
        ),
        ("versions", "CITATION.cff", "1.2.0", "1.2.1", "version 1.2.1"),
        ("versions", "CITATION.cff", "version", "edition", "missing"),
        ("changelog", "CHANGELOG.md", "1.2.0 - 2026-03-01", "Unreleased", "'1.2.0 - 2026-03-02'"),
        ("changelog", "CHANGELOG.md", "1.2.0 - 2026-03-01", "1.1.5 - 2026-03-01", "begins with '1.1.5"),
        ("changelog", "CHANGELOG.md", "1.2.0 - 2026-03-01", "1.2.0", "begins with '1.2.0'"),
        ("changelog", "CHANGELOG.md", "2026-03-01", "2026-13-01", "no date"),
        ("changelog", "CHANGELOG.md", "2026-03-01", "2026-03-03", "in the future"),
        ("changelog", "CHANGELOG.md", "- A thing.", "", "nothing is listed"),
        ("changelog", "CHANGELOG.md", "## ", "", "begins with '1.1.0"),
        ("changelog", "CITATION.cff", "2026-03-01", "2026-02-01", "date-released: 2026-03-01"),
        *(
            ("metadata", OPS, f"{key} = ", f"not-{key} = ", f"no {key}")
            for key in ("description", "readme", "license", "requires-python")
        ),
        ("metadata", "plugins/fedplug-ops/LICENSE", "Apache", "MIT", "fedplug-ops/LICENSE: must be a copy"),
    ],
)
def test_a_fault_is_found(root, rule, path, old, new, said):
    replace(root / path, old, new)
    assert said in next(RULES[rule](root))


def test_uncommitted_files_are_found(root):
    (root / "new").touch()
    replace(root / "LICENSE", "Apache", "apache")
    assert len(list(release_rules.tree(root))) == 2


def test_a_version_that_another_commit_has_is_found(root):
    git(root, "tag", "--annotate", "v1.2.0", "--message", "release")
    assert list(release_rules.tree(root)) == []
    git(root, "commit", "--allow-empty", "--message", "after the release")
    [problem] = release_rules.tree(root)
    assert "v1.2.0 is that of another commit" in problem


def test_golden_payloads_that_changed_since_the_last_tag_are_found_and_new_ones_are_not(root):
    (root / "tests/golden/c.bin").write_text("new", encoding="utf-8")
    (root / "tests/golden/b.bin").write_text("other", encoding="utf-8")
    git(root, "rm", "plugins/fedplug-ops/tests/golden/a.bin")
    git(root, "add", ".")
    git(root, "commit", "-m", "change")
    deleted, changed = release_rules.frozen_payloads(root)
    assert "a.bin: deleted since v1.1.0" in deleted
    assert "b.bin: changed since v1.1.0" in changed


def test_nothing_is_frozen_before_the_first_tag(root):
    git(root, "tag", "--delete", "v1.1.0")
    replace(root / "tests/golden/b.bin", "frozen", "other")
    assert list(release_rules.frozen_payloads(root)) == []


def wheel(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def sdist(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


KINDS = [
    (wheel, "a-1-py3-none-any.whl", "a-1.dist-info/licenses/LICENSE"),
    (sdist, "a-1.tar.gz", "a-1/LICENSE"),
]


@pytest.mark.parametrize(("make", "name", "licence"), KINDS)
def test_what_is_uploaded_has_the_licence_and_the_version_and_no_outputs_of_builds(
    tmp_path, make, name, licence
):
    def faults(files, version="1"):
        return list(release_rules.artifact(make(tmp_path / name, files), LICENCE, version))

    assert faults({licence: LICENCE}) == []
    assert faults({licence: b"MIT"}) == [f"{name}: holds another LICENSE"]
    assert faults({"a/LICENSE.py": LICENCE}) == [f"{name}: holds no LICENSE"]
    assert faults({licence: LICENCE}, "1.1") == [f"{name}: is not of version 1.1"]
    for built in ("a-1/__pycache__/a.pyc", "a-1/.venv/bin/python", "build/x.o"):
        assert faults({licence: LICENCE, built: b""}) == [f"{name}: holds {built}, which is no source"]


def test_a_link_in_an_sdist_is_no_licence(tmp_path):
    link = tarfile.TarInfo("a-1/LICENSE")
    link.type, link.linkname = tarfile.SYMTYPE, "../../LICENSE"
    with tarfile.open(tmp_path / "a-1.tar.gz", "w:gz") as archive:
        archive.addfile(link)
    found = list(release_rules.artifact(tmp_path / "a-1.tar.gz", LICENCE, "1"))
    assert found == ["a-1.tar.gz: holds no LICENSE"]


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("fedplug-1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64", True),
        ("fedplug_cuda-1-py3-none-manylinux_2_28_x86_64", True),
        ("fedplug_cuda-1-py3-none-manylinux_2_34_x86_64", False),
        ("fedplug_tensorflow-1-cp311-cp311-manylinux_2_34_x86_64", True),
        ("fedplug_tensorflow-1-cp311-cp311-manylinux_2_35_x86_64", False),
        ("fedplug-1-cp311-cp311-linux_x86_64", False),
    ],
)
def test_a_wheel_runs_with_the_c_library_of_older_machines(tmp_path, name, runs):
    path = wheel(tmp_path / f"{name}.whl", {"a-1.dist-info/LICENSE": LICENCE})
    found = list(release_rules.artifact(path, LICENCE, "1"))
    assert runs == (found == [])
    assert runs or "needs a C library after glibc" in found[0]


def test_the_checkout_itself_has_one_version_and_all_its_metadata():
    root = Path(__file__).parents[2]
    assert [*release_rules.versions(root), *release_rules.metadata(root)] == []
