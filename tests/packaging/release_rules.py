"""What a release must be that can be read off files and git: each rule gives the problems it finds, as lines.

Must not build or install anything; that is `release`. Needs nothing but the standard library.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["artifact", "changelog", "frozen_payloads", "metadata", "tree", "version", "versions"]

GOLDEN = ":(glob)**/tests/**/golden/**"
_OWN = re.compile(r"(fedplug[\w-]*)(?:\[[\w,]+\])?==([^\s;]+)")


def version(root: Path) -> str:
    """The version that is released: fedplug's."""
    found: str = _project(root / "pyproject.toml")["version"]
    return found


def versions(root: Path) -> Iterator[str]:
    """One version everywhere: fedplug, its packages, what they pin of each other, and the citation."""
    wanted = version(root)
    for path in _projects(root):
        project, where = _project(path), path.relative_to(root)
        if project["version"] != wanted:
            yield f"{where}: version {project['version']}, but fedplug's is {wanted}"
        extras = project.get("optional-dependencies", {}).values()
        for requirement in [*project.get("dependencies", ()), *(each for extra in extras for each in extra)]:
            pinned = _OWN.match(requirement)
            if pinned and pinned[2] != wanted:
                yield f"{where}: {requirement} is not the version released, {wanted}"
    cited = re.search(r"^version: (\S+)$", _text(root / "CITATION.cff"), re.MULTILINE)
    if not cited or cited[1].strip("\"'") != wanted:
        yield f"CITATION.cff: version {cited[1] if cited else 'missing'}, but fedplug's is {wanted}"


def changelog(root: Path, today: datetime.date) -> Iterator[str]:
    """The first section is the release, with what changed and its date, which the citation has, too."""
    wanted = version(root)
    sections = re.split(r"^## ", _text(root / "CHANGELOG.md"), flags=re.MULTILINE)
    heading, _, body = sections[1].partition("\n") if len(sections) > 1 else ("no section", "", "")
    found = re.fullmatch(r"(\S+) - (\d{4}-\d{2}-\d{2})", heading.strip())
    if not found or found[1] != wanted:
        yield f"CHANGELOG.md begins with '{heading.strip()}'; make it '{wanted} - {today}'"
        return
    if not re.search(r"^- ", body, re.MULTILINE):
        yield f"CHANGELOG.md: nothing is listed under {wanted}"
    try:
        date = datetime.date.fromisoformat(found[2])
    except ValueError:
        yield f"CHANGELOG.md: {found[2]} is no date"
        return
    if date > today:
        yield f"CHANGELOG.md: {date} is in the future"
    if f"\ndate-released: {date}\n" not in _text(root / "CITATION.cff"):
        yield f"CITATION.cff: needs the line 'date-released: {date}', that of CHANGELOG.md"


def tree(root: Path) -> Iterator[str]:
    """Everything is committed, and no other commit has the tag of this version."""
    for line in _git(root, "status", "--porcelain").splitlines():
        yield f"not committed: {line}"
    tag = f"v{version(root)}"
    if _git(root, "tag", "--list", tag) and not _git(root, "tag", "--list", tag, "--points-at", "HEAD"):
        yield f"tag {tag} is that of another commit; raise the version"


def frozen_payloads(root: Path) -> Iterator[str]:
    """The golden files of the last release have not changed: its formats and wire ids are frozen."""
    tags = _git(root, "tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname").split()
    if not tags:
        return
    changes = _git(root, "diff", "--name-status", "--no-renames", tags[0], "--", GOLDEN)
    for line in changes.splitlines():
        status, _, path = line.partition("\t")
        if status != "A":
            what = "deleted" if status == "D" else "changed"
            yield f"{path}: {what} since {tags[0]}, which froze its format; give a new layout a new id"


def metadata(root: Path) -> Iterator[str]:
    """Every distribution says what it is, shows its README and brings its licence."""
    for path in _projects(root):
        project = _project(path)
        for key in ("description", "readme", "license", "requires-python"):
            if key not in project:
                yield f"{path.relative_to(root)}: [project] has no {key}"
        if _text(path.parent / "LICENSE") != _text(root / "LICENSE"):
            where = path.parent.relative_to(root) / "LICENSE"
            yield f"{where}: must be a copy of the LICENSE above, for wheels to have it"


def artifact(path: Path, licence: bytes, version: str) -> Iterator[str]:
    """A wheel or sdist has the version and the licence, no file of a build, and a tag of old C libraries."""
    if path.name.removesuffix(".tar.gz").split("-")[1] != version:
        yield f"{path.name}: is not of version {version}"
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            found = [wheel.read(name) for name in names if re.search(r"\.dist-info/(.*/)?LICENSE$", name)]
    else:
        with tarfile.open(path) as sdist:
            names = sdist.getnames()
            there = [each for each in sdist if each.isfile() and re.fullmatch(r"[^/]+/LICENSE", each.name)]
            found = [file.read() for each in there if (file := sdist.extractfile(each))]
    if licence not in found:
        yield f"{path.name}: holds another LICENSE" if found else f"{path.name}: holds no LICENSE"
    built = [name for name in names if re.search(r"(^|/)(\.venv|__pycache__|build|runs|\.git)/", name)]
    if built:
        yield f"{path.name}: holds {built[0]}, which is no source"
    if path.suffix == ".whl" and not re.search(r"-(any|macosx\w+|win\w+|musllinux\w+)$", path.stem):
        yield from _c_library(path.name)


def _c_library(wheel: str) -> Iterator[str]:
    """The name of a wheel, which auditwheel gave it, allows old C libraries."""
    newest = 34 if wheel.startswith("fedplug_tensorflow-") else 28
    if not any(int(minor) <= newest for minor in re.findall(r"manylinux_2_(\d+)", wheel)):
        yield f"{wheel}: needs a C library after glibc 2.{newest}; see cmake/FedplugOldLibraries.cmake"


def _projects(root: Path) -> list[Path]:
    return [root / "pyproject.toml", *sorted(root.glob("plugins/*/pyproject.toml"))]


def _project(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(_text(path))["project"]
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _git(root: Path, *command: str) -> str:
    done = subprocess.run(["git", "-C", root, *command], capture_output=True, text=True, check=True)
    return done.stdout
