"""The command line: parses arguments, runs one command, and turns errors into one line and an exit code.

Importing it must cost no more than argparse. Each command imports its needs in its own body.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from fedplug.cli import bench, diff, doctor, examples, plugins, run, store, terminal
from fedplug.cli.arguments import Commands, Parser
from fedplug.errors import FedplugError, MissingDependencyError, missing_dependency

__all__ = ["main"]

EXIT_OK = 0
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code.

    0: success. 1: `doctor`, `plugins check` or `store verify` found a failure. 2: an error,
    one line on standard error (a traceback with ``--debug``). 130: interrupted. 141: the reader of the output
    closed it.
    """
    terminal.prepare()
    try:
        return _run(_parser().parse_args(argv, _defaults()))
    finally:
        terminal.finish()


def _defaults() -> argparse.Namespace:
    # `plugins check` runs itself again, in another process.
    return argparse.Namespace(debug=False, interrupted="interrupted", run_command=_run)


def _run(arguments: argparse.Namespace) -> int:
    # TensorFlow 2.14 reports harmless start-up notices as errors (level 2). Python exceptions stay.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        code: int = arguments.command(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"fedplug: {arguments.interrupted}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # as in `fedplug plugins list | head -1`
        terminal.discard_output()
        return EXIT_BROKEN_PIPE
    except (FedplugError, OSError) as error:
        if arguments.debug:
            raise
        if isinstance(error, OSError) and error.filename is not None:
            return _error(f"{error.filename}: {error.strerror}")
        return _error(error)
    except ModuleNotFoundError as error:  # from an example or a plugin; fedplug raises its own error
        module = missing_dependency(error)
        if arguments.debug or module is None:
            raise
        return _error(MissingDependencyError("this command", module))
    return code


def _error(reason: object) -> int:
    print(f"fedplug: error: {terminal.printable(' '.join(str(reason).split()))}", file=sys.stderr)
    return EXIT_ERROR


def _parser() -> argparse.ArgumentParser:
    common = Parser(add_help=False)
    # The flag may precede or follow the command; a default here would overwrite an earlier value.
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show a traceback for errors"
    )
    parser = Parser(prog="fedplug", description="Compresses federated-learning updates.", parents=[common])
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = Commands(parser, common)
    for command in (run, examples, plugins, store, diff, bench, doctor):
        command.add_parser(commands)
    return parser


class _Version(argparse.Action):
    """Looks up the version on demand, unlike argparse's own action."""

    def __call__(self, parser: argparse.ArgumentParser, *unused: object) -> None:
        from fedplug.registry.entry_points import own_version

        print(f"fedplug {own_version()}")
        parser.exit(EXIT_OK)
