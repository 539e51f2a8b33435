"""Public objects and errors reach other processes, or say why not and what to send instead."""

from __future__ import annotations

import concurrent.futures
import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import fedplug
from fedplug import errors
from fedplug.errors import FedplugError, StoreError
from fedplug.registry import builtin
from fedplug.secure import MaskedSum
from fedplug.testing import components

WAYS = {
    **{f"pickle {n}": lambda x, n=n: pickle.loads(pickle.dumps(x, n)) for n in (2, pickle.HIGHEST_PROTOCOL)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
STARTS = ("fork", "spawn", "forkserver")
several_threads = pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
MODEL = {"w": np.linspace(-1, 1, 3000, dtype=np.float32).reshape(60, 50), "b": np.ones(3, np.float32)}
CODEC = fedplug.codec("topk(0.1) | qsgd(8)")
LARGE = np.resize(MODEL["w"], 3_000_000)  # so that kernels use several threads, also in forked processes


def a_sum():
    total = fedplug.Sum((60, 50))
    total.add(CODEC.encode(MODEL["w"])[0], weight=2)
    return total


def a_model_sum():
    total = fedplug.ModelSum.like(MODEL)
    total.add(CODEC.encode_model(MODEL)[0], weight=2)
    return total


def a_codec():
    CODEC.encode_model(MODEL)
    return CODEC


def a_broadcaster():
    server = fedplug.Broadcaster("bfp(5) | rans")
    server.publish(MODEL)
    return server


def a_receiver():
    receiver = fedplug.Receiver()
    receiver.apply(a_broadcaster().message())
    return receiver


def metrics():
    measured = fedplug.TensorMetrics()
    CODEC.encode_model(MODEL, metrics=measured)
    return measured


def next_message(server):
    """Receivers of the copy's version get what has changed, as from the original."""
    before = server.version
    server.publish({**MODEL, "b": np.zeros(3, np.float32)})
    return len(server.message(before)), server.message(before)


# Each public class that can be copied: how one is made, and what the copy must do as the original does.
COPIED = {
    "Broadcaster": (a_broadcaster, lambda server: (server.version, next_message(server))),
    "Codec": (a_codec, lambda codec: codec.encode_model({**MODEL, "large": LARGE})[0]),
    "ModelSum": (a_model_sum, lambda total: (total.weight, total.count, total.mean()["w"].tobytes())),
    "Receiver": (a_receiver, lambda each: (each.version, each.model["w"].tobytes())),
    "Sum": (a_sum, lambda total: (total.weight, total.value().tobytes())),
    "TensorMetrics": (metrics, lambda measured: repr(measured.__dict__)),
    "MaskedSum": (
        lambda: MaskedSum("sharedk(0.01, clients=2)", MODEL),
        lambda masked: masked.encode(MODEL, masked.init_client(), masked.message(masked.init_server()))[0],
    ),
}
# Each public class that has a file, a socket or a client to itself.
REFUSED = {
    "ClientCodec": lambda store: fedplug.ClientCodec(CODEC, store, "7"),
    "Receiver with a store": lambda store: fedplug.Receiver(store, "7"),
    "SqliteProcess": lambda store: store.open_process("p", {}),
    "SqliteStore": lambda store: store,
}
ELSEWHERE = {"Trainer"}  # tested with TFF


def answer_of(name, thing):
    return COPIED[name][1](thing)


@pytest.fixture
def store(tmp_path):
    with fedplug.open_store(f"sqlite:///{tmp_path}/state") as opened:
        yield opened


@pytest.mark.needs("tensorflow_federated")
def test_every_public_class_is_here():
    names = {*fedplug.__all__} - ELSEWHERE
    found = {name for name in names if isinstance(getattr(fedplug, name), type)}
    assert found <= COPIED.keys() | REFUSED.keys()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", COPIED)
def test_a_copy_does_what_the_original_does(name, way):
    make, answer = COPIED[name]
    np.testing.assert_equal(answer(way(make())), answer(make()))


@several_threads
@pytest.mark.parametrize("start", STARTS)
def test_public_objects_reach_a_process_however_it_is_started(start):
    context = multiprocessing.get_context(start)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        for name, (make, answer) in COPIED.items():
            there = pool.submit(answer_of, name, make()).result(timeout=300)
            np.testing.assert_equal(there, answer(make()))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_copy_of_a_sum_is_merged_and_changes_apart_from_the_original(way):
    total = a_model_sum()
    copied = way(total)
    copied.add(CODEC.encode_model(MODEL)[0], weight=1)
    assert (total.weight, copied.weight) == (2, 3)
    total.merge(copied)
    assert (total.weight, total.count) == (5, 3)
    np.testing.assert_allclose(total.mean()["b"], MODEL["b"])


def test_the_arrays_of_a_copy_are_read_only_where_those_of_the_original_are():
    for thing in (a_broadcaster(), a_receiver()):
        for way in WAYS.values():
            assert not any(array.flags.writeable for array in way(thing).model.values())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_an_open_store_refuses_copies_and_says_what_to_do(name, way, store):
    with pytest.raises(StoreError, match=rf"a {name} .*cannot be pickled or copied.* in the other process"):
        way(REFUSED[name](store))


EXAMPLES = [
    (kind, example)
    for kind, specs in {
        "encoder": builtin.fedplug_encoders(),
        "schedule": builtin.fedplug_schedules(),
    }.items()
    for spec in specs
    for example in spec.examples or (spec.name,)
]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_components_are_copied_with_their_configuration(way):
    for kind, example in EXAMPLES:
        with components.made(kind, example) as made:
            assert repr(way(made)) == repr(made)


def classes_of_errors():
    seen = [FedplugError]
    for kind in seen:
        seen += kind.__subclasses__()
    return seen


SPECIAL = {
    errors.UnknownNameError: lambda: errors.UnknownNameError("encoder", "topkk", ["topk", "qsgd"], "a file"),
    errors.MissingDependencyError: lambda: errors.MissingDependencyError("fedplug.tff", "tensorflow"),
    errors.NonFiniteError: lambda: errors.NonFiniteError("2 numbers are not finite", 2),
    errors.ComputationError: lambda: errors.ComputationError("it failed", client=3),
}


@pytest.mark.parametrize("kind", sorted(classes_of_errors(), key=str), ids=lambda kind: kind.__name__)
def test_every_error_is_the_same_in_another_process(kind):
    error = SPECIAL.get(kind, lambda: kind("what is wrong, where, and what to do"))()
    error.note = "an attribute"
    for way in WAYS.values():
        found = way(error)
        assert type(found) is kind
        assert (str(found), found.args, vars(found)) == (str(error), error.args, vars(error))
        assert getattr(found, "name", None) == getattr(error, "name", None)


def test_an_error_of_a_plugin_with_other_arguments_is_the_same_in_another_process():
    error = PluginsOwnError(place="shard 3", count=2)
    for way in WAYS.values():
        found = way(error)
        assert (str(found), found.place, found.count) == ("2 at shard 3", "shard 3", 2)


class PluginsOwnError(FedplugError):
    def __init__(self, *, place, count):
        self.place, self.count = place, count
        super().__init__(f"{count} at {place}")


@several_threads
@pytest.mark.parametrize("start", STARTS)
def test_a_misspelt_encoder_in_a_process_pool_is_an_error_after_which_the_pool_goes_on(start):
    context = multiprocessing.get_context(start)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        with pytest.raises(errors.UnknownNameError, match="did you mean 'topk'"):
            pool.submit(fedplug.codec, "topkk(0.1)").result(timeout=300)
        assert pool.submit(fedplug.codec, "topk(0.1)").result(timeout=300) is not None
