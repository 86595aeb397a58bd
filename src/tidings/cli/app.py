"""The command-line application: shared options, registration of commands, error reporting."""

import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from tidings.cli import COMMANDS
from tidings.cli.failures import report


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"tidings {version_of('tidings')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A content-based publish/subscribe broker network you can reason about."""


def make_app(commands: Iterable[str], listed: Mapping[str, str] | None = None) -> typer.Typer:
    """`listed`: commands that are only named in the help, with their summaries; their modules are not loaded."""
    app = typer.Typer(
        name="tidings",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name in commands:
        module = import_module(f"tidings.cli.{name}")
        if hasattr(module, "__path__"):  # a command of several modules
            module = import_module(f"tidings.cli.{name}.command")
        module.register(app)
    for name, summary in (listed or {}).items():
        app.command(name, help=summary)(_listed)
    return app


def _listed() -> None:
    raise AssertionError("a command that is only listed is never run")


def _never_fail_to_print() -> None:
    """Escape characters that standard output cannot encode (µ on an ASCII terminal), instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _completing() -> list[str]:
    """The command whose words a shell asks to be completed, so that only its module is loaded."""
    if "_TIDINGS_COMPLETE" not in os.environ:
        return []
    words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return [word for word in words.split()[1:2] if word in COMMANDS]


def run(commands: Sequence[str]) -> None:
    """Run the application; without a command it shows help and version, or refuses an unknown command."""
    _never_fail_to_print()
    commands = commands or _completing()
    try:
        make_app(commands, None if commands else COMMANDS)(prog_name="tidings")
    except Exception as error:  # noqa: BLE001  (`report` raises unknown errors again)
        sys.exit(report(error))
