"""Whether what was compiled belongs to the sources it lies among: in a checkout it may be older than these.

A build carries the fingerprint of the sources that say how Python calls it. An installed package brings no
sources, and its parts were built together.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from fedplug.errors import StaleBuildError

__all__ = ["fingerprint", "require_current"]

_ROOT = Path(__file__).parents[2]


def require_current(what: str, pattern: str, built_from: str | None) -> None:
    """Checks that a build is of the sources there are now.

    Args:
        what: Was built; for the error.
        pattern: Which sources say how it is called, from the root of the checkout.
        built_from: The fingerprint that the build carries; None where it carries none.

    Raises:
        StaleBuildError: It is of others.
    """
    sources = list(_ROOT.glob(pattern))
    if sources and fingerprint(sources) != built_from:
        raise StaleBuildError(
            f"{what} was built from other sources than those in this checkout ({pattern}): run `make setup`"
        )


def fingerprint(sources: list[Path]) -> str:
    """As `fedplug_fingerprint` in cmake/FedplugTargets.cmake makes it."""
    digests = [hashlib.sha256(source.read_bytes()).hexdigest() for source in sorted(sources)]
    return hashlib.sha256("".join(digests).encode()).hexdigest()
