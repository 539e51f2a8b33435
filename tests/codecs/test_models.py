"""Tests `encode_model`: rules, budgets and scopes over arrays by name."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug import wire
from fedplug.encoders import ModelEncoder
from fedplug.errors import ArgumentError, ConfigError, NonFiniteError, PayloadError, StateError
from fedplug.ops.types import ArraySpec

RULES = "rules({'dense/*': 'topk(0.1) | qsgd(4)', '*': 'sign'})"


def model(seed, dtype="float32"):
    random = np.random.default_rng(seed)
    return {
        "dense/kernel": random.standard_normal((40, 30)).astype(dtype),
        "dense/bias": random.standard_normal(30).astype(dtype),
        "out/kernel": (random.standard_normal((30, 10)) * 9).astype(dtype),
        "steps": np.asarray(seed, np.int64),
    }


def specs(arrays):
    return [ArraySpec(array.shape, array.dtype, name) for name, array in arrays.items()]


def wire_ids(payloads):
    return {name: wire.unframe(payload).wire_id for name, payload in payloads.items()}


def copied(state):
    return {key: array.copy() for key, array in state.items()}


def assert_same(actual, expected):
    assert list(actual) == list(expected)
    for name in expected:
        assert actual[name].dtype == expected[name].dtype
        assert actual[name].shape == expected[name].shape
        assert actual[name].tobytes() == expected[name].tobytes()


@pytest.mark.parametrize(
    "encoder",
    [RULES, "topk(0.2)", "topk(0.1, scope='model')", "qsgd(3)", "mixed_qsgd(4)", "budget('topk(0.1)', 1500)"],
)
@pytest.mark.parametrize("memory", ["new", "in place", "two states take turns"])
def test_payloads_and_states_are_those_of_the_encoder_of_the_model(encoder, memory):
    codec = fedplug.codec(encoder)
    reference = ModelEncoder(fedplug.encoder(encoder), specs(model(0)))
    control = reference.rate_control.init() if reference.rate_control else None
    before, state, states = None, None, reference.init_state()
    for round_num in range(4):
        arrays = model(round_num)
        options = {"in_place": memory == "in place", "out": before if "turns" in memory else None}
        payloads, after = codec.encode_model(arrays, state, round_num, **options)
        if options["out"] is not None:
            assert all(np.shares_memory(after[key], before[key]) for key in after if "residual" in key)
        before, state = state, after
        buffers, states = reference.encode(list(arrays.values()), states, round_num, control)
        assert list(payloads.values()) == list(buffers)
        decoded = dict(zip(arrays, reference.decode(buffers), strict=True))
        assert_same(fedplug.decode_model(payloads), decoded)
        kept = {
            f"{name}/{key}": array
            for name, of in zip(arrays, states, strict=True)
            for key, array in of.items()
        }
        if control is not None:
            sizes = np.array([len(buffer) for buffer in buffers])
            control = reference.rate_control.next(control, {"tensor_bytes": sizes, "payloads": np.int32(1)})
            kept["codec/rate"] = np.asarray(control["rate"])
        assert_same({key: array for key, array in state.items() if key != "codec"}, kept)


def test_rules_look_at_names_and_small_arrays_are_left_alone():
    payloads, state = fedplug.codec(RULES).encode_model(model(0))
    assert wire_ids(payloads) == {
        "dense/kernel": "sparse/1+qsgd/1",
        "dense/bias": "identity/1",
        "out/kernel": "sign/1",
        "steps": "identity/1",
    }
    assert sorted(state) == ["codec", "dense/kernel/residual", "out/kernel/residual"]
    payloads, _ = fedplug.codec(RULES, min_size=30).encode_model(model(0))
    assert wire_ids(payloads)["dense/bias"] == "sparse/1+qsgd/1"


def test_a_state_of_a_model_goes_through_a_file_and_stays_with_its_codec_and_its_model():
    from safetensors import numpy as safetensors

    codec = fedplug.codec("budget('topk(0.1)', 1500)")
    _, state = codec.encode_model(model(0))
    loaded = safetensors.load(safetensors.save(state))
    for in_place in (False, True):
        payloads, after = codec.encode_model(model(1), loaded, 1, in_place=in_place)
        again = codec.encode_model(model(1), state, 1)
        assert payloads == again[0]
        assert_same(dict(sorted(after.items())), dict(sorted(again[1].items())))
    with pytest.raises(StateError, match=r"another codec: expected .*1600.*, found .*1500"):
        fedplug.codec("budget('topk(0.1)', 1600)").encode_model(model(1), state)
    wider = {**model(1), "out/kernel": np.ones((30, 11), np.float32)}
    with pytest.raises(
        StateError, match=r"'out/kernel/residual' .*expected float32\[30, 11\], found float32\[30, 10\]"
    ):
        codec.encode_model(wider, state)
    renamed = {name.replace("out", "last"): array for name, array in model(1).items()}
    with pytest.raises(
        StateError, match=r"expected a state with .*'last/kernel/residual'.*found .*'out/kernel/"
    ):
        codec.encode_model(renamed, state)


def test_arrays_are_decoded_into_given_ones_and_within_the_limit():
    payloads, _ = fedplug.codec("topk(0.1)").encode_model(model(0))
    expected = fedplug.decode_model(payloads)
    places = {"dense/kernel": np.ones((40, 30), np.float32), "steps": np.ones((), np.int64)}
    decoded = fedplug.decode_model(payloads, out=places)
    assert_same(decoded, expected)
    assert all(decoded[name] is places[name] for name in places)
    new = 4 * (30 + 300) + 30 * 9  # 30 entries more: values, indices and comparisons
    fedplug.decode_model(payloads, out=places, max_bytes=new)
    with pytest.raises(
        PayloadError, match=r"tensor 'out/kernel': .* up to 1470 to decode; max_bytes is 1469"
    ):
        fedplug.decode_model(payloads, out=places, max_bytes=new - 1)


@pytest.mark.parametrize(
    "bad", [np.ones(9, np.float32), np.ones((30, 10)), np.ones((10, 30), np.float32).T, [1]], ids=repr
)
def test_nothing_is_decoded_if_one_of_the_given_arrays_does_not_fit(bad):
    payloads, _ = fedplug.codec("topk(0.1)").encode_model(model(0))
    places = {"dense/kernel": np.ones((40, 30), np.float32), "out/kernel": bad}
    with pytest.raises(ArgumentError, match=r"^tensor 'out/kernel': out is "):
        fedplug.decode_model(payloads, out=places)
    assert (places["dense/kernel"] == 1).all()


def test_errors_name_the_array():
    payloads, _ = fedplug.codec("topk(0.1)").encode_model(model(0))
    payloads["dense/bias"] = payloads["dense/bias"][:-1]
    with pytest.raises(PayloadError, match=r"^tensor 'dense/bias': "):
        fedplug.decode_model(payloads)
    with pytest.raises(ArgumentError, match=r"^tensor 'dense/kernel': out is "):
        fedplug.decode_model(payloads, out={"dense/kernel": np.ones(3)})
    codec = fedplug.codec("topk(0.1)")
    for bad in (np.ones(3, complex), "text", np.ones(3, ">f4")):
        with pytest.raises(ArgumentError, match=r"^array 'out/kernel': "):
            codec.encode_model({**model(0), "out/kernel": bad})


@pytest.mark.parametrize(
    "encoder", ["topk(0.1)", RULES, "topk(0.1, scope='model')", "budget('topk(0.1)', 1500)"]
)
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("place", ["dense/kernel", "dense/bias", "out/kernel"])
def test_a_refused_update_writes_no_state(encoder, in_place, place):
    codec = fedplug.codec(encoder)
    _, state = codec.encode_model(model(0))
    kept = copied(state)
    bad = model(1)
    bad[place].reshape(-1)[-1] = np.nan
    with pytest.raises(NonFiniteError, match=f"^array '{place}': "):
        codec.encode_model(bad, state, 1, in_place=in_place)
    assert_same(state, kept)
    with pytest.raises(NonFiniteError, match=f"^array '{place}': "):
        codec.encode_model(bad)


def test_a_model_that_does_not_fit_the_encoder_is_refused():
    with pytest.raises(ConfigError, match=r"nothing to encode"):
        fedplug.codec("topk(0.1)").encode_model({})
    with pytest.raises(ConfigError, match=r"conv"):
        fedplug.codec("rules({'conv/*': 'topk(0.1)', '*': 'sign'})").encode_model(model(0))
    with pytest.raises(ConfigError, match=r"leaves nothing to adjust"):
        fedplug.codec("budget('topk(0.1)', 100)").encode_model(model(0))


@pytest.mark.parametrize("name", [0, None, b"a", ("a", "b"), 1.5])
def test_a_name_is_text(name):
    arrays = {"a": np.ones(99, np.float32), name: np.ones(99, np.float32)}
    client = fedplug.ClientCodec(fedplug.codec("topk(0.1)"), fedplug.open_store("memory://"), "a")
    for use in (fedplug.codec("topk(0.1)").encode_model, fedplug.ModelSum.like, client.encode_model):
        with pytest.raises(ArgumentError, match=r"the name of an array is .*; names are text"):
            use(arrays)


@pytest.mark.parametrize("model", [[np.ones(3)], (x for x in [np.ones(3)]), np.ones(3), "model", None])
def test_a_model_is_a_mapping(model):
    codec = fedplug.codec("topk(0.1)")
    uses = [codec.encode_model, codec.sent_exactly, fedplug.ModelSum.like, fedplug.ModelSum]
    uses += [fedplug.decode_model, fedplug.ModelSum({"a": 3}).add]
    for use in uses:
        with pytest.raises(
            ArgumentError, match=rf" is a mapping of .* by name, not a {type(model).__name__}"
        ):
            use(model)


@pytest.mark.parametrize("encoder", ["topk(0.1, scope='model')", "stc(0.1, scope='model')", "auto"])
def test_tensors_that_are_compared_have_a_limit_together(encoder):
    half = np.broadcast_to(np.float32(1), (2**30,))
    specs = [ArraySpec((2**30,), "float32", "a"), ArraySpec((2**30 + 1,), "float32", "b")]
    with pytest.raises(ConfigError, match=r"such as 'b', have together 2,147,483,649 elements, more than"):
        ModelEncoder(fedplug.encoder(encoder), specs)
    assert half.size + 1 == specs[1].shape[0]
    ModelEncoder(fedplug.encoder("topk(0.1)"), specs)


@pytest.mark.parametrize("dtypes", [("bfloat16", "float32"), ("float16", "bfloat16"), ("float32", "float64")])
@pytest.mark.parametrize("encoder", ["topk(0.2, scope='model')", "auto", "budget('auto', 1500)"])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_model_may_be_of_several_floating_dtypes(encoder, dtypes, in_place):
    codec, state, total = fedplug.codec(encoder), None, None
    narrow, wide = dtypes
    for round_num in range(4):
        x, y = model(round_num, narrow), model(round_num + 9, wide)
        arrays = {"narrow": x["dense/kernel"], "wide": y["dense/kernel"]}
        before = {
            name: 0.0 if state is None else state[f"{name}/residual"].astype("float64") for name in arrays
        }
        payloads, state = codec.encode_model(arrays, state, round_num, in_place=in_place)
        for name, received in fedplug.decode_model(payloads).items():
            assert received.dtype == arrays[name].dtype
            wanted = arrays[name].astype("float64") + before[name]
            got = received.astype("float64") + state[f"{name}/residual"].astype("float64")
            np.testing.assert_allclose(got, wanted, rtol=0.02, atol=0.02)
        total = total or fedplug.ModelSum.like(arrays)
        total.add(payloads)


def test_a_name_may_be_anything_but_ambiguous():
    codec = fedplug.codec("topk(0.1)", min_size=1)
    arrays = {"": np.ones(9), "a/b": np.ones(9), "ü/é ü": np.ones(9), "codec": np.ones(9)}
    payloads, state = codec.encode_model(arrays)
    assert codec.encode_model(arrays, state)[0].keys() == payloads.keys() == arrays.keys()


# The entries of single arrays in a state --------------------------------------------------------------------


def test_entries_of_a_state_go_by_whole_names():
    codec = fedplug.codec("topk(0.1)")
    arrays = {"w": np.ones(100, np.float32), "w/x": np.ones(100, np.float32), "few": np.ones(3, np.float32)}
    assert codec.state_keys(arrays) == {"w": ["w/residual"], "w/x": ["w/x/residual"], "few": []}


@pytest.mark.parametrize("encoder", ["topk(0.1)", "budget('topk(0.1)', 800)"])
def test_an_array_may_have_the_name_of_rate_control(encoder):
    found = []
    for name in ("codec", "x"):
        codec, state = fedplug.codec(encoder), None
        for round_num in range(2):
            payloads, state = codec.encode_model({name: model(0)["dense/kernel"]}, state, round_num)
        found.append((payloads[name], state[f"{name}/residual"].tobytes()))
    assert found[0] == found[1]


def halves(arrays):
    names, parts = {}, {}
    for name, array in arrays.items():
        rows = len(array) // 2 if array.ndim else None
        for place, part in enumerate([array] if rows is None else [array[:rows], array[rows:]]):
            names[f"{name}#{place}"], parts[f"{name}#{place}"] = name, part
    return names, parts


def test_a_part_is_encoded_as_its_whole_array_would_be():
    names, parts = halves(model(1))
    payloads, state = fedplug.codec(RULES).for_slices(model(1), names).encode_model(parts)
    of_whole, of_whole_state = fedplug.codec(RULES).encode_model(model(1))
    ids = wire_ids(of_whole)
    assert wire_ids(payloads) == {part: ids[name] for part, name in names.items()}
    np.testing.assert_array_equal(state["codec"], of_whole_state["codec"])
    for part, name in names.items():
        if name != "steps":
            own = fedplug.codec("topk(0.1) | qsgd(4)" if name == "dense/kernel" else "sign")
            assert len(parts[part]) < 64 or payloads[part] == own.encode(parts[part])[0]


def test_any_parts_are_encoded_at_a_time_with_the_same_bytes():
    names, parts = halves(model(1))
    codec = fedplug.codec(RULES).for_slices(model(1), names)
    together, _ = codec.encode_model(parts)
    for part, array in parts.items():
        assert codec.encode_model({part: array})[0] == {part: together[part]}


def test_parts_have_a_share_of_a_budget():
    arrays = {"kernel": np.zeros((200, 100), np.float32)}
    codec = fedplug.codec("budget('topk(0.1)', 2000)").for_slices(arrays, {"kernel#0": "kernel"}, 0.5)
    state = None
    for round_num in range(5):
        noise = np.random.default_rng(round_num).standard_normal((100, 100))
        payloads, state = codec.encode_model({"kernel#0": noise.astype(np.float32)}, state, round_num)
    assert len(payloads["kernel#0"]) == pytest.approx(1000, rel=0.02)


def test_a_limit_is_a_number_that_does_not_change():
    payloads, _ = fedplug.codec("topk(0.1)").encode_model({"a": np.ones(100, np.float32)})
    limit = np.array(10_000)
    fedplug.decode_model(payloads, max_bytes=limit)
    assert limit == 10_000
    assert fedplug.decode_model(payloads, max_bytes=np.inf)


@pytest.mark.parametrize("wrong", [np.nan, -1, -np.inf, np.float32("nan"), "10000", None, True, [5], 1j])
def test_every_receiver_refuses_a_limit_that_is_no_number_of_bytes(wrong, tmp_path):
    array = np.ones(100, np.float32)
    payload, difference = fedplug.codec("topk(0.1)").encode(array)[0], fedplug.diff(array, array)
    for receive in (
        lambda: fedplug.decode(payload, max_bytes=wrong),
        lambda: fedplug.decode(payload, out=array.copy(), max_bytes=wrong),
        lambda: fedplug.decode_model({"a": payload}, max_bytes=wrong),
        lambda: fedplug.decode_model({}, max_bytes=wrong),
        lambda: fedplug.patch(array, difference, max_bytes=wrong),
        lambda: fedplug.patch({}, fedplug.diff({}, {}), max_bytes=wrong),
        lambda: fedplug.Receiver(max_bytes=wrong),
    ):
        with pytest.raises(ArgumentError, match="must be a number of bytes, at least 0"):
            receive()


def test_an_array_without_a_negative_element_gets_none_from_an_update_to_its_base():
    codec, state, rng = fedplug.codec("topk(0.1) | qsgd(2)"), None, np.random.default_rng(0)
    server = moment = (rng.random(256) ** 8 * 1e-3).astype(np.float32)
    exact = 0
    for round_num in range(10):
        moment = moment * np.float32(0.5) + (rng.random(256) ** 8 * 5e-4).astype(np.float32)
        base, before = {"any name": server}, state
        payloads, state = codec.encode_model({"any name": moment - server}, state, round_num, base=base)
        server = server + fedplug.decode_model(payloads)["any name"]
        assert not (server < 0).any()
        if before is not None:
            exact += np.array_equal(state["any name/residual"], before["any name/residual"])
    assert exact


def test_weights_are_encoded_the_same_with_and_without_a_base():
    rng = np.random.default_rng(0)
    update = {"weights": rng.standard_normal(1000).astype(np.float32)}
    codec = fedplug.codec("topk(0.1) | qsgd(2)")
    base = {"weights": rng.standard_normal(1000).astype(np.float32)}
    assert codec.encode_model(update, base=base)[0] == codec.encode_model(update)[0]


@pytest.mark.parametrize("base", [{}, {"weights": np.zeros(999, np.float32)}])
def test_a_base_of_another_model_is_refused(base):
    update = {"weights": np.ones(1000, np.float32)}
    with pytest.raises(ArgumentError, match=r"base has no array 'weights' of the shape \[1000\]"):
        fedplug.codec("auto").encode_model(update, base=base)
