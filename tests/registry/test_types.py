"""Types of users' programs: `make lint` checks this file, and `assert_type` the types."""

from __future__ import annotations

from typing import assert_type

import fedplug
from fedplug.encoders import Encoder, EncoderAssignment
from fedplug.registry.component import Component
from fedplug.schedules import Schedule
from fedplug.tff.aggregators import Aggregator
from fedplug.tff.process.arguments import AnyEncoder


def test_an_encoder_by_name_is_for_a_tensor_or_for_a_whole_model() -> None:
    for made in (fedplug.encoder("topk(0.5)"), fedplug.encoder("topk", fraction=0.5)):
        assert_type(made, Encoder | EncoderAssignment)
        assert isinstance(made, Encoder)
        assert_type(made.wire_id, str)
    for made in (
        fedplug.encoder("budget('topk(0.5)', 900)"),
        fedplug.encoder("rules", rules={"*": "sign"}),
    ):
        assert isinstance(made, EncoderAssignment)


def test_a_process_accepts_either() -> None:
    encoders: list[AnyEncoder] = [fedplug.encoder("topk(0.5)"), "topk(0.5)", {"*": "topk(0.5)"}]
    assert encoders


def test_other_components_by_name_are_of_their_kind() -> None:
    assert isinstance(assert_type(fedplug.aggregator("mean"), Aggregator), Aggregator)
    assert isinstance(assert_type(fedplug.schedule("constant(0.1)"), Schedule), Schedule)


def test_a_component_read_from_a_config_has_the_class_of_the_one_that_was_written() -> None:
    for text in ("topk(0.5)", "rules({'*': 'sign'})"):
        part = fedplug.encoder(text)
        again = assert_type(fedplug.from_config(fedplug.to_config(part)), Component)
        assert type(again) is type(part)
