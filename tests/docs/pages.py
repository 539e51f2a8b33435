"""The repository's Markdown, and what is read off it: for the tests of this folder."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def markdown() -> list[Path]:
    """All pages that git knows or would add, the README and those of plugins included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({path for name in names.splitlines() if (path := ROOT / name).is_file()})


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def printed(program: Sequence[str], folder: Path, *, warnings: str = "error") -> str:
    """Runs blocks of Python in a folder, one after the other; returns what they print."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", "\n".join(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def prose(text: str) -> str:
    """A page without its blocks and its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(text: str) -> set[str]:
    """Returns the anchors that code hosts give to headings."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(text: str) -> list[tuple[str, str]]:
    """Targets of links and pictures that are no web addresses, as a path (empty: this page) and an anchor."""
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(text))
    return [(path, anchor) for path, _, anchor in (target.partition("#") for target in targets)]
