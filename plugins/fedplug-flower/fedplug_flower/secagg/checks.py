"""Checks of the untrusted replies to the stages of SecAgg+, which flwr reads without any.

A server finds some faults without the secrets of the clients. docs/flower.md lists the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations, islice
from typing import TypeVar

from flwr.app import Message
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import WorkflowState
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    bytes_to_public_key,
    generate_key_pairs,
    public_key_to_bytes,
)

__all__ = ["PublicKeys", "check_ciphertexts", "check_shares", "leave_out_wrong_shares"]

T = TypeVar("T")

_SEED_BYTES = 32
_MOST_TRIALS = 300


class PublicKeys:
    """Checks the replies to the setup stage: two keys of the right curve that no other node has sent."""

    def __init__(self) -> None:
        """Makes a key to try others with."""
        self._private_key, _ = generate_key_pairs()
        self._seen: set[bytes] = set()

    def check(self, reply: Message) -> None:
        """Raises ValueError if other clients would fail with these keys."""
        keys = [_field(reply, key, bytes) for key in (Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2)]
        for key in keys:
            generate_shared_key(self._private_key, bytes_to_public_key(key))
        if len(self._seen.union(keys)) != len(self._seen) + 2:
            raise ValueError("its public keys are not its own")
        self._seen.update(keys)


def check_ciphertexts(reply: Message, state: WorkflowState) -> None:
    """Raises ValueError unless a reply to the share stage has one ciphertext for each neighbour."""
    node = reply.metadata.src_node_id
    _pairs(reply, Key.DESTINATION_LIST, Key.CIPHERTEXT_LIST, state.nid_to_neighbours[node] - {node})


def check_shares(reply: Message, state: WorkflowState) -> None:
    """Raises ValueError unless a reply to the unmask stage has a possible share of each neighbour."""
    for share in _shares_of(reply, state).values():
        place = int.from_bytes(share[:4], "little")
        if len(share) < 20 or len(share) % 16 != 4 or not 0 < place <= state.num_shares:
            raise ValueError("it has a share that is none")


def leave_out_wrong_shares(replies: Sequence[Message], state: WorkflowState) -> set[int]:
    """Leaves as many shares of each secret in the replies to the unmask stage as give it.

    Args:
        replies: Replies that `check_shares` accepts.
        state: The state before the stage.

    Returns:
        The nodes whose shares do not fit those of others.

    Raises:
        ValueError: A secret is not found without some of its shares. The message names its node.
    """
    shares = {reply.metadata.src_node_id: _shares_of(reply, state) for reply in replies}
    kept: dict[int, dict[int, bytes]] = {node: {} for node in shares}
    liars: set[int] = set()
    for owner in sorted(state.sampled_node_ids):
        for node in _holders(shares, owner, liars, state):
            kept[node][owner] = shares[node][owner]
    for reply in replies:
        mine = kept[reply.metadata.src_node_id]
        configs = reply.content.config_records[RECORD_KEY_CONFIGS]
        configs[Key.NODE_ID_LIST], configs[Key.SHARE_LIST] = list(mine), list(mine.values())
    return liars


def _holders(
    shares: Mapping[int, Mapping[int, bytes]], owner: int, liars: set[int], state: WorkflowState
) -> list[int]:
    """Returns nodes whose shares give a secret. Adds those that had to be left out to ``liars``."""
    nodes = sorted(node for node, mine in shares.items() if owner in mine and node not in liars)
    spare = len(nodes) - state.threshold
    if spare < 0:
        raise ValueError(f"there are too few shares of the secret of node {owner}")
    subsets = chain.from_iterable(combinations(nodes, size) for size in range(spare + 1))
    for wrong in islice(subsets, _MOST_TRIALS):
        chosen = [node for node in nodes if node not in wrong][: state.threshold]
        if _is_secret([shares[node][owner] for node in chosen], owner, state):
            liars.update(wrong)
            return chosen
    raise ValueError(f"the shares of the secret of node {owner} do not fit each other")


def _is_secret(shares: list[bytes], owner: int, state: WorkflowState) -> bool:
    """Returns whether shares give the secret of a node: a padded seed, or the key to its public key."""
    try:
        secret = combine_shares(shares)
        if owner in state.active_node_ids:
            return len(secret) == _SEED_BYTES
        public_key = public_key_to_bytes(bytes_to_private_key(secret).public_key())
    except Exception:  # of any library: the bytes are untrusted
        return False
    return public_key == state.nid_to_publickeys[owner][0]


def _shares_of(reply: Message, state: WorkflowState) -> dict[int, bytes]:
    """Returns the shares in a reply to the unmask stage, by the node whose secret they are of."""
    neighbours = state.nid_to_neighbours[reply.metadata.src_node_id]
    return _pairs(reply, Key.NODE_ID_LIST, Key.SHARE_LIST, neighbours)


def _pairs(reply: Message, of_nodes: str, of_bytes: str, expected: set[int]) -> dict[int, bytes]:
    """Returns two lists of a reply as a dictionary, which must have the expected nodes."""
    nodes, found = _field(reply, of_nodes, list), _field(reply, of_bytes, list)
    if not all(type(node) is int for node in nodes) or sorted(nodes) != sorted(expected):
        raise ValueError(f"it is for nodes {nodes!r:.200}, and should be for {sorted(expected)}")
    if len(found) != len(nodes) or not all(type(part) is bytes for part in found):
        raise ValueError(f"it has no bytes for each of {len(nodes)} nodes")
    return dict(zip(nodes, found, strict=True))


def _field(reply: Message, key: str, kind: type[T]) -> T:
    value = reply.content.config_records[RECORD_KEY_CONFIGS].get(key)
    if type(value) is not kind:
        raise ValueError(f"its {key!r} is {value!r:.200}, and should be {kind.__name__}")
    return value
