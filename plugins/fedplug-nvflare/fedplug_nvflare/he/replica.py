"""A site's own copy of the server's state of a masked sum, because here the server sees no sum."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug
from fedplug.codecs.arrays import named_arrays
from fedplug.codecs.pending import StoredPending
from fedplug.errors import StateError
from fedplug.secure import MaskedSum
from fedplug.stores import StateStore
from fedplug_nvflare.he.encrypted_sum import EncryptedSum

__all__ = ["Replica"]

Arrays = dict[str, NDArray[np.generic]]

_MODEL, _SERVER, _SENT = "model/", "server/", "sent"
_APPLIED = "fingerprint before the last sum"
_REMEDY = "start the job again, and let it wait for all sites in every round"


class _Kept(NamedTuple):
    """The model and the server's state of the masked sum in the store, by name."""

    model: Arrays
    server: Arrays


class Replica:
    """The model, the state of the masked sum, and the residual of one site.

    All sites start from one model and apply the same sums, so their models and states have the same bits. A
    site's vector has a fingerprint of both. A sum is applied only if all sites in it had the fingerprint of
    this site. Therefore a site that missed a sum, or that has another model, raises instead of diverging.
    """

    def __init__(
        self, store: StateStore, encoder: str | dict[str, object], sites: Sequence[str], site: str
    ) -> None:
        """Reads the state.

        Args:
            store: The site's store. The caller closes it.
            encoder: A shared-k encoder.
            sites: The names of all sites, in the same order on each.
            site: The name of this site.
        """
        if site not in sites:
            raise StateError(f"this site is {site!r}, which is not one of the sites {list(sites)} of the job")
        self._encoder = fedplug.encoder(encoder)
        self._sites, self._site = sites, site
        signature = {"encoder": fedplug.to_config(self._encoder), "sites": list(sites)}
        self._store = store.open_process("homomorphic encryption", signature)
        self._residual = StoredPending(self._store)

    def begin(self, model: Mapping[str, object]) -> None:
        """Starts from a model, which all sites get. An earlier state is discarded.

        Raises:
            ArgumentError: An array is not of floats, or the sum of all sites could wrap.
        """
        arrays = named_arrays(model)
        masked, _ = self._sums(arrays)
        self._residual.forget()
        self._commit(_Kept(arrays, masked.init_server()), metadata={})

    def encode(self, update: Mapping[str, object], weight: float) -> NDArray[np.float64]:
        """Returns the vector of an update. Its residual counts when the update is in a sum.

        Raises:
            ArgumentError: The update has not the form of the model.
            NonFiniteError: The update is not finite.
            StateError: There is no model.
        """
        kept = self._read()
        masked, sums = self._sums(kept.model)
        residual = self._residual.read("residual") or masked.init_client()
        vector, after = masked.encode(update, residual, masked.message(kept.server), weight=weight)
        self._commit(kept, {"residual": after})
        return sums.vector(self._site, _fingerprint(kept), masked.signed(vector))

    def no_update(self) -> NDArray[np.float64]:
        """Returns the vector of a site without an update."""
        kept = self._read()
        masked, sums = self._sums(kept.model)
        self._commit(kept)
        return sums.vector(self._site, _fingerprint(kept), masked.signed(masked.no_update()))

    def apply(self, mean: object) -> tuple[Arrays, tuple[str, ...]]:
        """Applies the decrypted mean of a round's vectors. The same one again changes nothing.

        Returns:
            The model, and the sites in the sum.

        Raises:
            PayloadError: It is not such a mean, or not exact.
            StateError: The sum is not for the state of this site.
        """
        kept = self._read()
        masked, sums = self._sums(kept.model)
        found = sums.read(mean)
        applied = self._residual.metadata.get(_APPLIED)
        if found.fingerprint is not None and found.fingerprint == applied:
            return kept.model, found.sites
        here = _fingerprint(kept)
        if found.fingerprint != here:
            whose = "models that differ" if found.fingerprint is None else "another model than this site's"
            raise StateError(
                f"the sum of {', '.join(found.sites)} is for {whose}; this site has applied "
                f"{int(kept.server['round_num'])} sums. A site missed a round, joined late, or changed its "
                f"model: {_REMEDY}"
            )
        update, server = masked.decode(found.integers, kept.server)
        model = {name: np.asarray(array + update.update[name]) for name, array in kept.model.items()}
        self._residual.settle([_SENT] if self._site in found.sites else [])
        self._commit(_Kept(model, server), metadata={_APPLIED: here})
        return model, found.sites

    def _sums(self, model: Arrays) -> tuple[MaskedSum, EncryptedSum]:
        masked = MaskedSum(self._encoder, model)
        return masked, EncryptedSum(masked, self._sites)

    def _read(self) -> _Kept:
        arrays = self._store.read_server()
        if arrays is None:
            raise StateError(
                f"this site has no model, because it did not take part in the first round: {_REMEDY}"
            )
        return _Kept(_part(arrays, _MODEL), _part(arrays, _SERVER))

    def _commit(
        self,
        kept: _Kept,
        after: Mapping[str, Arrays] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        self._residual.commit(
            after,
            _SENT,
            server_state={
                **{_MODEL + name: array for name, array in kept.model.items()},
                **{_SERVER + name: array for name, array in kept.server.items()},
            },
            metadata=metadata,
        )


def _fingerprint(kept: _Kept) -> int:
    """Returns 24 bits that depend on every bit of the model and of the server's state."""
    found = 0
    for name, array in [*kept.model.items(), *kept.server.items()]:
        found = zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(name.encode(), found))
    return found & 0xFFFFFF


def _part(arrays: Mapping[str, NDArray[np.generic]], prefix: str) -> Arrays:
    """Returns the arrays with a prefix, sorted by name: a store may return them in any order."""
    return {name.removeprefix(prefix): arrays[name] for name in sorted(arrays) if name.startswith(prefix)}
