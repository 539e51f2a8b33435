"""Trains models with batch normalization in Flower and NVFlare, uncompressed and compressed.

``python -m benchmarks.batch_norm --python PYTHON`` writes benchmarks/results/batch_norm.md. The interpreter
needs flwr, nvflare, torchvision, scikit-learn, fedplug and its packages for both. Each training is a separate
process; ``--found FILE`` stores their results and trains only what is not in it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tables import code, table
from fedplug.diagnostics.environment import processor

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).with_name("results") / "batch_norm.md"

README = "topk(0.01, scope='model') | qsgd(8)"
LOSSY = f"rules({{'*running_*': {README!r}, '*': {README!r}}})"
"""A rule that compresses statistics; earlier versions compressed them without one."""

LAST = 3
"""Number of final rounds whose accuracies are averaged."""


class Training(NamedTuple):
    framework: str
    model: str
    rounds: int
    encoder: str

    @property
    def key(self) -> str:
        return f"{self.framework} {self.model} {self.rounds} {self.encoder}"


FRAMEWORKS = {"flower": "Flower", "nvflare": "NVFlare"}
ROUNDS = {
    ("flower", "CNN"): 30,
    ("flower", "ResNet-10"): 14,
    ("nvflare", "CNN"): 12,
    ("nvflare", "ResNet-10"): 8,
}
TRAININGS = [
    Training(framework, model, rounds, encoder)
    for (framework, model), rounds in ROUNDS.items()
    for encoder in ("", "auto", README, *([LOSSY] if (framework, model) == ("flower", "CNN") else []))
]


def measure(python: str, training: Training) -> list[dict[str, float]]:
    """Trains; returns the accuracy, the smallest variance and the bytes of an update for every round."""
    paths = [ROOT, ROOT / "plugins/fedplug-flower/tests"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    done = subprocess.run(
        [
            python,
            "-m",
            f"benchmarks.batch_norm_{training.framework}",
            training.model,
            str(training.rounds),
            training.encoder,
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != training.rounds:
        raise SystemExit(f"{training.key}: {len(lines)} rounds\n{done.stderr[-3000:]}")
    return lines


def main(python: str, found_file: Path | None) -> None:
    """Runs the missing trainings and writes the page."""
    found: dict[str, Any] = {}
    if found_file is not None and found_file.exists():
        found = json.loads(found_file.read_text(encoding="utf-8"))
    for training in TRAININGS:
        if training.key not in found:
            found[training.key] = measure(python, training)
            print(training.key, found[training.key][-1], flush=True)
            if found_file is not None:
                found_file.write_text(json.dumps(found), encoding="utf-8")
    RESULT.write_text(page(python, found), encoding="utf-8")


def page(python: str, found: dict[str, Any]) -> str:
    """Formats the results in Markdown."""
    head = [
        "",
        "model",
        "rounds",
        "encoder",
        "accuracy, %",
        "below",
        "lowest, %",
        "smallest variance",
        "bytes",
    ]
    rows = [[*head, "bytes", "fewer"]]
    for training in TRAININGS:
        lines = found[training.key]
        plain = found[training._replace(encoder="").key]
        size = statistics.fmean(line["bytes"] for line in lines)
        accuracy = [100 * line["accuracy"] for line in lines]
        below = 100 * _last(plain) - 100 * _last(lines)
        second_half = accuracy[len(accuracy) // 2 :]
        cells = [
            FRAMEWORKS[training.framework],
            training.model,
            str(training.rounds),
            _name(training.encoder),
            f"{100 * _last(lines):.1f}",
            f"{below:.1f}" if training.encoder else "",
            f"{min(second_half):.1f}",
            f"{min(line['variance'] for line in lines):.2g}",
            f"{size:,.0f}",
            f"{plain[0]['bytes'] / size:.0f}x",
        ]
        rows.append(cells)
    packages = ("flwr", "nvflare", "torch", "torchvision")
    code = f"from importlib.metadata import version; print(*map(version, {packages}))"
    versions = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    stated = ", ".join(f"{name} {number}" for name, number in zip(packages, versions, strict=True))
    return f"""# Models with batch normalization

Made by `python -m benchmarks.batch_norm` on {datetime.datetime.now(tz=datetime.timezone.utc):%Y-%m-%d}:
{processor()}, {os.cpu_count()} cores, shared with other work; {stated}.

Scikit-learn's digits: 397 images for tests, the others among 4 clients, all of which train for one epoch in
every round. The CNN has two convolutions and a hidden layer, 118,570 parameters; ResNet-10 is torchvision's
`ResNet(BasicBlock, [1, 1, 1, 1])`, 4,904,650 parameters, on images of 16 by 16. Weights are random at first,
one seed. In Flower the nodes answer in the process of the server, through Flower's serialization; NVFlare is
its simulator, with a process for each site, and has fewer rounds because they take longer.

{table(rows, texts=(0, 1, 3))}
- **accuracy**: the mean of the last {LAST} rounds, of the model in evaluation mode, which uses the running
  statistics. **below**: points below the same training uncompressed. **lowest**: of the second half.
- **smallest variance**: the smallest entry of all `running_var` in all rounds.
- **bytes**: the size of one client's update, the mean of all rounds, statistics included.
- **statistics compressed**: the same encoder with a rule that names the statistics, as in
  `{{"*running_*": ..., "*": ...}}`; without such a rule they are sent exactly.
"""


def _last(lines: list[dict[str, float]]) -> float:
    return statistics.fmean(line["accuracy"] for line in lines[-LAST:])


def _name(encoder: str) -> str:
    if encoder == LOSSY:
        return "statistics compressed"
    return code(encoder) if encoder else "uncompressed"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with both frameworks")
    parser.add_argument("--found", type=Path, help="JSON of trainings that are measured already")
    arguments = parser.parse_args()
    main(arguments.python, arguments.found)
