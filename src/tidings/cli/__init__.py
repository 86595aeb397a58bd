"""The command line: one module, or one package with a module `command`, for each command or group of commands.

The module of a command in `COMMANDS` has a function `register(app)`; only that of the command in use is loaded. The
list of all commands is written from the summaries here. Errors become one line; exit status 0 done, 1 failed, 2 used
wrongly, 130 interrupted.

Only modules that Python has loaded anyway are imported here: the rest takes a second, in which Ctrl-C may come.
"""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

INTERRUPTED = 130
REQUIRED = ("h11", "numpy", "rich", "typer", "uvloop", "websockets")  # a client alone needs none of them
COMMANDS = {  # each with the first sentence of its help
    "broker": "Run a broker until SIGTERM; SIGHUP reloads configuration, users and certificates.",
    "connection": "List and close client connections.",
    "console": "Show brokers in a browser: map, rates, queues, subscriptions, traces, capacity.",
    "demo": "Two minutes with a network of brokers: market data, a trace, a failure, a prediction, Spark, a report.",
    "durable": "List and remove durable subscriptions of all users.",
    "lab": "Measure servers, fit models, report.",
    "net": "Run a network of brokers on this machine, from one topology file.",
    "pipeline": "Compute tables, traces, models and figures from segments with Spark.",
    "plan": "Compute settings from requirements.",
    "pub": "Publish messages.",
    "queue": "List, create, browse, purge, move and delete queues.",
    "sim": "Simulate networks of brokers in virtual time.",
    "status": "Show the state of a broker.",
    "store": "Check, copy and back up stores of messages.",
    "sub": "Print messages as they arrive.",
    "trace": "Show the brokers that a message passed and its receivers.",
    "tracking": "Maintain the tracking records of brokers.",
    "type": "Add, remove and show event types.",
    "user": "Add, remove and list users, and change passwords.",
}


def make_app(commands: Iterable[str] = tuple(COMMANDS)) -> "typer.Typer":
    app: typer.Typer = import_module("tidings.cli.app").make_app(commands)
    return app


def _open_what_is_closed() -> None:
    """Open closed standard streams on /dev/null: otherwise sockets would get their numbers."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number: this one
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> None:
    _open_what_is_closed()
    first = sys.argv[1:2]
    try:
        import_module("tidings.cli.app").run([name for name in first if name in COMMANDS])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        if error.name not in REQUIRED:
            raise
        sys.exit(
            f"tidings: {error.name} is not installed; install what commands and brokers need with: pip install tidings"
        )
