"""Exact differences between two versions of an array, a model or a checkpoint.

`diff` and `patch` work on arrays and models in memory, `diff_files` and `patch_files` on safetensors files.
docs/sending-models.md has the guarantees, docs/wire-format.md the bytes.
"""

from __future__ import annotations

from fedplug.differences.files import describe_file, diff_files, patch_files
from fedplug.differences.memory import DEFAULT_MAX_BYTES, diff, patch
from fedplug.differences.models import ArrayDifference

__all__ = [
    "DEFAULT_MAX_BYTES",
    "ArrayDifference",
    "describe_file",
    "diff",
    "diff_files",
    "patch",
    "patch_files",
]
