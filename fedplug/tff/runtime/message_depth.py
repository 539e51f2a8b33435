"""Lifts the nesting limit of protobuf, which about 13 nested aggregators reach.

TFF stores computations as protocol buffers. Nested aggregators nest both their computations and the types of
their states. protobuf refuses the 100th nested message (`DecodeError: Error parsing message`), already while
TFF builds a process. The limit protects parsers of untrusted bytes. These messages come from the program.
"""

from __future__ import annotations

from google.protobuf.internal import api_implementation

__all__ = ["allow_deep_messages"]


def allow_deep_messages() -> None:
    """Lifts the limit in this process if protobuf runs on C (`upb`). Its pure Python form has no limit."""
    if api_implementation.Type() == "upb":
        from google._upb import _message

        _message.SetAllowOversizeProtos(True)
