"""docs/wire-format.md: its examples are golden payloads, byte for byte, and it has every wire id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedplug.registry.resolve import catalog

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/wire-format.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```text\n(tests/golden/\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 5


@pytest.mark.parametrize(("name", "lines"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_has_the_bytes_of_its_golden_payload(name: str, lines: str) -> None:
    written = "".join(line.partition("  ")[0] for line in lines.splitlines())
    assert bytes.fromhex(written) == (ROOT / name).read_bytes()


def test_every_wire_id_of_an_own_encoder_is_on_the_page() -> None:
    own = {entry.wire_id for entry in catalog().entries if entry.builtin and entry.wire_id}
    assert "qsgd/1" in own
    assert [wire_id for wire_id in sorted(own) if f"`{wire_id}`" not in PAGE] == []
