"""The container around payloads: the compiled ops. Must not know what is in it or how a header is made.

The layout is specified in csrc/core/container.h. The twins are in `fedplug.encoders.framing`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._checks import require_vectors

__all__ = ["frame", "unframe"]

tf.no_gradient("Fedplug>Frame")
tf.no_gradient("Fedplug>Unframe")


def frame(body: Any, header: bytes) -> tf.Tensor:
    """Header, length, body and checksum in one buffer.

    Args:
        body: uint8 vector.
        header: What comes before the body's length, from `fedplug.wire.header`.

    Returns:
        uint8 vector.

    Raises:
        ValueError: A static rank is wrong.
        OpLibraryError: The op library cannot be loaded.
    """
    body = tf.convert_to_tensor(body, tf.uint8)
    require_vectors(body=body)
    return _loader.library().fedplug_frame(body, header=header)


def unframe(container: Any, header: bytes) -> tf.Tensor:
    """The body of a container, for bytes that nobody vouches for.

    Args:
        container: uint8 vector.
        header: The one the container must have.

    Returns:
        uint8 vector.

    Raises:
        ValueError: A static rank is wrong.
        OpLibraryError: The op library cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the container is not whole, or has another header, length or
            checksum.
    """
    container = tf.convert_to_tensor(container, tf.uint8)
    require_vectors(container=container)
    return _loader.library().fedplug_unframe(container, header=header)
