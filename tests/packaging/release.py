"""Does everything that a release takes but the upload; `make release-check` runs it.

Usage: release.py UV [STEP ...]; without a step, all of them, in order. Every step runs whatever those before
it found; each problem is a line, and the exit status is 1 if there was any. docs/release.md is the process.

Wheels and sdists end in dist/, as they would be uploaded.
"""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pythons
import release_rules
import wheels

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
COMPILED = ("fedplug", "fedplug-tensorflow", "fedplug-sketch")
"""Their wheels are for one Python or one TensorFlow: `wheels` builds the first two, users the third."""
OF_SDIST = (3, 12), (3, 13)
"""It is built and tried on one of these: not the Python of the checkout, and without its lock file."""


def main(uv: str, *chosen: str) -> int:
    """Runs the steps."""
    unknown = set(chosen) - set(STEPS)
    if unknown:
        print(f"no step {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    uv, failed = str(Path(shutil.which(uv) or uv).resolve()), []
    for name in chosen or STEPS:
        problems = list(_problems(STEPS[name], uv))
        print(f"{'FAILED' if problems else 'ok':8}{name}", flush=True)
        for problem in problems:
            print(f"        {problem}", flush=True)
        failed += [name] if problems else []
    print("ready to be tagged and uploaded" if not failed else f"not ready: {', '.join(failed)}")
    return 1 if failed else 0


def _problems(step: Callable[[str], Iterator[str]], uv: str) -> Iterator[str]:
    """Those of a step; a command that failed is one, and its own output is above."""
    try:
        yield from step(uv)
    except subprocess.CalledProcessError as error:
        yield f"exit status {error.returncode}: {' '.join(map(str, error.cmd))}"


def citation(uv: str) -> Iterator[str]:
    """CITATION.cff is valid by its schema."""
    yield from _run(uv, "tool", "run", "--quiet", "cffconvert", "--validate")


def docs(uv: str) -> Iterator[str]:
    """The site builds, without a warning, and all its links lead somewhere."""
    del uv
    yield from _run("make", "--no-print-directory", "docs")


def thorough(uv: str) -> Iterator[str]:
    """The Python tests with more examples than on every commit."""
    del uv
    yield from _run("make", "--no-print-directory", "test-thorough")


def compiled(uv: str) -> Iterator[str]:
    """Wheels of fedplug and its ops, for every Python here; each tried in fresh environments, in minutes."""
    yield from _run(sys.executable, "tests/packaging/wheels.py", uv)


def sources(uv: str) -> Iterator[str]:
    """Sdists of everything, wheels of what is pure Python; fedplug is installed from its sdist and used."""
    for path in (ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))):
        package = path.parent
        pure = package.name not in COMPILED and package != ROOT
        what = ["--sdist", "--wheel"] if pure else ["--sdist"]
        yield from _run(uv, "build", "--quiet", *what, "--out-dir", DIST, package)
    found = pythons.find(*OF_SDIST)
    if not found:
        yield f"no Python from 3.{OF_SDIST[0][1]} to 3.{OF_SDIST[1][1]} here to install the sdist with"
        return
    environment = wheels.fresh(uv, next(iter(found.values())), "sdist").absolute()
    (sdist,) = DIST.glob("fedplug-*.tar.gz")
    # From a folder where uv does not find the settings of this checkout, which builds without isolation.
    install = [uv, "pip", "install", "--quiet", "--python", environment, sdist]
    yield from _run(*install, cwd=Path(tempfile.gettempdir()))
    trial = [environment / "bin" / "python", "-I", wheels.TRIAL.absolute()]
    yield from _run(*trial, cwd=environment)


def artifacts(uv: str) -> Iterator[str]:
    """What lies in dist/: the licence is in everything, the metadata is valid, and every README renders."""
    paths = sorted([*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")])
    if not paths:
        yield "dist/ is empty: the steps compiled and sources fill it"
        return
    licence = (ROOT / "LICENSE").read_bytes()
    for path in paths:
        yield from release_rules.artifact(path, licence)
    twine = ["tool", "run", "--quiet", "--with", "readme-renderer[md]", "twine", "check", "--strict"]
    yield from _run(uv, *twine, *paths)


def _run(*command: object, cwd: Path = ROOT) -> Iterator[str]:
    """A command's failure as a problem."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, check=False)
    if done.returncode:
        yield f"exit status {done.returncode}: {' '.join(map(str, command[:6]))}"


STEPS: dict[str, Callable[[str], Iterator[str]]] = {
    "tree": lambda _: release_rules.tree(ROOT),
    "versions": lambda _: release_rules.versions(ROOT),
    "changelog": lambda _: release_rules.changelog(ROOT, datetime.date.today()),
    "frozen": lambda _: release_rules.frozen_payloads(ROOT),
    "metadata": lambda _: release_rules.metadata(ROOT),
    "citation": citation,
    "docs": docs,
    "thorough": thorough,
    "compiled": compiled,
    "sources": sources,
    "artifacts": artifacts,
}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
