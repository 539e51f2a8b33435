"""Named payloads as one message: written once each, and every byte that is read is untrusted."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedplug import wire
from fedplug.errors import ArgumentError, PayloadError
from fedplug.wire.message import Contents, Entry, MessageReader, write, write_payloads

VERSIONS = st.none() | st.binary(min_size=8, max_size=8).filter(any).map(bytes.hex)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
ENTRIES = st.lists(
    st.builds(Entry, NAMES, st.booleans(), st.booleans()).filter(lambda entry: entry.in_old or entry.in_new),
    unique_by=lambda entry: entry.name,
    max_size=6,
)


def payload(number, size=100):
    return wire.frame(bytes([number]) * size, "identity/1", "uint8", (size,))


def reference(place):
    return wire.frame(struct.pack("<I", place), "same/1", "uint8", ())


def message(entries, base=None, version=None, numbers=None):
    sent = [entry for entry in entries if entry.in_new]
    numbers = range(len(sent)) if numbers is None else numbers
    return b"".join(write(Contents(entries, base, version), map(payload, numbers)))


def read(data):
    reader = MessageReader(data)
    contents = reader.contents()
    return contents, reader.payloads(contents.sent)


@given(st.data(), ENTRIES, VERSIONS, VERSIONS)
def test_a_message_is_read_as_it_was_written_from_memory_and_from_a_file(
    tmp_path_factory, data, entries, base, version
):
    names = [entry.name for entry in entries if entry.in_new]
    numbers = data.draw(st.lists(st.integers(0, 2), min_size=len(names), max_size=len(names)))
    path = tmp_path_factory.mktemp("message") / "message"
    path.write_bytes(message(entries, base, version, numbers))
    expected = (Contents(entries, base, version), dict(zip(names, map(payload, numbers), strict=True)))
    assert read(path.read_bytes()) == expected
    with path.open("rb") as file:
        assert read(file) == expected


def test_a_payload_that_was_there_before_takes_thirty_bytes():
    tied = [payload(1, 5000), payload(2), payload(1, 5000), payload(1, 5000)]
    sent = b"".join(write_payloads(tied))
    assert len(sent) == len(tied[0]) + len(tied[1]) + 2 * 30
    assert list(MessageReader(sent).payloads("abcd").values()) == tied


@pytest.mark.parametrize(
    "bad",
    [
        reference(1),
        reference(2),
        reference(3),
        reference(2**32 - 1),
        wire.frame(b"\0", "same/1", "uint8", ()),
        wire.frame(bytes(5), "same/1", "uint8", ()),
        wire.frame(bytes(4), "same/1", "uint8", (4,)),
    ],
    ids=["a reference", "itself", "a later one", "none", "a short place", "a long place", "a shape"],
)
def test_a_reference_to_anything_but_an_earlier_payload_is_refused(bad):
    sent = payload(0) + reference(0) + bad + payload(3)
    with pytest.raises(PayloadError, match="payload 2 refers to"):
        MessageReader(sent).payloads("abcd")


def test_a_message_cut_anywhere_or_with_more_bytes_is_refused():
    whole = message([Entry("a", True, True), Entry("b", False, True)], numbers=[1, 1])
    read(whole)
    long = wire.header("model/1", "uint8", ()) + struct.pack("<Q", 2**62)
    for cut in [long, *(whole[:size] for size in range(len(whole)))]:
        with pytest.raises(PayloadError, match="bytes are missing"):
            read(cut)
    with pytest.raises(PayloadError, match="1 bytes follow"):
        read(whole + b"x")


@given(st.data())
def test_a_damaged_message_is_read_or_refused(data):
    entries = [Entry("a", True, True), Entry("b", False, True), Entry("c", True, False)]
    whole = bytearray(message(entries, numbers=[1, 1]))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    body = data.draw(st.none() | st.binary(max_size=60))
    if body is not None:
        whole[:0] = wire.frame(bytes(16) + body, "model/1", "uint8", (data.draw(st.integers(0, 3)),))
    try:
        contents, payloads = read(bytes(whole))
    except PayloadError:
        return
    assert list(payloads) == contents.sent


@pytest.mark.parametrize(
    "data", [None, "text", 5, memoryview(bytes(8))[::2]], ids=["None", "text", "number", "strided"]
)
def test_an_object_without_bytes_is_refused(data):
    with pytest.raises(ArgumentError, match="a message is bytes or a C-contiguous buffer"):
        MessageReader(data)
