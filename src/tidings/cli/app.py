"""The commands together: what they share, and what becomes of their errors."""

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from tidings.cli import COMMANDS
from tidings.cli.failures import report


def _show_version(wanted: bool) -> None:
    if wanted:
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
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name in commands:
        import_module(f"tidings.cli.{name}").register(app)
    for name, summary in (listed or {}).items():
        app.command(name, help=summary)(_listed)
    return app


def _listed() -> None:
    raise AssertionError("a command that is only listed is never run")


def _never_fail_to_print() -> None:
    """What standard output cannot encode (a terminal of ASCII, µ in a table) is shown escaped, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def run(commands: Sequence[str]) -> None:
    """Without a command: show help and version, or refuse what is no command."""
    _never_fail_to_print()
    try:
        make_app(commands, None if commands else COMMANDS)(prog_name="tidings")
    except Exception as error:  # noqa: BLE001  (what is not ours is raised again)
        sys.exit(report(error))
