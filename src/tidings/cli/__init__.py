"""The command line. Thin: one command, one function call; one module for each command or group of them.

A module in `COMMANDS` has a function `register(app)`; only the module of the command that is used is loaded. The list
of all commands is written from the summaries here. Errors of ours become one line; exit status 0 done, 1 failed, 2 used
wrongly, 130 interrupted.

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
COMMANDS = {  # each with the first sentence of its help
    "broker": "Run a broker until SIGTERM; SIGHUP reloads configuration, users and certificates.",
    "console": "Show brokers in a browser: map, rates, queues, subscriptions, traces, capacity.",
    "demo": "Two minutes with a network of brokers: market data, a trace, a failure, a prediction, Spark, a report.",
    "durable": "Show and remove durable subscriptions, whosever they are.",
    "lab": "Measure servers, fit models, report.",
    "net": "A whole network of brokers on this machine, from one topology file.",
    "pipeline": "Tables, traces, models and figures from segments, on Spark.",
    "plan": "What settings does a wish need?",
    "pub": "Publish messages.",
    "sim": "Networks of brokers in virtual time: the same machines, no sockets.",
    "sub": "Write messages as they arrive.",
    "trace": "Which brokers a message passed and who got it.",
    "tracking": "Look after what brokers have recorded.",
    "type": "Add, remove and show event types.",
    "user": "Add, remove and list users, and change passwords.",
}


def make_app(commands: Iterable[str] = tuple(COMMANDS)) -> "typer.Typer":
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
    try:
        import_module("tidings.cli.app").run([name for name in first if name in COMMANDS])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
