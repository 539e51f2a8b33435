"""The lines of the README run."""

from __future__ import annotations

import re
from pathlib import Path

from fedplug_flower import Compressed
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg


def test_the_lines_of_the_readme_run():
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [lines] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(lines, names := {"ClientApp": ClientApp, "FedAvg": FedAvg})
    assert isinstance(names["strategy"], Compressed)
