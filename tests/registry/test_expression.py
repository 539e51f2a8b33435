"""The language of part expressions."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.errors import ConfigError
from fedplug.registry.expression import Stage, parse

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
names = st.from_regex(r"[a-z][a-z0-9]{0,5}_", fullmatch=True)  # no Python keyword ends in _
stages = st.builds(
    Stage, names, st.lists(values, max_size=2).map(tuple), st.dictionaries(names, values, max_size=2)
)


def written(stage):
    arguments = [repr(value) for value in stage.args] + [
        f"{key}={value!r}" for key, value in stage.kwargs.items()
    ]
    return f"{stage.name}({', '.join(arguments)})" if arguments else stage.name


@settings(max_examples=100)
@given(st.lists(stages, min_size=1, max_size=3))
def test_written_data_is_read_back(pipeline):
    assert list(parse(" | ".join(map(written, pipeline)))) == pipeline


def test_an_example():
    topk = Stage("topk", (0.01,), {"error_feedback": False})
    assert parse("topk(0.01, error_feedback=False) | qsgd(bits=8) | rice") == (
        topk,
        Stage("qsgd", (), {"bits": 8}),
        Stage("rice"),
    )


def test_a_call_as_an_argument_is_a_stage_of_its_own():
    (stage,) = parse("topk(linear(0.1, end=0.01), open('file'))")
    assert stage.args == (Stage("linear", (0.1,), {"end": 0.01}), Stage("open", ("file",)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "topk(",
        "topk(0.01",
        "topk 0.01",
        "topk(0.01) |",
        "topk(0.01) + rice",
        "0.01",
        "'topk'",
        "lambda: 0",
        "os.system('true')",
        "__import__('os')('true')",
        "topk(os.getcwd())",
        "topk(linear(linear(1)))",
        "topk([linear(1)])",
        "topk(linear(x))",
        "topk(x)",
        "topk(1 if True else 2)",
        "topk([i for i in range(9)])",
        "topk({[]: 1})",
        "topk(*[1])",
        "topk(**{'fraction': 1})",
        "topk(fraction=1, fraction=2)",
        "topk(f'{1}')",
        "x := topk",
        "topk; rice",
        "topk\nrice",
        "topk(\0)",
        "topk" + "(" * 3000,
        "-" * 4000,
        "topk(" + "-" * 4000 + "1)",
        "|".join(["a"] * 2000),
        "a" * 5000,
    ],
    ids=lambda text: repr(text[:24]),
)
def test_anything_else_is_refused_and_nothing_is_evaluated(text):
    with pytest.raises(ConfigError):
        parse(text)


@settings(max_examples=100)
@given(st.text(max_size=20))
def test_any_text_at_all_is_read_or_refused(text):
    with contextlib.suppress(ConfigError):
        assert parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topk(fraktion)", "'fraktion' in 'topk(fraktion)' is not a plain value"),
        ("topk(scope=model)", "; write text in quotes: 'model'"),
        ("topk(0.1, error_feedback=false)", "None, list); write False"),
        (
            "topk 0.1",
            "cannot read 'topk 0.1': invalid syntax at '0.1'; write name, name(value",
        ),
        ("topk(0.1", "cannot read 'topk(0.1': '(' was never closed at '(0.1'; write"),
        (" |topk", "cannot read '|topk': invalid syntax; write"),
        ("top-k(0.1)", "'top-k(0.1)' is neither a name nor a call of a name; write"),
    ],
)
def test_the_message_shows_the_offending_piece(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(text)


def test_something_that_is_no_text_is_refused():
    with pytest.raises(ConfigError, match="a component expression is a string, not float"):
        parse(0.01)  # type: ignore[arg-type]
