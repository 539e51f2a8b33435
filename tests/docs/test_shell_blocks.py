"""Commands on the pages can be given, and no Python is in a block that names no language."""

from __future__ import annotations

import ast
import re
import shlex

import pytest
from pages import ROOT, markdown

from fedplug.cli import _parser

PAGES = [page for page in markdown() if "results" not in page.parts]


def unnamed(page):
    found = re.findall(
        r"^```([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [block for language, block in found if not language]


def commands(page):
    """Yields the words of every command, without comments, variables and what follows a pipe."""
    for block in unnamed(page):
        for line in block.replace("\\\n", " ").splitlines():
            words = re.sub(r"^\$ |^(\w+=\S+ )+", "", re.split(r" #| \| (?=\w+ )", line)[0])
            if words.startswith(("fedplug ", "python ")) and "..." not in words:
                yield shlex.split(words)


def is_python(block):
    try:
        ast.parse(block)
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_can_be_given(page):
    for program, *arguments in commands(page):
        if program == "fedplug":
            _parser().parse_args(arguments)
        elif arguments[0].endswith(".py"):
            examples = [page.parent, ROOT, *page.parent.glob("examples/*")]
            assert any((folder / arguments[0]).exists() for folder in examples), arguments[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_without_a_name_are_not_python(page):
    assert [block for block in unnamed(page) if is_python(block)] == []


def test_there_are_commands():
    assert len([each for page in PAGES for each in commands(page)]) > 25
