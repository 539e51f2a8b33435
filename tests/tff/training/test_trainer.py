"""Tests the trainer: sampling, client states, commits, resuming after a stop."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError, StoreError, StoreMismatchError
from fedplug.registry import resolve
from fedplug.registry.catalog import Catalog, Observer
from fedplug.stores import open_store
from fedplug.tff.runtime import create_async_execution_context, use_runtime
from fedplug.tff.training.trainer import ClientDataset, Trainer


def weights_of(state: object) -> np.ndarray:
    return np.concatenate([np.ravel(w) for w in state.global_model_weights.trainable])


def test_an_interrupted_training_ends_with_the_same_bits(process, client_data, tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'store'}"

    class StoppedError(Exception):
        pass

    def stop_after_3(round_num: int, state: object, metrics: object) -> None:
        if round_num == 3:
            raise StoppedError

    with open_store(url) as store, pytest.raises(StoppedError):
        Trainer(process, client_data, store=store, clients_per_round=2, seed=7).run(8, stop_after_3)
    with open_store(url) as store:
        trainer = Trainer(process, client_data, store=store, clients_per_round=2, seed=7)
        assert trainer.last_round == 3
        resumed = trainer.run(8)
    straight = Trainer(process, client_data, clients_per_round=2, seed=7).run(8)
    np.testing.assert_array_equal(weights_of(resumed), weights_of(straight))


def test_a_client_that_skips_rounds_finds_its_own_residual_again(process, client_data) -> None:
    trainer = Trainer(process, client_data)
    pairs = [ClientDataset(name, client_data[name]) for name in ("client 0", "client 1")]
    state = trainer.next(trainer.initialize(), pairs[:1]).state
    state = trainer.next(state, pairs[1:]).state
    first = process.next(process.initialize(), [client_data["client 0"]], [process.initialize_client()])
    expected = process.next(state, [client_data["client 0"]], first["client_states"])
    found = trainer.next(state, pairs[:1]).state
    np.testing.assert_array_equal(weights_of(found), weights_of(expected["state"]))


def test_sampling_depends_on_seed_and_round_only(process, client_data) -> None:
    one = Trainer(process, client_data, clients_per_round=3, seed=1)
    same = Trainer(process, dict(reversed(client_data.items())), clients_per_round=3, seed=1)
    other = Trainer(process, client_data, clients_per_round=3, seed=2)
    rounds = range(1, 20)
    assert [one.sample(r) for r in rounds] == [same.sample(r) for r in rounds]
    assert [one.sample(r) for r in rounds] != [other.sample(r) for r in rounds]
    assert all(len(one.sample(r)) == 3 for r in rounds)
    assert all(one.sample(r) == sorted(set(one.sample(r))) for r in rounds)
    assert {name for r in rounds for name in one.sample(r)} == set(client_data)


class Keep(tff.program.ReleaseManager):
    """Keeps metrics in a list."""

    def __init__(self) -> None:
        self.released: list[tuple[int, object]] = []

    async def release(self, value: object, key: int) -> None:
        self.released.append((key, value))


def test_the_training_loop_of_tff_resumes_from_the_store(process, client_data, tmp_path) -> None:
    def train(rounds: int) -> tuple[object, list]:
        keep = Keep()
        with open_store(f"sqlite:///{tmp_path / 'store'}") as store:
            trainer = Trainer(process, client_data, store=store, clients_per_round=2)
            state = tff.simulation.run_training_process(
                trainer,
                trainer.select,
                rounds,
                evaluation_fn=lambda state, data: {"sum": weights_of(state).sum()},
                evaluation_selection_fn=lambda round_num: None,
                program_state_manager=trainer.program_state_manager,
                metrics_managers=[keep],
            )
        return state, keep.released

    _, first = train(2)
    state, second = train(4)
    np.testing.assert_array_equal(
        weights_of(state), weights_of(Trainer(process, client_data, clients_per_round=2).run(4))
    )
    assert [key for key, _ in first] == [0, 1, 2]
    assert [key for key, _ in second] == [3, 4]
    assert second[0][1]["aggregator"]["payloads"] == 2


def test_the_lines_on_the_page_about_runtimes_run(process, client_data) -> None:
    page = (Path(__file__).parents[3] / "docs" / "runtime.md").read_text(encoding="utf-8")
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with use_runtime("inprocess"):
        names = {"process": process, "rounds": 1, "tff": tff}
        exec(first, names)
        assert names["state"] is not None
        names["trainer"] = Trainer(process, client_data, clients_per_round=1)
        exec(second, names)
        assert names["trainer"].last_metrics["aggregator"]["payloads"] == 1


def test_only_the_last_finished_round_is_loaded_and_saved(process, client_data) -> None:
    trainer = Trainer(process, client_data, clients_per_round=1)
    manager = trainer.program_state_manager
    asked = asyncio.get_event_loop().run_until_complete
    assert asked(manager.load_latest(None)) == (None, 0)
    state = trainer.run(2)
    loaded, version = asked(manager.load_latest(None))
    assert version == 2
    np.testing.assert_array_equal(weights_of(loaded), weights_of(state))
    with pytest.raises(tff.program.ProgramStateNotFoundError):
        asked(manager.load(1, None))
    with pytest.raises(StoreError, match="the last finished round of the trainer is 2; give the loop"):
        asked(manager.save(state, 3))


def test_clients_selected_for_another_round_are_refused(process, client_data) -> None:
    trainer = Trainer(process, client_data, clients_per_round=1)
    state = trainer.run(1)
    with pytest.raises(
        ConfigError, match=r"selected for round 1, .* leads to round 2; count from last_round"
    ):
        trainer.next(state, trainer.select(1))


def test_an_async_context_is_refused_with_a_remedy(process, client_data) -> None:
    context = tff.program.NativeFederatedContext(create_async_execution_context())
    instead = r"train_model .* use trainer\.run\(rounds\), or .*run_training_process"
    with tff.framework.get_context_stack().install(context), pytest.raises(ConfigError, match=instead):
        Trainer(process, client_data).initialize()


def test_client_data_of_tff_is_accepted(process) -> None:
    examples = {
        name: (np.full((4, 100), i, np.float32), np.ones((4, 1), np.float32)) for i, name in enumerate("ab")
    }
    data = tff.simulation.datasets.TestClientData(examples).preprocess(lambda ds: ds.batch(2))
    assert Trainer(process, data).client_ids == ["a", "b"]
    Trainer(process, data).run(1)


def test_it_starts_from_the_given_weights_and_continues_with_its_own(process, client_data, tmp_path) -> None:
    keras_model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(100,))])
    weights = tff.learning.models.ModelWeights.from_model(keras_model)
    with open_store(f"sqlite:///{tmp_path / 'store'}") as store:
        trainer = Trainer(process, client_data, store=store, initial_weights=weights)
        state = trainer.initialize()
        np.testing.assert_array_equal(state.global_model_weights.trainable[0], weights.trainable[0])
        trained = trainer.run(1)
        again = Trainer(process, client_data, store=store, initial_weights=weights).initialize()
    np.testing.assert_array_equal(weights_of(again), weights_of(trained))
    assert not np.array_equal(weights_of(trained), weights_of(state))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([np.zeros((100, 1))], r"is a list; .* ModelWeights.from_model\(model\)"),
        (
            tff.learning.models.ModelWeights([np.zeros((3, 1), np.float32)], []),
            r"shapes \[\(3, 1\)\], and those of the model \[\(100, 1\), \(1,\)\]",
        ),
        (
            tff.learning.models.ModelWeights([np.zeros((100, 1)), np.zeros(1)], []),
            r"dtypes \['float64', 'float64'\], and those of the model \['float32', 'float32'\]",
        ),
    ],
)
def test_weights_of_another_form_are_refused(process, client_data, weights, message) -> None:
    with pytest.raises(ConfigError, match=message):
        Trainer(process, client_data, initial_weights=weights).initialize()


@pytest.mark.parametrize("rounds", [-1, 1.0, "3", True])
def test_a_number_of_rounds_that_is_none_is_refused_before_anything_is_kept(
    process, client_data, rounds
) -> None:
    trainer = Trainer(process, client_data)
    with pytest.raises(ConfigError, match=r"rounds is .* a whole number of at least 0"):
        trainer.run(rounds)
    assert trainer.last_round is None


def observe(monkeypatch, hook: str, *arguments: str) -> list[dict]:
    """Returns a list that gets what an observer with these arguments is told."""
    told = []
    observer = Observer(
        hook=hook,
        origin="acme-watch 1.0",
        function=lambda **facts: told.append(facts),
        arguments=arguments,
    )
    monkeypatch.setattr(resolve, "catalog", lambda: Catalog((), (observer,)))
    return told


def test_every_round_is_kept_with_the_signature_and_reported_to_observers(
    process, client_data, monkeypatch
) -> None:
    told = observe(monkeypatch, "fedplug_round_finished", "process_id", "round_num", "metrics")
    trainer = Trainer(process, client_data, clients_per_round=2, process_id="mine")
    assert trainer.last_metrics is None
    trainer.run(2)
    assert [(facts["process_id"], facts["round_num"]) for facts in told] == [("mine", 1), ("mine", 2)]
    assert told[-1]["metrics"] == trainer.last_metrics
    assert trainer.last_metrics["aggregator"]["clients"] == 2
    assert trainer.last_metrics["aggregator"]["uplink_bytes"] > 0
    kept = trainer._states.metadata["provenance"]
    assert [(record["kind"], record["name"]) for record in kept] == [
        ("encoder", "pipeline"),
        ("encoder", "topk"),
        ("aggregator", "mean"),
    ]
    assert kept == process.provenance


def test_a_round_without_an_accepted_update_logs_an_error_that_says_why(process, caplog) -> None:
    nan = tf.data.Dataset.from_tensors((np.full((4, 100), np.nan, np.float32), np.zeros((4, 1), np.float32)))
    nan = nan.map(lambda x, y: (tf.ensure_shape(x, [None, 100]), tf.ensure_shape(y, [None, 1])))
    nothing = nan.take(0)
    trainer = Trainer(process, {"a": nan, "b": nan, "c": nothing}, clients_per_round=3)
    trainer.run(1)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "so the model stays as it is: 2 of 3 updates hold a NaN or an infinity" in record.message


def test_observers_receive_the_measurements_of_a_model(process, client_data, monkeypatch) -> None:
    arguments = ("process", "process_id", "round_num", "metrics")
    told = observe(monkeypatch, "fedplug_round_evaluated", *arguments)
    trainer = Trainer(process, client_data, clients_per_round=2, process_id="mine")
    trainer.run(1, lambda round_num, *_: trainer.log_metrics(round_num, {"accuracy": 0.5}))
    facts = {"process": process, "process_id": "mine", "round_num": 1, "metrics": {"accuracy": 0.5}}
    assert told == [facts]


def test_a_failed_commit_leaves_the_previous_round_and_can_be_tried_again(
    process, client_data, monkeypatch
) -> None:
    trainer = Trainer(process, client_data, clients_per_round=2)
    state = trainer.run(1)
    with monkeypatch.context() as patch:
        patch.setattr(
            trainer._states, "commit", lambda *a, **k: (_ for _ in ()).throw(StoreError("disk full"))
        )
        with pytest.raises(StoreError, match="disk full"):
            trainer.next(state, trainer.select(2))
    assert trainer.last_round == 1
    resumed = trainer.next(trainer.initialize(), trainer.select(2)).state
    np.testing.assert_array_equal(
        weights_of(resumed), weights_of(Trainer(process, client_data, clients_per_round=2).run(2))
    )


def test_a_state_of_another_round_than_the_store_is_refused(process, client_data) -> None:
    trainer, other = (Trainer(process, client_data, clients_per_round=1) for _ in range(2))
    first, second = trainer.initialize(), trainer.run(1)
    with pytest.raises(StoreError, match=r"is of round 0, .* ahead of it, with round 1: .* initialize\(\)"):
        trainer.next(first, trainer.select(1))
    with pytest.raises(StoreError, match=r"is of round 1, .* behind it, with no round: .* open the store"):
        other.next(second, other.select(2))
    other.initialize()
    with pytest.raises(StoreError, match="behind it, with round 0"):
        other.next(second, other.select(2))


def test_the_store_of_another_encoder_is_refused(build, process, client_data, tmp_path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store'}") as store:
        Trainer(process, client_data, store=store)
        with pytest.raises(StoreMismatchError, match="fraction"):
            Trainer(build("topk(0.2)"), client_data, store=store)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda data: [], "at least one client"),
        (lambda data: [ClientDataset("client 0", data)] * 2, "'client 0' is in the round twice"),
        (lambda data: iter([ClientDataset("client 0", data)]), "must be a list, as `select` makes it"),
        (lambda data: [("client 0", None)], "is no client of a round; write fedplug"),
        (lambda data: [ClientDataset(5, None)], "is no client of a round; write fedplug"),
        (lambda data: ["client 0"], "is no client of a round; write fedplug"),
        (lambda data: [None], "is no client of a round; write fedplug"),
        (
            lambda data: [ClientDataset("odd", data.map(lambda x, y: x))],
            r"the data of client 'odd' has elements of type float32\[\?,100\]",
        ),
    ],
    ids=["none", "twice", "iterator", "pair", "number", "text", "None", "structure"],
)
def test_a_round_of_anything_but_clients_with_data_is_refused(process, client_data, make, message) -> None:
    trainer = Trainer(process, client_data)
    with pytest.raises(ConfigError, match=message):
        trainer.next(trainer.initialize(), make(client_data["client 0"]))


def test_an_invalid_state_is_refused(process, client_data) -> None:
    trainer = Trainer(process, client_data)
    output = trainer.next(trainer.initialize(), trainer.select(1))
    for wrong in (output, output.state.global_model_weights, {}, None):
        with pytest.raises(ConfigError, match=r"the given state is a .*; it must be what initialize"):
            trainer.next(wrong, trainer.select(2))


@pytest.mark.parametrize("data", [[1, 2], None, lambda round_num: np.zeros(3)])
def test_data_that_is_no_dataset_is_refused_with_the_client_named(process, data) -> None:
    with pytest.raises(
        ConfigError, match=r"client 'bob' is a \w+; it must be a tf.data.Dataset, or a function"
    ):
        Trainer(process, {"bob": data}).run(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed is -1; it must be a whole number of at least 0"),
        ({"seed": None}, "seed is None"),
        ({"clients_per_round": 1.0}, "clients_per_round is 1.0"),
        ({"clients_per_round": 0}, "between 1 and the number of clients, 6"),
        ({"clients_per_round": 7}, "between 1 and the number of clients, 6"),
        ({"clients_per_round": -1}, "between 1 and the number of clients, 6"),
        ({"client_data": {}}, "client_data is empty"),
        ({"client_data": [1, 2]}, "found list"),
        ({"store": "memory://"}, r"store is 'memory://'; .* fedplug.open_store"),
        ({"client_data": {7: None}}, r"the client id 7 is not text; .* use str"),
        ({"client_data": {"ann": lambda: None}}, r"client 'ann' is a function .* lambda round_num: dataset"),
        ({"process": "topk"}, "the process is a str; a trainer takes those of fedplug.tff.process"),
    ],
)
def test_invalid_arguments_are_refused_with_a_remedy(process, client_data, arguments, message):
    with pytest.raises(ConfigError, match=message):
        Trainer(**{"process": process, "client_data": client_data, **arguments})
