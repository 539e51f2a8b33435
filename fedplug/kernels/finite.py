"""Whether values are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedplug import _kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["all_finite"]


def all_finite(values: NDArray[Any]) -> bool:
    """Says whether no value is NaN or infinite; nothing is allocated.

    Args:
        values: Any shape, a floating dtype.

    Raises:
        ArgumentError: ``values`` cannot be used as an array.
    """
    return _kernels.all_finite(values)
