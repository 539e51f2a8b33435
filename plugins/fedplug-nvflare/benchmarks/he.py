"""Measures NVFlare's homomorphic encryption of a model, and of fedplug's short vectors instead.

    pip install "nvflare[he]"
    python benchmarks/he.py       # writes benchmarks/results/he.md

Both pass through NVFlare's filters, aggregator and serialization, with the keys of its HEBuilder. The
decrypted sum of the integers must be exact.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fedplug_nvflare.he.encrypted_sum import EncryptedSum
from fedplug_nvflare.he.filters import DATA
from numpy.typing import NDArray
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReservedKey
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_opt.he.homomorphic_encrypt import serialize_nested_dict
from nvflare.app_opt.he.intime_accumulate_model_aggregator import HEInTimeAccumulateWeightedAggregator
from nvflare.app_opt.he.model_decryptor import HEModelDecryptor
from nvflare.app_opt.he.model_encryptor import HEModelEncryptor
from nvflare.fuel.sec.security_content_service import SecurityContentService
from nvflare.fuel.utils import fobs
from nvflare.lighter.impl.he import HEBuilder
from shapes import MODELS

from fedplug.diagnostics.environment import environment
from fedplug.errors import PayloadError
from fedplug.secure import MaskedSum

SITES = [f"site-{number}" for number in range(4)]
ENCODER = f"sharedk(0.01, clients={len(SITES)})"
BITS = (8, 15, 16, 17, 18, 19, 20, 24)
SHAPES = {"hello-pt": MODELS["hello-pt"], "one million": {"kernel": (1000, 1000)}}
RESULTS = Path(__file__).parent / "results" / "he.md"

Arrays = Mapping[str, NDArray[Any]]


class Round(NamedTuple):
    """The result and the cost of a round through NVFlare."""

    mean: Arrays
    sent: int
    received: int
    seconds: float


def main() -> None:
    """Measures and writes the tables."""
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        write_keys(Path(folder))
        SecurityContentService.initialize(content_folder=folder)
        rows = [row for name, shapes in SHAPES.items() for row in compared(name, shapes)]
        exact = [exactness(bits) for bits in BITS]
    RESULTS.write_text(report(rows, exact), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


def write_keys(folder: Path) -> None:
    """Writes the TenSEAL contexts that NVFlare's provisioning writes."""
    builder = HEBuilder()
    builder.initialize(None, None)
    (folder / "client_context.tenseal").write_bytes(builder.get_serialized_context(is_client=True))


