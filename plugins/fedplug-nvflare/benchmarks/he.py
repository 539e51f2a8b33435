"""Measures NVFlare's homomorphic encryption of a model, and of the integers of shared-k instead.

    pip install tenseal==0.3.15   # the release that NVFlare 2.9 asks for
    python benchmarks/he.py       # writes benchmarks/results/he.md

Both updates pass through NVFlare's filters, aggregator and serialization, with the keys of its HEBuilder. The
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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReservedKey
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_opt.he.intime_accumulate_model_aggregator import HEInTimeAccumulateWeightedAggregator
from nvflare.app_opt.he.model_decryptor import HEModelDecryptor
from nvflare.app_opt.he.model_encryptor import HEModelEncryptor
from nvflare.fuel.sec.security_content_service import SecurityContentService
from nvflare.fuel.utils import fobs
from nvflare.lighter.impl.he import HEBuilder
from shapes import MODELS

from fedplug.diagnostics.environment import environment
from fedplug.secure import MaskedSum

CLIENTS = 4
ENCODER = f"sharedk(0.01, clients={CLIENTS})"
SHAPES = {"hello-pt": MODELS["hello-pt"], "one million": {"kernel": (1000, 1000)}}
RESULTS = Path(__file__).parent / "results" / "he.md"

Arrays = Mapping[str, NDArray[Any]]


def main() -> None:
    """Measures and writes the table."""
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        write_keys(Path(folder))
        SecurityContentService.initialize(content_folder=folder)
        rows = [row for name, shapes in SHAPES.items() for row in compared(name, shapes)]
    RESULTS.write_text(report(rows), encoding="utf-8")
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
        {name: rng.normal(0, 0.01, shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(CLIENTS)
    ]
    masked = MaskedSum(ENCODER, updates[0])
    message = masked.message(masked.init_server())
    begin = time.process_time()
    vectors = [masked.encode(update, masked.init_client(), message)[0] for update in updates]
    encoding = (time.process_time() - begin) / CLIENTS
    integers = [{"fedplug": masked.signed(vector).astype(np.float64)} for vector in vectors]
    plain, plain_bytes, plain_seconds = through_nvflare(updates)
    found, few_bytes, few_seconds = through_nvflare(integers)
    np.testing.assert_allclose(plain["fc1.bias" if "fc1.bias" in plain else "kernel"], 0, atol=0.1)
    total = np.rint(np.asarray(found["fedplug"]) * CLIENTS).astype(np.int64)
    np.testing.assert_array_equal(total, np.sum([vector["fedplug"] for vector in integers], axis=0))
    entries = sum(array.size for array in updates[0].values())
    ratio = (few_seconds + encoding) / plain_seconds
    return [
        f"| {name}: {entries:,} in {len(shapes)} arrays | NVFlare's HE | {plain_bytes:,} | 1.0 | 1.00 |",
        f"| | `{ENCODER}` | {few_bytes:,} | {plain_bytes / few_bytes:.1f} | {ratio:.2f} |",
    ]


def through_nvflare(updates: list[Arrays]) -> tuple[Arrays, int, float]:
    """Returns the decrypted mean of the clients, the bytes of a client, and its seconds to encrypt."""
    aggregator = HEInTimeAccumulateWeightedAggregator()
    server = context("server")
    server.set_prop(AppConstants.CURRENT_ROUND, 0, private=True, sticky=True)
    aggregator.handle_event(EventType.START_RUN, server)
    seconds, sent = [], b""
    for number, update in enumerate(updates):
        client = context(f"site-{number}")
        encryptor = HEModelEncryptor(weigh_by_local_iter=False)
        encryptor.handle_event(EventType.START_RUN, client)
        dxo = DXO(DataKind.WEIGHT_DIFF, dict(update), {MetaKey.NUM_STEPS_CURRENT_ROUND: 1})
        begin = time.process_time()
        result = encryptor.process(dxo.to_shareable(), client)
        sent = fobs.dumps(result)
        seconds.append(time.process_time() - begin)
        arrived: Shareable = fobs.loads(sent)
        arrived.set_peer_props({ReservedKey.IDENTITY_NAME: f"site-{number}"})
        arrived.add_cookie(AppConstants.CONTRIBUTION_ROUND, 0)
        assert aggregator.accept(arrived, server)
    mean = aggregator.aggregate(server)
    decryptor = HEModelDecryptor()
    client = context("site-0")
    decryptor.handle_event(EventType.START_RUN, client)
    return from_shareable(decryptor.process(mean, client)).data, len(sent), statistics.median(seconds)


def context(name: str) -> FLContext:
    """Returns the context of a client or of the server, as in NVFlare's runners."""
    fl_ctx = FLContextManager(identity_name=name, job_id="job").new_context()
    fl_ctx.set_peer_context(FLContextManager(identity_name="server", job_id="job").new_context())
    fl_ctx.set_prop(FLContextKey.SECURE_MODE, False, private=True, sticky=False)
    return fl_ctx


def report(rows: list[str]) -> str:
    """Returns the page of results."""
    names = ("nvflare", "tenseal", "numpy", "fedplug")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    facts = environment()
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return f"""# Homomorphic encryption with NVFlare

Written by `python benchmarks/he.py` in `plugins/fedplug-nvflare`, on {facts["processor"]},
{facts["cores"]} cores, {facts["simd"]}; load {load}; {versions}.
{CLIENTS} clients; CKKS with the parameters of NVFlare's HEBuilder (degree 8192, moduli of 60, 40, 40 bits).

| model | encrypted | bytes of a client's update | times fewer | seconds of a client, to plain |
| --- | --- | ---: | ---: | ---: |
{chr(10).join(rows)}

- **bytes**: of the whole result by NVFlare's serialization, which repeats the public keys for every array.
  The mean that the server sends back has the same size.
- **seconds**: processor time to encode, encrypt and serialize; medians of {CLIENTS} clients.
- The decrypted sum of the integers is exact. A ciphertext has room for 4,096 numbers and takes 235 kB, even
  with fewer.
"""


if __name__ == "__main__":
    main()
