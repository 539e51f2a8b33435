"""Docstrings begin with a sentence or a noun phrase, and sources and pages use the field's words."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("fedplug", "plugins", "csrc", "docs", "README.md", "CONTRIBUTING.md")
SUFFIXES = (".py", ".pyi", ".txt", ".cc", ".h", ".cu", ".cuh", ".md")

# Text that begins with one of these words continues the name in front of it and has no subject.
START = re.compile(r"(Of|That|Those|Which|So|With|As|In|Before|After|From|What|Whoever)\b")
WORD = re.compile(r"\b(so many|nobody|whoever|vouch(e[sd])?|must not know)\b", re.IGNORECASE)
SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):")


def entries(docstring):
    """Yields the first line of a docstring, and the first line of each entry without its name."""
    section = None
    for number, line in enumerate(docstring.splitlines()):
        if number == 0:
            yield line
        elif line and not line.startswith(" "):
            section = SECTION.fullmatch(line)
        elif section and (entry := re.fullmatch(r" {4}(\S.*)", line)):
            returned = section[1] in ("Returns", "Yields")
            yield entry[1] if returned else entry[1].partition(": ")[2]
            section = None if returned else section


def without_subject(source):
    """Yields the entries of all docstrings of a Python source that begin with one of the words above."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for entry in entries(inspect.cleandoc(str(node.value.value))):
                if START.match(entry):
                    yield f"{node.lineno}: {entry}"


def odd_words(text):
    """Yields the lines of a text with a word that the field does not use."""
    for number, line in enumerate(text.splitlines(), start=1):
        if WORD.search(line):
            yield f"{number}: {line.strip()}"


def found(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    lines = [*odd_words(text), *(without_subject(text) if name.endswith((".py", ".pyi")) else ())]
    return [f"{name}:{line}" for line in lines]


def test_docstrings_have_a_subject_and_no_file_has_an_odd_word() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    read = [name for name in names if name.endswith(SUFFIXES) and not re.match("plugins/.*/tests/", name)]
    assert [line for name in read for line in found(name)] == []


@pytest.mark.parametrize(
    ("docstring", "count"),
    [
        ("Of the draw.", 1),
        ("Draws.\n\nArgs:\n    seed: Of the draw.\n    n: The size,\n        As is.", 1),
        ("Draws.\n\nReturns:\n    So many values.\n    That is all.\n\nRaises:\n    E: As `g`.", 2),
        ("Draws.\n\nArgs:\n    seed: The seed of the random draw.\n\nThe rest.", 0),
    ],
)
def test_a_docstring_without_a_subject_is_found(docstring, count) -> None:
    assert len(list(without_subject(f'def f():\n    """{docstring}"""\n'))) == count


def test_an_odd_word_is_found() -> None:
    assert list(odd_words("// One\n// bytes that nobody vouches for")) == [
        "2: // bytes that nobody vouches for"
    ]
