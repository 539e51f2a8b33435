"""``fedplug doctor``: checks the installation, from Python up to a compiled op inside a TFF computation."""

from __future__ import annotations

import argparse

from fedplug.cli.arguments import Commands

__all__ = ["add_parser"]

EXIT_FAILED = 1


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    commands.add("doctor", "check the installation and show how to fix it", _run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.diagnostics.doctor import CHECKS, examine

    del arguments
    failed = skipped = 0
    for name, check in CHECKS.items():
        finding = examine(check)
        failed += finding.status == "fail"
        skipped += finding.status == "skip"
        # Printed one by one: importing TensorFlow and TFF takes a while.
        print(f"{finding.status:<5} {name:<11} {finding.detail}", flush=True)
        if finding.fix:
            print(f"{'':<17} fix: {finding.fix}", flush=True)
    verdict = f"{failed} of {len(CHECKS)} checks failed" if failed else "all checks passed"
    print(f"\n{verdict}{f'; {skipped} skipped, because not installed' if skipped else ''}")
    return EXIT_FAILED if failed else 0
