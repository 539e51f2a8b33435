"""``fedplug bench``: measures the size, error and speed of encoders on random numbers or users' updates."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedplug.cli.arguments import Commands
from fedplug.cli.terminal import printable, table
from fedplug.errors import ConfigError, FedplugError, UnknownNameError

if TYPE_CHECKING:
    from fedplug.diagnostics.bench import EncoderFigures
    from fedplug.diagnostics.updates import Update

__all__ = ["add_parser"]

Found = tuple["Update", "Sequence[EncoderFigures]"]
"""An update, and its figures."""

_ELEMENTS = 1_000_000


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add("bench", "measure encoders on this machine, also on your own updates", _run)
    parser.add_argument(
        "what",
        metavar="FILE | ENCODER",
        nargs="*",
        help=".safetensors, .npy or .npz files with an update, or folders or indices of checkpoints "
        "(default: random numbers; .pt, .h5 and others cannot be read); expressions such as "
        "'topk(0.01) | qsgd(8)' (default: a selection)",
    )
    parser.add_argument(
        "--update",
        metavar=("OLD", "NEW"),
        nargs=2,
        action="append",
        default=[],
        help="encode the difference of two checkpoints; may be repeated",
    )
    parser.add_argument(
        "--elements",
        metavar="N",
        type=int,
        action="append",
        default=[],
        help=f"number of random float32 values; default: {_ELEMENTS}; may be repeated",
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        default=1,
        help="number of rounds to encode the same update, carrying error feedback over; default: %(default)s",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a JSON object instead of tables; a list for several updates",
    )


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.diagnostics import bench

    bench.check_rounds(arguments.rounds)  # before the measurements, which take a while
    with contextlib.redirect_stdout(sys.stderr):  # a plugin may print
        updates = _updates(arguments)
        wanted = [each for each in arguments.what if not _is_path(each)]
        encoders = list(dict.fromkeys(wanted or bench.ENCODERS))
        for update in updates:
            for encoder in encoders:
                bench.Loop(encoder, update.arrays)
    found = []
    for number, update in enumerate(updates):
        measured = (bench.measure(encoder, update, rounds=arguments.rounds) for encoder in encoders)
        if arguments.json:
            figures = list(measured)
        else:
            figures = _print(arguments, update, measured, is_first=number == 0)
        found.append((update, figures))
    if arguments.json:
        print(_json(arguments, found))
    return 0


def _is_path(text: str) -> bool:
    """Returns whether the text is a path; a folder with the name of an encoder must be written as ./NAME."""
    if re.fullmatch(r"[^()|]*[./][^()|]*", text):  # expressions have dots only within parentheses
        return True
    return os.path.exists(text) and not _names_an_encoder(text)


def _names_an_encoder(text: str) -> bool:
    from fedplug.registry import expression, resolve

    try:
        resolve.find("encoder", expression.parse(text)[0].name)
    except UnknownNameError:
        return False
    except FedplugError as error:  # a broken plugin has the name
        return not isinstance(error, ConfigError)
    return True


def _updates(arguments: argparse.Namespace) -> list[Update]:
    from fedplug.diagnostics import updates

    found = [updates.update_between_files(*each) for each in arguments.update]
    found += [updates.read_update(each) for each in arguments.what if _is_path(each)]
    found += [updates.random_update(each) for each in arguments.elements]
    return found or [updates.random_update(_ELEMENTS)]


def _print(
    arguments: argparse.Namespace, update: Update, measured: Iterator[EncoderFigures], *, is_first: bool
) -> list[EncoderFigures]:
    import fedplug
    from fedplug.diagnostics.environment import environment
    from fedplug.diagnostics.updates import some_names
    from fedplug.encoders.model.statistics import is_statistic

    if is_first:
        here = environment()
        print(f"{here['processor']}, {here['simd']}, {here['kernel_threads']} kernel threads")
    rounds = f", encoded in {arguments.rounds} rounds" if arguments.rounds > 1 else ""
    print(f"\n{printable(str(update))}{rounds}\n", flush=True)
    if update.left_out:
        dtypes = "float16, float32, float64 or (in .safetensors) bfloat16"
        print(f"left out, because not {dtypes}: {printable(some_names(update.left_out))}\n", flush=True)
    if statistics := list(filter(is_statistic, update.arrays)):
        names = printable(some_names(statistics))
        print(f"statistics, which are sent exactly and excluded from the NMSE: {names}\n", flush=True)
    figures = list(measured)
    rows = [
        (
            each.encoder,
            f"{each.bits_per_element:.3f}",
            f"{each.nmse:.3g}",
            f"{each.max_error:.3g}",
            f"{each.encode_gb_per_second:.2f} ± {each.encode_spread:.0%}",
            f"{each.decode_gb_per_second:.2f} ± {each.decode_spread:.0%}",
        )
        for each in figures
    ]
    header = ("ENCODER", "BITS/ELEMENT", "NMSE", "LARGEST ERROR", "ENCODE GB/S", "DECODE GB/S")
    print(table(header, rows))
    print(
        "\nNMSE: squared error after decoding, relative to the update. GB/S: of the dense arrays, median and "
        "half the interquartile range."
    )
    for each in figures:
        if each.nmse > 1 and fedplug.encoder(each.encoder).capabilities.unbiased:
            print(
                f"{each.encoder}: the NMSE is the variance of an unbiased encoder, which averages out: it is "
                "N times smaller over N rounds (--rounds N)."
            )
    return figures


def _json(arguments: argparse.Namespace, found: Sequence[Found]) -> str:
    """Returns all figures as JSON, by attribute name in `fedplug.diagnostics`, in seconds and bytes."""
    import dataclasses
    import json

    from fedplug.diagnostics.environment import environment

    objects = []
    for update, figures in found:
        one = {
            "environment": environment(),
            "update": {
                "source": update.source,
                "elements": update.elements,
                "dense_bytes": update.dense_bytes,
                "arrays": {name: [x.dtype.name, list(x.shape)] for name, x in update.arrays.items()},
                "left_out": list(update.left_out),
            },
            "rounds": arguments.rounds,
            "encoders": [dataclasses.asdict(each) for each in figures],
        }
        objects.append(one)
    return json.dumps(objects if len(objects) > 1 else objects[0], indent=2)
