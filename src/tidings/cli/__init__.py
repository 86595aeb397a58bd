"""The command line. Thin: one command, one function call; one module for each command or group of them."""

from importlib import import_module

import typer

COMMANDS = ("demo", "experiment_pruning")

app = typer.Typer(name="tidings", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _options() -> None:
    """A content-based publish/subscribe broker network you can reason about."""


for _name in COMMANDS:
    import_module(f"tidings.cli.{_name}").register(app)


def main() -> None:
    app()
