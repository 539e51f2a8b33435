"""Sites that apply encrypted sums by themselves have the same model, and notice if they could not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import contexts
import digits_client
import jobs
import numpy as np
import pytest
from fedplug_nvflare.he.encrypted_sum import EncryptedSum
from fedplug_nvflare.he.filters import DATA, HEReceiver, HESender
from fedplug_nvflare.he.replica import Replica
from numpy.typing import NDArray
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.shareable import Shareable

import fedplug
from conftest import Jobs
from fedplug.errors import ArgumentError, PayloadError, StateError
from fedplug.secure import MaskedSum

Arrays = dict[str, NDArray[Any]]

SITES = ["site-1", "site-2", "site-3"]
ENCODER = "sharedk(0.2, clients=3, bits=15, max_weight=10)"
MODEL = {"kernel": np.ones((20, 10), np.float32), "bias": np.zeros(10, np.float32)}

needs_tenseal = pytest.mark.skipif(not jobs.HAS_TENSEAL, reason="TenSEAL is not installed")


def update_of(site: str, round_num: int) -> Arrays:
    rng = np.random.default_rng([int(site[-1]), round_num])
    return {name: rng.normal(size=array.shape).astype(np.float32) for name, array in MODEL.items()}


def weight_of(site: str) -> float:
    return 2.0 * int(site[-1])


def mean_of(vectors: Sequence[NDArray[np.float64]]) -> list[float]:
    """Returns the result of NVFlare's aggregator."""
    return list(sum(vectors) * (1.0 / len(vectors)))


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Callable[[str], Replica]]:
    """Opens the replica of a site. Anything not stored by then is lost, as in another process."""
    stores: dict[str, fedplug.stores.StateStore] = {}

    def opened(site: str) -> Replica:
        if site in stores:
            stores[site].close()
        stores[site] = fedplug.open_store(f"sqlite:///{tmp_path / site}")
        return Replica(stores[site], ENCODER, SITES, site)

    for site in SITES:
        opened(site).begin(MODEL)
    yield opened
    for store in stores.values():
        store.close()


def run_round(
    replica: Callable[[str], Replica], round_num: int, lost: Sequence[str] = (), absent: Sequence[str] = ()
) -> list[float]:
    """Returns the mean of a round; a lost update is sent, and is not in the sum."""
    vectors = {
        site: replica(site).encode(update_of(site, round_num), weight_of(site))
        for site in SITES
        if site not in absent
    }
    return mean_of([vector for site, vector in vectors.items() if site not in lost])


def expected(
    rounds: int,
    lost: Sequence[tuple[int, str]] = (),
    encoder: str = ENCODER,
    model: Arrays = MODEL,
    trained: Callable[[str, int, Arrays], tuple[Arrays, float]] = lambda site, round_num, model: (
        update_of(site, round_num),
        weight_of(site),
    ),
) -> Arrays:
    """Returns the model of sites whose integers `fedplug.secure` adds without encryption.

    ``trained`` returns the update of a site in a round and its weight.
    """
    model = dict(sorted(model.items()))
    masked = MaskedSum(encoder, model)
    server, clients = masked.init_server(), {site: masked.init_client() for site in SITES}
    for round_num in range(rounds):
        total = masked.no_update()
        for site in SITES:
            update, weight = trained(site, round_num, model)
            vector, after = masked.encode(update, clients[site], masked.message(server), weight=weight)
            if (round_num, site) not in lost:
                clients[site], total = after, total + vector
        mean, server = masked.decode(total, server)
        model = {name: array + mean.update[name] for name, array in model.items()}
    return model


def test_all_sites_have_the_model_of_unencrypted_sums(replica: Callable[[str], Replica]) -> None:
    for round_num in range(4):
        mean = run_round(replica, round_num)
        for site in SITES:
            model, found = replica(site).apply(mean)
            assert found == tuple(SITES)
    np.testing.assert_equal(model, expected(4))
    assert np.abs(model["kernel"] - 1).max() > 1


def test_an_update_that_is_not_in_a_sum_leaves_the_residual(replica: Callable[[str], Replica]) -> None:
    for round_num in range(4):
        mean = run_round(replica, round_num, lost=["site-2"] if round_num == 1 else [])
        models = [replica(site).apply(mean)[0] for site in SITES]
    for model in models:
        np.testing.assert_equal(model, expected(4, lost=[(1, "site-2")]))


