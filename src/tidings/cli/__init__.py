"""The command line. Thin: one command, one function call; one module for each command or group of them.

A module in `COMMANDS` has a function `register(app)`. Errors of ours become one line; exit status 0 done, 1 failed,
2 used wrongly.
"""

import sys
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from tidings.cli.failures import report

COMMANDS = ("broker", "demo", "pub", "sub", "user")

app = typer.Typer(
    name="tidings",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A content-based publish/subscribe broker network you can reason about.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidings {version_of('tidings')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


for _name in COMMANDS:
    import_module(f"tidings.cli.{_name}").register(app)


def main() -> None:
    try:
        app(prog_name="tidings")
    except Exception as error:  # noqa: BLE001  (what is not ours is raised again)
        sys.exit(report(error))
