"""What every source file owes its reader."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMENTED = {".h", ".cc", ".cu", ".cuh", ".cmake", ".sh", ".pyi"}
NAMES = {"CMakeLists.txt", "Makefile"}


def tracked():
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def own_header(path):
    """The header a C++ source implements, as it is included: seen from the nearest folder csrc, or root."""
    folder = next((parent for parent in path.parents if parent.name == "csrc"), ROOT)
    return path.relative_to(folder).with_suffix(".h").as_posix()


def says_what_it_is_for(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return bool(ast.get_docstring(ast.parse(text)))
    if path.suffix in {".cc", ".cu"} and text.startswith(f'#include "{own_header(path)}"'):
        return True  # its header says it
    return bool(re.match(r"(#!.*\n)?(//|#(?!include|ifndef|pragma|define)|/\*)", text))


def test_every_source_file_begins_with_its_purpose():
    sources = [path for path in tracked() if path.suffix in COMMENTED | {".py"} or path.name in NAMES]
    assert sources
    assert not [str(path.relative_to(ROOT)) for path in sources if not says_what_it_is_for(path)]