def test_the_order_of_arrays_does_not_matter(replica: Callable[[str], Replica]) -> None:
    replica("site-2").begin(dict(reversed(MODEL.items())))
    mean = run_round(replica, 0)
    np.testing.assert_equal(replica("site-2").apply(mean)[0], replica("site-1").apply(mean)[0])


def test_a_sum_that_arrives_twice_is_applied_once(replica: Callable[[str], Replica]) -> None:
    mean = run_round(replica, 0)
    once, _ = replica("site-1").apply(mean)
    twice, _ = replica("site-1").apply(mean)
    np.testing.assert_equal(twice, once)
    first = replica("site-1").encode(update_of("site-1", 1), 2.0)
    np.testing.assert_array_equal(replica("site-1").encode(update_of("site-1", 1), 2.0), first)


def test_a_site_that_missed_a_sum_cannot_go_on(replica: Callable[[str], Replica]) -> None:
    mean = run_round(replica, 0)
    for site in ("site-1", "site-2"):
        replica(site).apply(mean)
    later = run_round(replica, 1, absent=["site-3"])
    with pytest.raises(
        StateError, match=r"site-1, site-2 is for another model .* applied 0 sums.*start the job"
    ):
        replica("site-3").apply(later)
    np.testing.assert_equal(replica("site-1").apply(later)[0], replica("site-2").apply(later)[0])
    np.testing.assert_equal(replica("site-3").apply(mean)[0], expected(1))  # nothing has changed


def test_a_missed_sum_is_noticed_also_if_it_changed_no_model(replica: Callable[[str], Replica]) -> None:
    mean = mean_of([replica(site).no_update() for site in SITES])
    for site in ("site-1", "site-2"):
        np.testing.assert_equal(replica(site).apply(mean)[0], MODEL)
    later = run_round(replica, 1, absent=["site-3"])
    with pytest.raises(StateError, match="another model"):
        replica("site-3").apply(later)


def test_an_update_that_is_replaced_by_none_leaves_the_residual(replica: Callable[[str], Replica]) -> None:
    replica("site-1").encode(update_of("site-1", 0), 2.0)  # the task is executed twice
    mean = mean_of([replica(site).no_update() for site in SITES])
    models = [replica(site).apply(mean)[0] for site in SITES]
    np.testing.assert_equal(models, [MODEL] * 3)
    first, second = (replica(site).encode(update_of("site-1", 1), 2.0) for site in ("site-1", "site-2"))
    np.testing.assert_array_equal(first[7:], second[7:])


@pytest.mark.parametrize("call", [lambda site: site.apply([0.0]), lambda site: site.encode({}, 1.0)])
def test_a_site_that_joins_late_cannot_go_on(call: Callable[[Replica], Any]) -> None:
    with fedplug.open_store("memory://") as store, pytest.raises(StateError, match="in the first round"):
        call(Replica(store, ENCODER, SITES, "site-1"))


def test_sites_with_different_models_cannot_go_on(replica: Callable[[str], Replica]) -> None:
    replica("site-2").begin({**MODEL, "bias": np.full(10, 1e-7, np.float32)})
    mean = run_round(replica, 0)
    for site in SITES:
        # One in 27 pairs of fingerprints has a mean that looks like one.
        with pytest.raises(StateError, match=r"for models that differ|for another model"):
            replica(site).apply(mean)


def test_an_unknown_site_is_refused() -> None:
    with (
        fedplug.open_store("memory://") as store,
        pytest.raises(StateError, match="'other', which is not one"),
    ):
        Replica(store, ENCODER, SITES, "other")


@pytest.fixture
def sums() -> EncryptedSum:
    return EncryptedSum(MaskedSum(ENCODER, MODEL), SITES)


def vectors_of(sums: EncryptedSum, count: int = 3) -> list[NDArray[np.float64]]:
    masked = MaskedSum(ENCODER, MODEL)
    return [sums.vector(site, 0xABCDEF, np.arange(masked.length) - 7) for site in SITES[:count]]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_sum_is_exact_with_a_margin(sums: EncryptedSum, count: int) -> None:
    mean = np.array(mean_of(vectors_of(sums, count)))
    noise = np.random.default_rng(0).uniform(-0.12 / count, 0.12 / count, mean.size)
    found = sums.read(mean + noise)
    assert (found.sites, found.fingerprint) == (tuple(SITES[:count]), 0xABCDEF)
    np.testing.assert_array_equal(found.integers, count * (np.arange(found.integers.size) - 7))


