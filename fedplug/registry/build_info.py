"""Checks whether the compiled parts match the sources beside them, which may be newer in a checkout.

A build carries the fingerprint of the sources that define its interface to Python. An installed package has
no sources, and its parts were built together.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import TracebackType

from fedplug.errors import OpLibraryError, StaleBuildError

__all__ = ["fingerprint", "not_loaded", "require_current"]

_ROOT = Path(__file__).parents[2]


def require_current(what: str, pattern: str, built_from: str | None) -> None:
    """Checks that a build matches the current sources.

    Args:
        what: The name of the build, for the error message.
        pattern: A glob of the sources that define its interface, from the root of the checkout.
        built_from: The fingerprint in the build. None if it has none.

    Raises:
        StaleBuildError: The build is from other sources.
    """
    sources = list(_ROOT.glob(pattern))
    if sources and fingerprint(sources) != built_from:
        raise StaleBuildError(
            f"{what} was built from other sources than those in this checkout ({pattern}); run `make setup`"
        )


def not_loaded(error: ImportError) -> OpLibraryError:
    """Returns the error for a compiled module that cannot be imported. Uncaught, it prints as one line.

    Usually Python was started in a checkout, whose sources then hide the installed package.
    """
    if (_ROOT / "csrc").is_dir() and importlib.util.find_spec("fedplug._kernels") is None:
        message = (
            f"fedplug was imported from the sources in {_ROOT}, which are not compiled; run `make setup` "
            "there, or start Python in another folder to import the installed fedplug"
        )
    else:
        message = f"the compiled module fedplug._kernels cannot be loaded ({error}); reinstall fedplug"
    failure = OpLibraryError(message)
    others = sys.excepthook

    def print_one_line(
        kind: type[BaseException], value: BaseException, traceback: TracebackType | None
    ) -> None:
        if value is failure:  # the traceback would show only imports
            print(f"{kind.__module__}.{kind.__qualname__}: {value}", file=sys.stderr)
        else:
            others(kind, value, traceback)

    sys.excepthook = print_one_line
    return failure


def fingerprint(sources: list[Path]) -> str:
    """Computes the same fingerprint as `fedplug_fingerprint` in cmake/FedplugTargets.cmake."""
    digests = [hashlib.sha256(source.read_bytes()).hexdigest() for source in sorted(sources)]
    return hashlib.sha256("".join(digests).encode()).hexdigest()