def compared(name: str, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Returns the rows of a model."""
    rng = np.random.default_rng(0)
    updates = [
        {name: rng.normal(0, 0.01, shape).astype(np.float32) for name, shape in shapes.items()} for _ in SITES
    ]
    masked = MaskedSum(ENCODER, updates[0])
    sums, message = EncryptedSum(masked, SITES), masked.message(masked.init_server())
    begin = time.process_time()
    signed = [masked.signed(masked.encode(update, masked.init_client(), message)[0]) for update in updates]
    encoding = (time.process_time() - begin) / len(SITES)
    plain = through_nvflare(updates)
    short = through_nvflare(vectors(sums, signed))
    first = next(iter(updates[0]))
    expected = np.mean([update[first] for update in updates], axis=0).reshape(-1)
    np.testing.assert_allclose(plain.mean[first], expected, atol=1e-5)
    found = sums.read(short.mean[DATA])
    np.testing.assert_array_equal(found.integers, np.sum(signed, axis=0))
    entries = sum(array.size for array in updates[0].values())
    ratio = (short.seconds + encoding) / plain.seconds
    up, down = plain.sent / short.sent, plain.received / short.received
    return [
        f"| {name}: {entries:,} in {len(shapes)} arrays | NVFlare's HE "
        f"| {plain.sent:,} | 1.0 | {plain.received:,} | 1.0 | 1.00 |",
        f"| | `{ENCODER}` | {short.sent:,} | {up:.1f} | {short.received:,} | {down:.1f} | {ratio:.2f} |",
    ]


def exactness(bits: int) -> str:
    """Returns the row of a number of bits, for the largest sums that it allows."""
    masked = MaskedSum(f"sharedk(0.5, clients={len(SITES)}, bits={bits})", {"": np.zeros(8192, np.float32)})
    sums, limit = EncryptedSum(masked, SITES), (2 ** (bits - 1) - 1) // len(SITES)
    signed = np.random.default_rng(0).integers(-limit, limit + 1, masked.length)
    signed[:2] = limit, -limit
    mean = through_nvflare(vectors(sums, [signed] * len(SITES))).mean[DATA]
    integers = np.asarray(mean)[-masked.length :] * len(SITES)
    error = abs(integers - len(SITES) * signed).max()
    try:
        assert (sums.read(mean).integers == len(SITES) * signed).all()
        outcome = "exact"
    except PayloadError:
        outcome = "refused"
    return f"| {bits} | {len(SITES) * limit:,} | {error:.4f} | {outcome} |"


def vectors(sums: EncryptedSum, signed: list[NDArray[np.int64]]) -> list[Arrays]:
    """Returns the vectors of the sites."""
    return [{DATA: sums.vector(site, 0, one)} for site, one in zip(SITES, signed, strict=True)]


def through_nvflare(updates: list[Arrays]) -> Round:
    """Returns the decrypted mean of the sites, the bytes of a site, and its seconds to encrypt."""
    aggregator = HEInTimeAccumulateWeightedAggregator()
    server = context("server")
    server.set_prop(AppConstants.CURRENT_ROUND, 0, private=True, sticky=True)
    aggregator.handle_event(EventType.START_RUN, server)
    seconds, sent = [], b""
    for site, update in zip(SITES, updates, strict=True):
        client = context(site)
        encryptor = HEModelEncryptor()
        encryptor.handle_event(EventType.START_RUN, client)
        dxo = DXO(DataKind.WEIGHT_DIFF, dict(update), {MetaKey.NUM_STEPS_CURRENT_ROUND: 1})
        begin = time.process_time()
        result = encryptor.process(dxo.to_shareable(), client)
        sent = fobs.dumps(result)
        seconds.append(time.process_time() - begin)
        arrived: Shareable = fobs.loads(sent)
        arrived.set_peer_props({ReservedKey.IDENTITY_NAME: site})
        arrived.add_cookie(AppConstants.CONTRIBUTION_ROUND, 0)
        assert aggregator.accept(arrived, server)
    mean = from_shareable(aggregator.aggregate(server))
    serialize_nested_dict(mean.data)  # as NVFlare's HEModelShareableGenerator does
    received = fobs.dumps(mean.to_shareable())
    decryptor = HEModelDecryptor()
    client = context(SITES[0])
    decryptor.handle_event(EventType.START_RUN, client)
    decrypted = from_shareable(decryptor.process(fobs.loads(received), client)).data
    return Round(decrypted, len(sent), len(received), statistics.median(seconds))


def context(name: str) -> FLContext:
    """Returns the context of a client or of the server, as in NVFlare's runners."""
    fl_ctx = FLContextManager(identity_name=name, job_id="job").new_context()
    fl_ctx.set_peer_context(FLContextManager(identity_name="server", job_id="job").new_context())
    fl_ctx.set_prop(FLContextKey.SECURE_MODE, False, private=True, sticky=False)
    return fl_ctx


def report(rows: list[str], exact: list[str]) -> str:
    """Returns the page of results."""
    names = ("nvflare", "tenseal", "numpy", "fedplug")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    facts = environment()
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return f"""# Homomorphic encryption with NVFlare

Written by `python benchmarks/he.py` in `plugins/fedplug-nvflare`, on {facts["processor"]},
{facts["cores"]} cores, {facts["simd"]}; load {load}; {versions}.
{len(SITES)} sites; CKKS with the parameters of NVFlare's HEBuilder (degree 8192, moduli of 60, 40, 40 bits).

## Bytes of a round

| model | encrypted | a site sends | times fewer | receives | times fewer | seconds, to plain |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

- **sends**, **receives**: bytes of the whole message by NVFlare's serialization. A site's message repeats the
  public keys for every array. The server's message has the encrypted sum.
- **seconds**: processor time of a site to encode, encrypt and serialize; medians of {len(SITES)} sites.
- A ciphertext has room for 4,096 numbers. It takes 235 kB, and that of a mean 131 kB, even with fewer.

## Exact sums

CKKS computes approximately, and its error grows with a number. The vector has one number as large as any sum
can be, whose value is known. fedplug rounds only if it and all others are within 1/8 of a whole number; 1/2
would be wrong.

| `bits` | largest sum | largest error | |
| ---: | ---: | ---: | --- |
{chr(10).join(exact)}
"""


if __name__ == "__main__":
    main()