def test_a_sum_is_refused_where_it_could_be_wrong(sums: EncryptedSum) -> None:
    mean = np.array(mean_of(vectors_of(sums)))
    for place in range(mean.size):
        for error in (0.13, -0.2):
            with pytest.raises(PayloadError, match=r"not exact: .* fewer bits|which sites"):
                sums.read(mean + error * (np.arange(mean.size) == place))


@pytest.mark.parametrize("relative", [1e-5, -1e-5, -1.0, 2**-10 - 1, 1.0])
def test_a_wrong_scale_is_refused(sums: EncryptedSum, relative: float) -> None:
    with pytest.raises(PayloadError, match="not exact"):
        sums.read(np.array(mean_of(vectors_of(sums))) * (1 + relative))


@pytest.mark.parametrize("change", [lambda m: m[:-1], lambda m: m * np.nan, lambda m: m[None], lambda m: []])
def test_other_numbers_are_refused(sums: EncryptedSum, change: Callable[[Any], Any]) -> None:
    with pytest.raises(PayloadError, match="finite numbers"):
        sums.read(change(np.array(mean_of(vectors_of(sums)))))


def test_a_site_is_not_counted_twice(sums: EncryptedSum) -> None:
    first, second, _ = vectors_of(sums)
    with pytest.raises(PayloadError, match="which sites"):
        sums.read(mean_of([first, first, second]))


@pytest.mark.parametrize("sites", [[], ["a", "a"], ["a", "b", "c", "d"]])
def test_more_sites_than_the_ring_allows_are_refused(sites: list[str]) -> None:
    with pytest.raises(ArgumentError, match="1 to 3 different sites"):
        HESender(ENCODER, sites)


class Site:
    """The filters of site-1, with NVFlare's messages."""

    def __init__(self) -> None:
        self.fl_ctx = contexts.task_context("site-1", Shareable())
        self.sender, self.receiver = HESender(ENCODER, SITES), HEReceiver(ENCODER, SITES)

    def receive(self, data: Any, **meta: Any) -> DXO:
        task = DXO(DataKind.WEIGHTS, dict(data), dict(meta)).to_shareable()
        return from_shareable(self.receiver.process(task, self.fl_ctx))

    def send(self, data: Arrays, kind: str = DataKind.WEIGHT_DIFF, **meta: Any) -> DXO:
        return from_shareable(self.sender.process(contexts.result(data, kind, **meta), self.fl_ctx))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(
        "fedplug_nvflare.he.filters.state_url",
        lambda store, fl_ctx: f"sqlite:///{tmp_path}",
    )
    return Site()


def test_filters_turn_updates_into_vectors_and_sums_into_models(site: Site) -> None:
    assert site.receive(MODEL).data.keys() == MODEL.keys()
    sent = site.send(update_of("site-1", 0), NUM_STEPS_CURRENT_ROUND=9)
    assert (sent.data_kind, list(sent.data)) == (DataKind.WEIGHTS, [DATA])
    assert sent.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND) == 1  # the server learns no weight
    other = site.send(update_of("site-1", 0), NUM_STEPS_CURRENT_ROUND=3)
    assert (other.data[DATA] != sent.data[DATA]).any()  # it is in the vector
    model = site.receive({DATA: list(sent.data[DATA])})
    assert model.data_kind == DataKind.WEIGHTS
    assert np.abs(model.data["kernel"] - 1).max() > 0.5
    np.testing.assert_array_equal(MODEL["kernel"], 1)


def test_an_update_that_is_not_finite_changes_no_model(site: Site) -> None:
    site.receive(MODEL)
    sent = site.send({**update_of("site-1", 0), "bias": np.full(10, np.nan, np.float32)})
    np.testing.assert_equal(site.receive({DATA: list(sent.data[DATA])}).data, dict(sorted(MODEL.items())))


def test_a_plain_model_begins_again(site: Site) -> None:
    site.receive(MODEL)
    first = site.send(update_of("site-1", 0)).data[DATA]
    site.receive({DATA: list(first)})
    site.receive(MODEL)
    np.testing.assert_array_equal(site.send(update_of("site-1", 0)).data[DATA], first)


