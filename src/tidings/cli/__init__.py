"""The command line. Thin: one command, one function call; one module for each command or group of them.

A module in `COMMANDS` has a function `register(app)`; only the module of the command that is used is loaded. Errors of
ours become one line; exit status 0 done, 1 failed, 2 used wrongly, 130 interrupted.

Nothing is imported here but what Python has loaded anyway: the rest takes a second, in which Ctrl-C may come.
"""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

INTERRUPTED = 130
COMMANDS = (
    "broker",
    "console",
    "demo",
    "durable",
    "lab",
    "net",
    "pipeline",
    "plan",
    "pub",
    "sim",
    "sub",
    "trace",
    "tracking",
    "type",
    "user",
)


def make_app(commands: Iterable[str] = COMMANDS) -> "typer.Typer":
    app: typer.Typer = import_module("tidings.cli.app").make_app(commands)
    return app


def _open_what_is_closed() -> None:
    """Standard input and outputs that whoever started us has closed: sockets would get their numbers otherwise."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free: this one
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> None:
    _open_what_is_closed()
    first = sys.argv[1:2]
    wanted = () if first == ["--version"] else [name for name in first if name in COMMANDS] or COMMANDS
    try:
        import_module("tidings.cli.app").run(wanted)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
