"""``fedplug bench``: how fast kernels and encoders are on this machine, in half a minute."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from fedplug.cli import table

__all__ = ["add_parser"]

_FLOAT_BYTES = 4


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "bench", help="time the kernels and encoders on this machine", parents=[common]
    )
    parser.add_argument(
        "encoders",
        metavar="ENCODER",
        nargs="*",
        help="expressions such as 'topk(0.01) | qsgd(8)'; default: a selection",
    )
    parser.add_argument(
        "--elements", type=int, default=1_000_000, help="size of the tensor; default: %(default)s float32"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of tables")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.diagnostics import bench

    elements, encoders = arguments.elements, arguments.encoders or bench.ENCODERS
    bench.check_elements(elements)  # a mistake is reported before anything is timed
    for expression in encoders:
        bench.encoder_of(expression)
    if arguments.json:
        print(_json(elements, encoders))
        return 0
    print(f"{elements:,} float32, {bench.machine()}; best of a few runs each\n")
    kernels = [
        (each.kernel, f"{1e3 * each.seconds:.3f}", f"{each.copies:.1f}")
        for each in bench.kernel_figures(elements)
    ]
    print(table.render(("KERNEL", "MS", "X COPY"), kernels), flush=True)
    rows = []
    for expression in encoders:
        found = bench.encoder_figures(expression, elements)
        speeds = (
            _FLOAT_BYTES * elements / seconds / 1e9
            for seconds in (found.encode_seconds, found.decode_seconds)
        )
        rows.append(
            (
                expression,
                f"{found.bytes_per_element:.3f}",
                f"{found.error:.2g}",
                *(f"{speed:.2f}" for speed in speeds),
            )
        )
    header = ("ENCODER", "BYTES/ELEMENT", "ERROR", "ENCODE GB/S", "DECODE GB/S")
    print(f"\n{table.render(header, rows)}")
    print("\nERROR: squared, relative to the tensor, without error feedback. GB/S: of dense float32.")
    return 0


def _json(elements: int, encoders: Sequence[str]) -> str:
    """All figures, by the names of their attributes in `fedplug.diagnostics.bench`; seconds and bytes."""
    import dataclasses
    import json

    from fedplug.diagnostics import bench
    from fedplug.diagnostics.environment import environment

    found = {
        "elements": elements,
        "environment": environment(),
        "kernels": [dataclasses.asdict(each) for each in bench.kernel_figures(elements)],
        "encoders": [dataclasses.asdict(bench.encoder_figures(each, elements)) for each in encoders],
    }
    return json.dumps(found, indent=2)
