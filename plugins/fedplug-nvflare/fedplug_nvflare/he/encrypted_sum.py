"""The numbers that a site encrypts, and the meaning of the decrypted mean of all sites.

CKKS is approximate, and NVFlare's server divides the sum of the sites' vectors by their number. Each vector
therefore has numbers whose mean is known, beside the integers of shared-k::

    2^(bits - 1) | fingerprint, 3 numbers | a one at the place of the site | integers of shared-k
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, PayloadError
from fedplug.secure import MaskedSum

__all__ = ["EncryptedSum", "Sums"]

_TOLERANCE = 1 / 8
"""The allowed distance from a whole number, a quarter of what would round to another one."""

_FINGERPRINT = 3
_INEXACT = (
    "the decrypted sum is not exact: a number is {:.3f} from a whole one, and {} is allowed; give sharedk "
    "fewer bits (up to 18 are exact with the parameters of NVFlare's HEBuilder)"
)


class Sums(NamedTuple):
    """The contents of a sum.

    Attributes:
        sites: The sites whose vectors are in the sum.
        fingerprint: The fingerprint that all of them had. None if they differ.
        integers: The sum of the signed integers. int64 ``[masked.length]``.
    """

    sites: tuple[str, ...]
    fingerprint: int | None
    integers: NDArray[np.int64]


class EncryptedSum:
    """Composes the vectors of sites, and reads the mean of them."""

    def __init__(self, masked: MaskedSum, sites: Sequence[str]) -> None:
        """Takes the masked sum and the names of all sites.

        Raises:
            ArgumentError: A sum of that many sites could wrap, or a name is there twice.
        """
        if not 0 < len(set(sites)) == len(sites) <= masked.clients:
            raise ArgumentError(
                f"{list(sites)} must be 1 to {masked.clients} different sites, because sharedk has "
                f"clients={masked.clients}"
            )
        self._sites = tuple(sites)
        self._reference = 2.0 ** (masked.bits - 1)  # as large as a sum of integers can become
        self._length = 1 + _FINGERPRINT + len(sites) + masked.length

    def vector(self, site: str, fingerprint: int, signed: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the vector of a site.

        Args:
            site: The name of the site.
            fingerprint: The fingerprint of its state; 0 to 2^24 - 1.
            signed: The signed integers of its update.
        """
        parts = np.frombuffer(fingerprint.to_bytes(_FINGERPRINT, "little"), np.uint8)
        ones = [float(name == site) for name in self._sites]
        return np.concatenate([[self._reference], parts, ones, signed]).astype(np.float64)

    def read(self, mean: object) -> Sums:
        """Reads the decrypted mean of vectors. An integer of the sum is exact, or this raises.

        Args:
            mean: The mean of the vectors of one site or more. Floats ``[n]``.

        Raises:
            PayloadError: It is not the mean of such vectors, or not exact enough.
        """
        found = np.asarray(mean, np.float64)
        if found.shape != (self._length,) or not np.isfinite(found).all():
            raise PayloadError(f"the decrypted sum has not {self._length} finite numbers")
        # Errors of CKKS grow with a number. The mean of the reference is as large as any sum.
        _require_exact(abs(found[0] - self._reference))
        parts, ones, integers = np.split(found[1:], [_FINGERPRINT, _FINGERPRINT + len(self._sites)])
        is_in = ones > 0.5 / len(self._sites)
        count = int(is_in.sum())
        if not count or abs(ones * count - is_in).max() > _TOLERANCE:
            raise PayloadError("the decrypted sum does not say which sites are in it")
        sites = tuple(name for name, there in zip(self._sites, is_in, strict=True) if there)
        octets, rest = np.divmod(_whole(parts * count), count)
        agreed = not rest.any() and octets.min() >= 0 and octets.max() < 256
        fingerprint = int.from_bytes(bytes(octets.tolist()), "little") if agreed else None
        return Sums(sites, fingerprint, _whole(integers * count))


def _whole(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    whole = np.rint(numbers)
    _require_exact(abs(numbers - whole).max())
    return whole.astype(np.int64)


def _require_exact(distance: float) -> None:
    if not distance <= _TOLERANCE:
        raise PayloadError(_INEXACT.format(distance, _TOLERANCE))
