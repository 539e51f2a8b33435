"""A site's own copy of what the server of a masked sum keeps, because here the server sees no sum."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug
from fedplug.codecs.arrays import named_arrays
from fedplug.errors import StateError
from fedplug.secure import MaskedSum
from fedplug.stores import StateStore
from fedplug_nvflare.he.encrypted_sum import EncryptedSum

__all__ = ["Replica"]

Arrays = dict[str, NDArray[Any]]

_MODEL, _SERVER = "model/", "server/"
_REMEDY = "start the job again, and let it wait for all sites in every round"


class _Kept(NamedTuple):
    """The state in the store.

    Attributes:
        model: The model, by name.
        server: The server's state of the masked sum.
        residual: The residual before the update that was sent last.
        sent: The residual after it.
        applied: The fingerprint before the last sum; None before the first one.
    """

    model: Arrays
    server: Arrays
    residual: Arrays
    sent: Arrays
    applied: int | None


class Replica:
    """The model, the state of the masked sum, and the residual of one site.

    All sites start from one model and apply the same sums, so their models and states have the same bits. A
    site's vector has a fingerprint of both. A sum is applied only if all sites in it had the fingerprint of
    this site. Therefore a site that missed a sum, or that has another model, raises instead of diverging.
    """

    def __init__(
        self, store: StateStore, encoder: str | dict[str, Any], sites: Sequence[str], site: str
    ) -> None:
        """Reads the state.

        Args:
            store: The site's store; the caller closes it.
            encoder: A shared-k encoder.
            sites: The names of all sites, in the same order on each.
            site: The name of this site.
        """
        if site not in sites:
            raise StateError(f"this site is {site!r}, which is not one of the sites {list(sites)} of the job")
        self._encoder: Any = fedplug.encoder(encoder)
        self._sites, self._site = sites, site
        signature = {"encoder": fedplug.to_config(self._encoder), "sites": list(sites)}
        self._state = store.open_process("homomorphic encryption", signature)

    def begin(self, model: Mapping[str, Any]) -> None:
        """Starts from a model, which all sites get; an earlier state is discarded.

        Raises:
            ArgumentError: An array is not of floats, or the sum of all sites could wrap.
        """
        arrays = named_arrays(model)
        masked, _ = self._sums(arrays)
        client = masked.init_client()
        self._commit(_Kept(arrays, masked.init_server(), client, client, None))

    def encode(self, update: Mapping[str, Any], weight: float) -> NDArray[np.float64]:
        """Returns the vector of an update; its residual counts when the update is in a sum.

        Raises:
            ArgumentError: The update has not the form of the model.
            NonFiniteError: The update is not finite.
            StateError: There is no model.
        """
        kept = self._read()
        masked, sums = self._sums(kept.model)
        vector, sent = masked.encode(update, kept.residual, masked.message(kept.server), weight=weight)
        return self._vector(kept._replace(sent=sent), sums, masked.signed(vector))

    def no_update(self) -> NDArray[np.float64]:
        """Returns the vector of a site without an update."""
        kept = self._read()
        masked, sums = self._sums(kept.model)
        return self._vector(kept._replace(sent=kept.residual), sums, masked.signed(masked.no_update()))

    def apply(self, mean: Any) -> tuple[Arrays, tuple[str, ...]]:
        """Applies the decrypted mean of a round's vectors; the same one again changes nothing.

        Returns:
            The model, and the sites in the sum.

        Raises:
            PayloadError: It is not such a mean, or not exact.
            StateError: The sum is not for the state of this site.
        """
        kept = self._read()
        masked, sums = self._sums(kept.model)
        found = sums.read(mean)
        if found.fingerprint is not None and found.fingerprint == kept.applied:
            return kept.model, found.sites
        here = self._fingerprint(kept)
        if found.fingerprint != here:
            whose = "models that differ" if found.fingerprint is None else "another model than this site's"
            raise StateError(
                f"the sum of {', '.join(found.sites)} is for {whose}; this site has applied "
                f"{int(kept.server['round_num'])} sums. A site missed a round, joined late, or changed its "
                f"model: {_REMEDY}"
            )
        update, server = masked.decode(found.integers, kept.server)
        model = {name: np.asarray(array + update.update[name]) for name, array in kept.model.items()}
        residual = kept.sent if self._site in found.sites else kept.residual
        self._commit(_Kept(model, server, residual, residual, here))
        return model, found.sites

    def _vector(self, kept: _Kept, sums: EncryptedSum, signed: NDArray[np.int64]) -> NDArray[np.float64]:
        self._commit(kept)
        return sums.vector(self._site, self._fingerprint(kept), signed)

    def _sums(self, model: Arrays) -> tuple[MaskedSum, EncryptedSum]:
        masked = MaskedSum(self._encoder, model)
        return masked, EncryptedSum(masked, self._sites)

    def _fingerprint(self, kept: _Kept) -> int:
        """Returns 24 bits that depend on every bit of the model and of the server's state."""
        found = 0
        for name, array in [*kept.model.items(), *kept.server.items()]:
            found = zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(name.encode(), found))
        return found & 0xFFFFFF

    def _read(self) -> _Kept:
        arrays = self._state.read_server()
        if arrays is None:
            raise StateError(
                f"this site has no model, because it did not take part in the first round: {_REMEDY}"
            )
        clients = self._state.read_clients(["residual", "sent"])
        applied = self._state.metadata["applied"]
        return _Kept(
            _part(arrays, _MODEL), _part(arrays, _SERVER), clients["residual"], clients["sent"], applied
        )

    def _commit(self, kept: _Kept) -> None:
        last = self._state.last_round
        self._state.commit(
            0 if last is None else last + 1,
            client_states={"residual": kept.residual, "sent": kept.sent},
            server_state={
                **{_MODEL + name: array for name, array in kept.model.items()},
                **{_SERVER + name: array for name, array in kept.server.items()},
            },
            metadata={"applied": kept.applied},
        )


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    """Returns the arrays with a prefix, sorted by name: a store may return them in any order."""
    return {name.removeprefix(prefix): arrays[name] for name in sorted(arrays) if name.startswith(prefix)}
