"""The names that docs/stages.md lists for authors are public, and cost nothing until they are used."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "stages.md").read_text(encoding="utf-8")


def test_every_name_for_authors_exists():
    names = re.findall(
        r"^\| `(fedplug\.[\w.]+)` \|", PAGE[PAGE.index("## Names for authors") :], re.MULTILINE
    )
    assert len(names) == 6
    for name in names:
        package, _, last = name.rpartition(".")
        assert last in importlib.import_module(package).__all__


def test_stores_are_imported_without_what_only_some_need():
    program = "import sys, fedplug.stores; print({'sqlite3', 'safetensors'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
