"""Lifts the nesting limit of protobuf, which about 13 nested aggregators reach.

TFF holds computations as protocol buffers, and both what an aggregator does and the type of its state lie one
within the other. From the 100th nested message on, protobuf refuses (`DecodeError: Error parsing message`);
TFF trips over that while a process is being built, where no execution context can help. The limit protects
parsers of foreign bytes; the messages here are the program's own.
"""

from __future__ import annotations

from google.protobuf.internal import api_implementation

__all__ = ["allow_deep_messages"]


def allow_deep_messages() -> None:
    """Lifts the limit in this process, where protobuf runs on C (`upb`); its pure Python form has none."""
    if api_implementation.Type() == "upb":
        from google._upb import _message

        _message.SetAllowOversizeProtos(True)
