"""Checks and errors that all stores share: text, JSON values, signatures, rounds and URLs."""

from __future__ import annotations

import itertools
import json
import operator
import os
from collections.abc import Iterable, Iterator, Mapping

from fedplug.errors import ConfigError, StoreError, StoreMismatchError, nearest
from fedplug.registry import provenance

__all__ = [
    "absolute",
    "check_commit",
    "check_keep_rounds",
    "check_mapping",
    "check_round",
    "check_signature",
    "check_text",
    "folder_of",
    "no_such_process",
    "not_committed",
    "not_kept",
    "to_json",
]

_SHOWN = 3
_WIDTH = 60
_CONTEXT = 20
_BITS = 63  # of a signed number of a database


def check_text(kind: str, text: str) -> str:
    """Returns ``text``. Raises `StoreError` if it is not text that UTF-8 can encode."""
    if not isinstance(text, str):
        raise StoreError(f"a {kind} must be a string, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"the {kind} {text!r} is not valid Unicode text: {error.reason}") from error
    return text


def folder_of(url: str, prefix: str) -> str:
    """Returns the folder in a URL such as ``sqlite:///folder``, without decoding it.

    Raises:
        ConfigError: The URL has another form.
    """
    path = url.removeprefix(prefix)
    if path == url or not path or "\0" in path:
        raise ConfigError(f"{url!r}: write '{prefix}relative/path' or '{prefix}/absolute/path'")
    if path.startswith("~"):  # shells expand it only at the start of a word
        raise ConfigError(f"{url!r}: write the home folder in full, as '{prefix}/home/...'")
    return path


def absolute(url: str) -> str:
    """Returns the URL with an absolute folder, for objects that open a store later."""
    path = url.removeprefix("sqlite:///")
    return url if path == url or path[:1] in ("", "/", "~") else f"sqlite:///{os.path.abspath(path)}"


def check_mapping(what: str, kind: str, value: object) -> None:
    """Raises `StoreError` unless ``value`` is a mapping. ``kind`` names its keys and values."""
    if not isinstance(value, Mapping):
        raise StoreError(f"{what} must be a mapping from {kind}, not a {type(value).__name__}")


def to_json(what: str, value: object) -> str:
    """Returns the JSON text of ``value``. Raises `StoreError` if JSON cannot represent it."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"the {what} must be a JSON value: {error}") from error


def check_round(process_id: str, last_round: int | None, round_num: int) -> int:
    """Returns ``round_num`` as a plain integer. Raises `StoreError` unless it may follow ``last_round``."""
    try:
        number = operator.index(round_num)
    except TypeError as error:
        raise StoreError(f"a round number must be an integer, not {round_num!r}") from error
    if number.bit_length() > _BITS:
        raise StoreError(f"a round number has at most {_BITS} bits, not {number.bit_length()}")
    if last_round is not None and number != last_round + 1:
        raise StoreError(
            f"process {process_id!r} holds round {last_round}, so the next commit is round {last_round + 1}, "
            f"not {number}"
        )
    return number


def check_commit(
    process_id: str,
    last_round: int | None,
    round_num: int,
    client_states: Mapping[str, object],
    metadata: object,
) -> tuple[int, str]:
    """Checks the arguments of `ProcessState.commit`, without reading the states.

    Returns:
        The round as a plain integer, and the JSON text of the metadata.
    """
    number, text = check_round(process_id, last_round, round_num), to_json("metadata", metadata)
    check_mapping("client_states", "client ids to states", client_states)
    for client_id in client_states:
        check_text("client id", client_id)
    return number, text


def check_keep_rounds(keep_rounds: int) -> int:
    """Returns ``keep_rounds``. Raises `ConfigError` unless it is a positive integer."""
    if not isinstance(keep_rounds, int) or keep_rounds < 1 or keep_rounds.bit_length() > _BITS:
        raise ConfigError(f"keep_rounds is {keep_rounds!r}; it must be 1 or more, and less than 2^{_BITS}")
    return keep_rounds


def not_committed(process_id: str, number: int, last_round: int | None, reason: StoreError) -> StoreError:
    """Returns the error for a valid round that could not be committed."""
    held = "no round" if last_round is None else f"round {last_round}"
    return StoreError(
        f"round {number} of process {process_id!r} was not committed: {reason}; {held} is intact"
    )


def not_kept(process_id: str, round_num: int, kept: Iterable[int]) -> StoreError:
    """Returns the error for a round that a process cannot be rewound to."""
    rounds = ", ".join(map(str, kept)) or "none"
    return StoreError(f"round {round_num} of process {process_id!r} is not kept; kept are: {rounds}")


def no_such_process(where: str, process_id: str, known: Iterable[str]) -> StoreError:
    """Returns the error for a process that the store does not have."""
    return StoreError(f"{where} has no process {process_id!r}; {nearest(process_id, known)}")


def check_signature(where: str, process_id: str, stored: str, asked: Mapping[str, object]) -> None:
    """Raises `StoreMismatchError` unless ``asked`` equals the signature ``stored`` as JSON."""
    text = to_json("signature", asked)
    if text == stored:
        return
    found = list(itertools.islice(_differences(json.loads(stored), json.loads(text)), _SHOWN + 1))
    if found:
        more = "; ..." if len(found) > _SHOWN else ""
        missing = provenance.not_installed(json.loads(stored).get("distributions", ()))
        raise StoreMismatchError(
            f"{where} holds process {process_id!r} with another signature: "
            f"{'; '.join(found[:_SHOWN])}{more}; "
            f"{_installing(missing)}"
            "go back to the stored configuration, or use another process id or another store"
        )


def _installing(missing: Iterable[str]) -> str:
    return "".join(
        f"it was made with {name}, which is not installed: `pip install {name}`; " for name in missing
    )


def _differences(stored: object, asked: object, path: str = "") -> Iterator[str]:
    """Yields descriptions of where two JSON values differ, depth first and in key order."""
    if isinstance(stored, dict) and isinstance(asked, dict):
        for key in sorted(stored.keys() | asked.keys()):
            yield from _differences(
                stored.get(key, _MISSING), asked.get(key, _MISSING), f"{path}.{key}" if path else key
            )
    elif isinstance(stored, list) and isinstance(asked, list) and len(stored) == len(asked):
        for position, (old, new) in enumerate(zip(stored, asked, strict=True)):
            yield from _differences(old, new, f"{path}[{position}]")
    elif stored != asked:
        old, new = _excerpts(_text(stored), _text(asked))
        yield f"{path or 'the signature'} is {old} in the store and {new} here"


_MISSING = object()


def _text(value: object) -> str:
    return "absent" if value is _MISSING else json.dumps(value)


def _excerpts(*texts: str) -> Iterator[str]:
    """Yields the texts. Long ones are cut to where they begin to differ."""
    same = sum(1 for _ in itertools.takewhile(lambda chars: len(set(chars)) == 1, zip(*texts, strict=False)))
    begin = max(0, same - _CONTEXT)
    end = begin + _WIDTH
    for text in texts:
        if len(text) <= _WIDTH:
            yield text
        else:
            yield f"{'...' if begin else ''}{text[begin:end]}{'...' if end < len(text) else ''}"
