"""The site's filters: an update becomes numbers that NVFlare encrypts, and their decrypted sum a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

import fedplug
from fedplug.errors import FedplugError, NonFiniteError
from fedplug.secure import MaskedSum
from fedplug_nvflare.encoder import state_url
from fedplug_nvflare.global_model import is_torch
from fedplug_nvflare.he.encrypted_sum import EncryptedSum
from fedplug_nvflare.he.replica import Replica
from fedplug_nvflare.update import SEND_DIFFERENCES, num_steps
from fedplug_nvflare.weight_filter import WeightFilter

__all__ = ["DATA", "HEReceiver", "HESender"]

DATA = "fedplug_sum"
"""The name of the vector, and of the sum, in NVFlare's messages."""


class _HEFilter(WeightFilter):
    """A filter with the replica of its site, which is in a store in the job's folder."""

    def __init__(self, encoder: str | dict[str, object], sites: list[str]) -> None:
        """Initializes the filter.

        Args:
            encoder: A shared-k encoder, such as ``"sharedk(0.01, clients=2)"``. The same at all sites.
            sites: The names of all sites, in the same order at all sites.

        Raises:
            ArgumentError: The encoder allows fewer clients, or a name is there twice.
            CapabilityError: It is another encoder.
            ConfigError: The encoder cannot be read.
        """
        super().__init__(DataKind.WEIGHTS, DataKind.WEIGHT_DIFF)
        EncryptedSum(MaskedSum(encoder, {"": np.zeros(1, np.float32)}), sites)  # raises
        self.encoder = encoder  # NVFlare reads a component's arguments from its attributes
        self.sites = sites

    @contextmanager
    def _replica(self, fl_ctx: FLContext) -> Iterator[Replica]:
        """Keeps the store open only for this call, and logs the reason of an error."""
        try:
            with fedplug.open_store(state_url(None, fl_ctx)) as store:
                yield Replica(store, self.encoder, self.sites, fl_ctx.get_identity_name())
        except (FedplugError, ValueError) as error:
            self.log_error(fl_ctx, f"this site cannot take part in the round: {error}")
            raise


class HESender(_HEFilter):
    """Replaces a weight difference by a short vector for NVFlare's `HEModelEncryptor`, the next filter.

    See `fedplug_nvflare.he.recipe`. The residual is on the disk before the vector is sent, and counts when
    the vector is in a sum. The weight of a site is in the vector, and the server sees the weight 1. A site
    whose update is not finite sends zeros.
    """

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO:
        """Returns the vector as weights, because the server replaces its weights by the sum.

        Raises:
            FedplugError: The update cannot be encoded. The message names the array.
            ValueError: The result has full weights.
        """
        with self._replica(fl_ctx) as replica:
            if dxo.data_kind != DataKind.WEIGHT_DIFF:
                raise ValueError(f"the result is of full weights; {SEND_DIFFERENCES}")
            try:
                vector = replica.encode(dxo.data, num_steps(dxo.meta))
            except NonFiniteError as error:
                self.log_error(fl_ctx, f"the update is not sent: {error}")
                vector = replica.no_update()
        # With one step for each site, NVFlare multiplies by 1 and divides by the number of sites.
        return DXO(DataKind.WEIGHTS, {DATA: vector}, {**dxo.meta, MetaKey.NUM_STEPS_CURRENT_ROUND: 1})


class HEReceiver(_HEFilter):
    """Applies the sum of the last round to this site's model. Plain weights begin a new training.

    It is a filter after NVFlare's `HEModelDecryptor`, see `fedplug_nvflare.he.recipe`. A sum that is not
    exact, or not for the state of this site, is refused, and NVFlare's policy for failed clients applies.
    """

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        """Returns the model. None for plain weights.

        Raises:
            FedplugError: The sum is refused, or the weights are not arrays of floats.
            ValueError: The sum is still encrypted, or the weights are torch tensors.
        """
        with self._replica(fl_ctx) as replica:
            if DATA not in dxo.data:
                if any(map(is_torch, dxo.data.values())):
                    raise ValueError("the model is of torch tensors; use ExchangeFormat.NUMPY for the server")
                replica.begin(dxo.data)
                return None
            if dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM) is not None:
                raise ValueError("the sum is encrypted; add an HEModelDecryptor before this filter")
            model, found = replica.apply(dxo.data[DATA])
        of = f"{len(found)} of {len(self.sites)} sites"
        self.log_info(fl_ctx, f"applied the sum of {of}: {', '.join(found)}")
        return DXO(DataKind.WEIGHTS, dict(model), dict(dxo.meta))
