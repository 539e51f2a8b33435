"""A parser of arguments in any order, which never ignores one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Commands", "Parser"]


class Parser(argparse.ArgumentParser):
    """Accepts options between arguments, and refuses an option with one value that is given twice.

    Parsers of its commands are of this class, too.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_nested = False
        self.given: set[str] = set()
        for name in (None, "store"):
            self.register("action", name, _StoreOnce)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses options first, and then the arguments between them."""
        nested = (argparse.PARSER, argparse.REMAINDER)
        if self._is_nested or any(action.nargs in nested for action in self._get_positional_actions()):
            return super().parse_known_args(args, namespace)
        self._is_nested = True  # before Python 3.12.4 the call below calls this method
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_nested = False


class _StoreOnce(argparse._StoreAction):
    """Stores the value of an option. Argparse itself would take the last of several."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        if option_string is not None and isinstance(parser, Parser):
            if self.dest in parser.given:
                raise argparse.ArgumentError(self, "it has one value, and is given twice")
            parser.given.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


class Commands:
    """Where commands add their parsers, each with the options of all commands."""

    def __init__(self, parser: Parser, common: Parser) -> None:
        """Takes the parser of the commands, and that of the options of all commands."""
        self._actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
        self._common = common

    def add(self, name: str, help: str, command: Callable[[argparse.Namespace], int] | None = None) -> Parser:
        """Returns the parser of a new command, which runs ``command``."""
        parser = self._actions.add_parser(name, help=help, parents=[self._common])
        parser.set_defaults(command=command)
        return parser

    def group(self, name: str, help: str) -> Commands:
        """Returns a place for the commands of a new group."""
        return Commands(self.add(name, help), self._common)