def test_filters_say_what_is_wrong_with_a_job(site: Site) -> None:
    with pytest.raises(ValueError, match=r"TransferType\.DIFF"):
        site.send(MODEL, DataKind.WEIGHTS)
    with pytest.raises(ValueError, match="add an HEModelDecryptor"):
        site.receive({DATA: b"ciphertext"}, **{MetaKey.PROCESSED_ALGORITHM: "CKKS"})
    with pytest.raises(ArgumentError, match="'steps' is of int64"):
        site.receive({"steps": np.arange(3)})


def through_ckks(vectors: Sequence[NDArray[np.float64]], scale_bits: int = 40) -> list[float]:
    """Returns the decrypted mean, computed like NVFlare's encryptor, aggregator and decryptor."""
    import tenseal
    from nvflare.lighter.impl.he import HEBuilder

    builder = HEBuilder(scale_bits=scale_bits)
    builder.initialize(None, None)
    context = tenseal.context_from(builder.get_serialized_context(is_client=True))
    first, *others = [tenseal.ckks_vector(context, vector) for vector in vectors]
    mean = sum(others, first) * (1.0 / len(vectors))
    found: list[float] = mean.decrypt(secret_key=context.secret_key())
    return found


def largest_vectors(bits: int) -> tuple[EncryptedSum, list[NDArray[np.float64]], NDArray[np.int64]]:
    masked = MaskedSum(f"sharedk(0.5, clients=3, bits={bits})", {"kernel": np.zeros(10_000, np.float32)})
    sums, limit = EncryptedSum(masked, SITES), (2 ** (bits - 1) - 1) // 3
    signed = np.random.default_rng(0).integers(-limit, limit + 1, masked.length)
    signed[:2] = limit, -limit
    return sums, [sums.vector(site, 0xFFFFFF, signed) for site in SITES], 3 * signed


@needs_tenseal
@pytest.mark.parametrize("bits", [6, 15, 18])
def test_sums_under_ckks_are_exact(bits: int) -> None:
    sums, vectors, total = largest_vectors(bits)
    np.testing.assert_array_equal(sums.read(through_ckks(vectors)).integers, total)


@needs_tenseal
@pytest.mark.parametrize(("bits", "scale_bits"), [(19, 40), (20, 40), (24, 40), (15, 30), (15, 21)])
def test_sums_under_ckks_that_would_be_inexact_are_refused(bits: int, scale_bits: int) -> None:
    sums, vectors, _ = largest_vectors(bits)
    with pytest.raises(PayloadError, match="not exact"):
        sums.read(through_ckks(vectors, scale_bits))


@needs_tenseal
def test_the_job_on_the_page_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(__file__).parents[1]
    page = (package.parents[1] / "docs/nvflare.md").read_text(encoding="utf-8")
    _, block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(package / "examples/digits")
    monkeypatch.syspath_prepend(".")
    names: dict[str, Any] = {}
    exec("from model import Digits\n" + block.partition("recipe.execute")[0], names)
    assert names["recipe"].name == "fedplug_he"


@needs_tenseal
def test_all_sites_of_a_job_have_the_model_of_unencrypted_sums(finished: Jobs) -> None:
    def trained(site: str, _: int, model: Arrays) -> tuple[Arrays, float]:
        x, y = digits_client.examples(site, 3)
        return {name: digits_client.train(w, x, y)[0] - w for name, w in model.items()}, len(y)

    job, name = finished["encrypted"].result(), digits_client.NAME
    start = {name: np.zeros(jobs.SHAPE, np.float32)}
    model = expected(3, [(1, "site-3")], jobs.ENCRYPTED, start, trained)  # see LostUpdate
    for site in SITES:
        with fedplug.open_store(f"sqlite:///{job.folder / site}/simulate_job/fedplug") as store:
            kept = store.open_process("homomorphic encryption").read_server()
        np.testing.assert_array_equal(kept["model/" + name], model[name])
        assert "applied the sum of 2 of 3 sites: site-1, site-2" in job.log(site)


@needs_tenseal
def test_the_server_of_a_job_cannot_decrypt(finished: Jobs) -> None:
    import tenseal

    folder = finished["encrypted"].result().folder
    server, client = (folder / f"startup/{end}_context.tenseal" for end in ("server", "client"))
    assert not tenseal.context_from(server.read_bytes()).is_private()
    assert tenseal.context_from(client.read_bytes()).is_private()
