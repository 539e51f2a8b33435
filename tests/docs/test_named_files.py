"""Pages for contributors, and messages of the program, name files, headings and commands that exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
from pages import anchors

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "docs/architecture.md"
PAGES = ("docs/architecture.md", "docs/compat.md", "csrc/README.md", "CONTRIBUTING.md")

# In backticks: a file by its ending, or a folder by its last character; `*` stands for several.
NAMED = re.compile(r"`([\w.*/-]+(?:\.(?:py|pyi|h|cc|cu|cuh|md|toml|txt|sh|cmake)|/))`")
# Where a page's names begin: at the root, in the package, in the core, or anywhere below one of the latter.
BASES = (".", "fedplug", "csrc", "csrc/core")

# What users are shown comes from these: errors, help, templates, docstrings.
SOURCES = ("*.py", "*.cc", "*.h", "*.cmake", "*.txt", "*.toml", "Makefile")
POINTER = re.compile(r"(?<![\w.-])((?:[\w-]+/)*[\w-]+\.md)(#[\w-]+)?")


def names(text):
    return [name for name in NAMED.findall(text) if "NAME" not in name]


def exists(name, page):
    if any(any((ROOT / base).glob(name)) for base in BASES):
        return True
    return "/" not in name.rstrip("/") and any((ROOT / page).parent.rglob(name))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page):
    found = names((ROOT / page).read_text(encoding="utf-8"))
    assert found
    missing = [name for name in found if not exists(name, page)]
    assert not missing, f"{page} names {', '.join(missing)}"


def test_every_command_for_contributors_can_be_run():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    made = re.findall(r"make ([a-z-]+)[`\n]", text)
    tested = [path for call in re.findall(r"`pytest ([^`]+)`", text) for path in call.split() if "/" in path]
    modules = re.findall(r"python -m ([\w.]+)", text)
    assert made
    assert tested
    assert modules
    assert set(made) <= set(targets)
    assert [path for path in tested if not (ROOT / path).exists()] == []
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []
    assert (ROOT / ".ci/run").is_file()


def test_the_ideas_come_first_and_then_the_path_of_one_update_in_at_most_twelve_files():
    text = ARCHITECTURE.read_text(encoding="utf-8")
    title, *sections = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert (title, *sections[:2]) == ("Architecture", "Five ideas", "The path of one update")
    steps = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| .+ \|$", text, re.MULTILINE)
    assert 8 <= len(steps) <= 12
    assert len(set(steps)) == len(steps)
    assert all((ROOT / "fedplug" / step).is_file() for step in steps)


def test_every_folder_of_the_package_is_in_the_table_of_the_architecture():
    text = ARCHITECTURE.read_text(encoding="utf-8")
    folders = [path.parent for path in (ROOT / "fedplug").glob("*/__init__.py")]
    assert [folder.name for folder in folders if f"`{folder.name}/" not in text] == ["cli"]


def sources():
    """The files of the packages, without their tests, benchmarks and examples."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SOURCES]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    others = re.compile(r"(^|/)(tests|benchmarks|examples|docs|\.ci)/")
    return [name for name in names if not others.search(name)]


def dead_pointers(text, folder):
    """The pages and headings that a text names and that are not there, from the root or its package."""
    bases = [base for base in (ROOT, folder, *folder.parents) if base.is_relative_to(ROOT)]
    for page, anchor in POINTER.findall(text):
        found = [base / page for base in bases if (base / page).is_file()]
        if not found or (anchor and anchor[1:] not in anchors(found[0].read_text(encoding="utf-8"))):
            yield page + anchor
    yield from re.findall(r"(?:end|beginning|top|bottom|section [^.]*) of (?:the )?[\w/.-]*README", text)


def test_every_page_and_heading_that_the_program_points_to_exists():
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in sources()}
    assert any("docs/tff.md#versions" in text for text in texts.values())
    dead = {name: list(dead_pointers(text, (ROOT / name).parent)) for name, text in texts.items()}
    assert {name: found for name, found in dead.items() if found} == {}


def test_a_pointer_to_a_page_or_heading_that_is_not_there_is_found():
    text = "see docs/tff.md#versions, docs/tff.md#gone, gone.md and the end of README.md"
    assert list(dead_pointers(text, ROOT / "fedplug")) == ["docs/tff.md#gone", "gone.md", "end of README"]
