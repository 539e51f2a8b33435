"""The sentence in all packages for a round that accepted no update."""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["no_update"]

_MOST_REASONS = 5


def no_update(refused: Iterable[tuple[str, str]], otherwise: str, others: Collection[str] = ()) -> str:
    """Says in one line why a round accepted no update.

    Args:
        refused: Clients without an accepted update, and the reason of each. Clients may share one.
        otherwise: The reason if there is no other one.
        others: Reasons that concern no client.
    """
    clients: dict[str, list[str]] = {}
    for client, reason in refused:
        clients.setdefault(reason, []).append(client)
    reasons = [*others] + [
        f"{f'{first} and {len(more)} more' if more else first}: {reason}"
        for reason, (first, *more) in clients.items()
    ]
    if len(reasons) > _MOST_REASONS:
        reasons[_MOST_REASONS:] = [f"and {len(reasons) - _MOST_REASONS} more"]
    return f"no update was accepted, so the model stays as it is: {'; '.join(reasons) or otherwise}"
