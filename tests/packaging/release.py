"""Does everything that a release takes but the upload; `make release-check` runs it.

Usage: release.py UV [STEP ...]; without a step, all of them, in order. Every step runs whatever those before
it found; each problem is a line, and the exit status is 1 if there was any. docs/release.md is the process.

Wheels and sdists end in dist/, as they would be uploaded.
"""

from __future__ import annotations

import datetime
import functools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import elsewhere
import pythons
import release_rules
import wheels

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
OF_WHEELS = ("fedplug-tensorflow", "fedplug-cuda")
"""Built by `wheels` from a checkout: a source distribution of them could not be built."""
OF_SDIST = (3, 12), (3, 13)
"""It is built and tried on one of these: not the Python of the checkout, and without its lock file."""


def main(uv: str, *chosen: str) -> int:
    """Runs the steps."""
    unknown = set(chosen) - set(STEPS)
    if unknown:
        print(f"no step {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    uv, failed, summary = str(Path(shutil.which(uv) or uv).resolve()), [], []
    for name in chosen or STEPS:
        print(f"== {name}", flush=True)
        begin = time.monotonic()
        problems = list(_problems(STEPS[name], uv))
        failed += [name] if problems else []
        outcome = "FAILED" if problems else "ok"
        what = (STEPS[name].__doc__ or "").splitlines()[0]
        summary.append(f"{outcome:8}{name:10}{time.monotonic() - begin:6.0f} s  {what}")
        summary += [f"        {problem}" for problem in problems]
    print("", *summary, "", *_built(), sep="\n")
    ready = "the other steps were not run" if chosen else "ready to be tagged and uploaded"
    print(f"not ready: {', '.join(failed)}" if failed else ready)
    return 1 if failed else 0


def _built() -> Iterator[str]:
    """What lies in dist/, a line each."""
    for path in sorted(DIST.rglob("*fedplug*")):
        yield f"{path.stat().st_size / 2**20:8.2f} MiB  {path.relative_to(ROOT)}"


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
    """Builds source distributions, and wheels in pure Python; installs fedplug from its own, and uses it."""
    for path in (ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))):
        package = path.parent
        if package.name in OF_WHEELS:
            continue
        pure = "hatchling" in path.read_text(encoding="utf-8")
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


def offline(uv: str) -> Iterator[str]:
    """Installs every package from dist/ without a network, uses it, lists what it brings in dist/bills/."""
    yield from _run(sys.executable, "tests/packaging/offline.py", uv)


def artifacts(uv: str) -> Iterator[str]:
    """No wheel is missing in dist/; all there have the version, the licence, metadata, and a README."""
    for minor in range(wheels.OLDEST[1], wheels.NEWEST[1] + 1):
        for system in (f"manylinux*_{wheels.HERE}", f"manylinux*_{wheels.ELSEWHERE}", *elsewhere.SYSTEMS):
            if not list(DIST.glob(f"fedplug-*-cp3{minor}-{system}.whl")):
                yield f"no wheel of fedplug for Python 3.{minor} on {system}"
    paths = sorted([*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")])
    if not paths:
        yield "dist/ is empty: the steps compiled and sources fill it"
        return
    licence, version = (ROOT / "LICENSE").read_bytes(), release_rules.version(ROOT)
    for path in paths:
        yield from release_rules.artifact(path, licence, version)
    twine = ["tool", "run", "--quiet", "--with", "readme-renderer[md]", "twine", "check", "--strict"]
    yield from _run(uv, *twine, *paths)


def _run(*command: object, cwd: Path = ROOT) -> Iterator[str]:
    """A command's failure as a problem."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, check=False)
    if done.returncode:
        yield f"exit status {done.returncode}: {' '.join(map(str, command[:6]))}"


def _rule(rule: Callable[..., Iterator[str]], *arguments: object) -> Callable[[str], Iterator[str]]:
    """A rule of the files as a step."""
    return functools.wraps(rule)(lambda _: rule(ROOT, *arguments))


STEPS: dict[str, Callable[[str], Iterator[str]]] = {
    "tree": _rule(release_rules.tree),
    "versions": _rule(release_rules.versions),
    "changelog": _rule(release_rules.changelog, datetime.date.today()),
    "frozen": _rule(release_rules.frozen_payloads),
    "metadata": _rule(release_rules.metadata),
    "citation": citation,
    "docs": docs,
    "thorough": thorough,
    "compiled": compiled,
    "sources": sources,
    "offline": offline,
    "artifacts": artifacts,
}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
