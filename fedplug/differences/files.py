"""Exact differences between checkpoints in files, with the memory of the largest tensor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import fedplug.wire as wire
from fedplug.differences.arrays import as_bytes
from fedplug.differences.checkpoints import file_name_of, open_checkpoint
from fedplug.differences.models import ArrayDifference, decode_model, describe, encode_model
from fedplug.differences.safetensors import open_regular
from fedplug.errors import ArgumentError, PayloadError
from fedplug.stores.files import whole_file, whole_folder, written_file
from fedplug.wire.message import MessageReader

__all__ = ["describe_file", "diff_files", "patch_files"]

Progress = Callable[[str], None]
"""A function that is called with the name of every part that is done."""

_FREE_BYTES = 2**30


def diff_files(
    old: str | Path, new: str | Path, output: str | Path, progress: Progress | None = None
) -> None:
    """Writes the difference between two checkpoints to a file, which appears whole or not at all.

    Args:
        old: The checkpoint that receivers have: a safetensors file, an index.json or a folder with one.
        new: The checkpoint to send.
        output: The file to write.
        progress: A function that follows the work.

    Raises:
        ArgumentError: A checkpoint is damaged, or none. ``output`` is something else than a file, or a file
            of a checkpoint.
        OSError: A file cannot be read or written.
    """
    before, after = open_checkpoint(old)[0], open_checkpoint(new)[0]
    with whole_file(_beside(output, before.files + after.files)) as file:
        parts = encode_model(before, after)
        file.write(next(parts))  # the list of the arrays
        for name, part in zip(after, parts, strict=True):
            file.write(part)
            if progress is not None:
                progress(name)


def patch_files(
    old: str | Path,
    step: str | Path,
    output: str | Path,
    *,
    max_bytes: float | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes the new checkpoint, equal to the encoder's byte for byte. It appears whole or not at all.

    Args:
        old: The checkpoint that the difference was made from.
        step: The untrusted file of `diff_files`.
        output: The file to write, which may be ``old``, or the new folder of a checkpoint with several files.
        max_bytes: Maximum size of the new checkpoint; by default twice the old one and 1 GiB.
        progress: A function that follows the work.

    Raises:
        PayloadError: The difference is corrupt or too large, or was made from another checkpoint.
        ArgumentError: ``old`` is damaged, or no checkpoint. ``output`` is ``step``, or exists and must be a
            new folder. ``max_bytes`` is not a number of at least 0.
        OSError: A file cannot be read or written.
    """
    before, size = open_checkpoint(old)
    limit = 2 * size + _FREE_BYTES if max_bytes is None else wire.check_max_bytes(max_bytes)
    step = Path(step)
    output = _beside(output, [step])
    with open_regular(step) as message, ExitStack() as whole, ExitStack() as shard:
        file: BinaryIO | None = None
        folder: Path | None = None
        for name, array in decode_model(before, MessageReader(message), limit):
            begun = _file_begun(name)
            if begun == "" and file is None:
                file = whole.enter_context(whole_file(output))
            elif begun and (file is None or folder is not None):
                folder = folder or whole.enter_context(whole_folder(output))
                shard.close()  # a process may open fewer files than a checkpoint has
                file = shard.enter_context(written_file(folder / begun))
            elif begun is not None or file is None:
                raise PayloadError(f"{step} has the part {name!r} where no checkpoint has it")
            file.write(as_bytes(array).data)
            if progress is not None:
                progress(name)
        if file is None:
            raise PayloadError(f"{step} is the difference of an empty model, and no checkpoint")


def describe_file(step: str | Path) -> list[ArrayDifference]:
    """Reads the contents of a difference between checkpoints, array by array.

    Raises:
        PayloadError: The file is no difference between models, or corrupt.
        OSError: The file cannot be read.
    """
    with open_regular(Path(step)) as message:
        return describe(MessageReader(message))


def _beside(output: str | Path, inputs: list[Path]) -> Path:
    """Returns the place of a result. Raises ArgumentError if it would replace an input."""
    output = Path(output)
    for path in inputs:
        if output.exists() and output.samefile(path):
            raise ArgumentError(f"{output} is read for the result; name another file to write")
    return output


def _file_begun(name: str) -> str | None:
    try:
        return file_name_of(name)
    except ArgumentError as error:  # it is the message's fault
        raise PayloadError(str(error)) from error
