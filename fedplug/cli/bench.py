"""``fedplug bench``: measures the size, error and speed of encoders on random numbers or a user's update."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedplug.cli import table
from fedplug.errors import ConfigError, FedplugError, UnknownNameError

if TYPE_CHECKING:
    from fedplug.diagnostics.bench import EncoderFigures
    from fedplug.diagnostics.updates import Update

__all__ = ["add_parser"]

_ELEMENTS = 1_000_000


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "bench", help="measure encoders on this machine, also on your own update", parents=[common]
    )
    parser.add_argument(
        "what",
        metavar="FILE | ENCODER",
        nargs="*",
        help="a .safetensors, .npy or .npz file with an update, or the folder or index of a checkpoint "
        "(default: random numbers; .pt, .h5 and others cannot be read), and expressions such as "
        "'topk(0.01) | qsgd(8)' (default: a selection)",
    )
    parser.add_argument(
        "--update", metavar=("OLD", "NEW"), nargs=2, help="encode the difference of two checkpoints"
    )
    parser.add_argument(
        "--elements", metavar="N", type=int, help=f"number of random float32 values; default: {_ELEMENTS}"
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        default=1,
        help="number of rounds to encode the same update, carrying error feedback over; default: %(default)s",
    )
    parser.add_argument("--kernels", action="store_true", help="also time the kernels")
    parser.add_argument(
        "--tensorflow", action="store_true", help="run the encoders in TensorFlow graphs instead of NumPy"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of tables")
    parser.add_argument(
        "--plot", metavar="PICTURE", type=Path, help="plot bytes against error to a .png or .svg file"
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.diagnostics import bench, rate_distortion

    bench.check_rounds(arguments.rounds)  # before the measurements, which take a while
    if arguments.plot:
        rate_distortion.require(arguments.plot)
    update = _update(arguments)
    encoders = [each for each in arguments.what if not _is_path(each)] or list(bench.ENCODERS)
    execution = _execution(arguments.tensorflow)
    for expression in encoders:
        execution(expression, update.arrays)
    measured = (
        bench.measure(expression, update, rounds=arguments.rounds, execution=execution)
        for expression in encoders
    )
    if arguments.json:
        figures = list(measured)
        print(_json(arguments, update, figures))
    else:
        figures = _print(arguments, update, measured)
    if arguments.plot:
        rate_distortion.draw(figures, arguments.plot, str(update))
        if not arguments.json:
            print(f"\n{arguments.plot}: bytes per element against error")
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


def _update(arguments: argparse.Namespace) -> Update:
    from fedplug.diagnostics import updates

    files = [each for each in arguments.what if _is_path(each)]
    if len(files) + (arguments.update is not None) > 1:
        raise ConfigError("bench encodes one update: name one file, or two checkpoints after --update")
    if (files or arguments.update) and arguments.elements is not None:
        raise ConfigError("--elements is for random numbers; leave it out with a file")
    if arguments.update:
        return updates.difference(*arguments.update)
    if files:
        return updates.read_update(files[0])
    return updates.random_update(_ELEMENTS if arguments.elements is None else arguments.elements)


def _execution(tensorflow: bool) -> Any:
    from fedplug.diagnostics import executions

    return executions.TensorFlowExecution if tensorflow else executions.CodecExecution


def _print(
    arguments: argparse.Namespace, update: Update, measured: Iterator[EncoderFigures]
) -> list[EncoderFigures]:
    import fedplug
    from fedplug.diagnostics.environment import environment
    from fedplug.diagnostics.kernel_times import kernel_times
    from fedplug.diagnostics.updates import some_names
    from fedplug.encoders.model.statistics import is_statistic

    here = environment()
    print(f"{here['processor']}, {here['simd']}, {here['kernel_threads']} kernel threads")
    if arguments.kernels:
        times = [
            (each.kernel, f"{1e3 * each.seconds:.3f}", f"{each.copies:.1f}")
            for each in kernel_times(update.elements)
        ]
        print(f"\n{table.render(('KERNEL', 'MS', 'X COPY'), times)}")
    rounds = f", encoded in {arguments.rounds} rounds" if arguments.rounds > 1 else ""
    print(f"\n{update}{rounds}\n", flush=True)
    if update.left_out:
        dtypes = "float16, float32, float64 or (in .safetensors) bfloat16"
        print(f"left out, because not {dtypes}: {some_names(update.left_out)}\n", flush=True)
    if statistics := list(filter(is_statistic, update.arrays)):
        print(
            f"statistics, which are sent exactly and excluded from the NMSE: {some_names(statistics)}\n",
            flush=True,
        )
    figures = list(measured)
    rows = [
        (
            each.encoder,
            f"{each.bytes_per_element:.3f}",
            f"{each.nmse:.3g}",
            f"{each.encode_gb_per_second:.2f}",
            f"{each.decode_gb_per_second:.2f}",
        )
        for each in figures
    ]
    print(table.render(("ENCODER", "BYTES/ELEMENT", "NMSE", "ENCODE GB/S", "DECODE GB/S"), rows))
    print("\nNMSE: squared error after decoding, relative to the update. GB/S: of the dense arrays; medians.")
    for each in figures:
        if each.nmse > 1 and fedplug.encoder(each.encoder).capabilities.unbiased:
            print(
                f"{each.encoder}: the NMSE is the variance of an unbiased encoder, which averages out: it is "
                "N times smaller over N rounds (--rounds N)."
            )
    return figures


def _json(arguments: argparse.Namespace, update: Update, figures: Sequence[EncoderFigures]) -> str:
    """Returns all figures as JSON, by attribute name in `fedplug.diagnostics`, in seconds and bytes."""
    import dataclasses
    import json

    from fedplug.diagnostics.environment import environment
    from fedplug.diagnostics.kernel_times import kernel_times

    found = {
        "environment": environment(),
        "update": {
            "source": update.source,
            "elements": update.elements,
            "dense_bytes": update.dense_bytes,
            "arrays": {name: [x.dtype.name, list(x.shape)] for name, x in update.arrays.items()},
            "left_out": list(update.left_out),
        },
        "rounds": arguments.rounds,
        "execution": "tensorflow" if arguments.tensorflow else "numpy",
        "encoders": [dataclasses.asdict(each) for each in figures],
    }
    if arguments.kernels:
        found["kernels"] = [dataclasses.asdict(each) for each in kernel_times(update.elements)]
    return json.dumps(found, indent=2)
