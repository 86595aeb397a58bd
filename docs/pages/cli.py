"""The reference of the command line, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

import typer.main

from tidings.cli import make_app


def page() -> str:
    root = typer.main.get_command(make_app())
    parts = [
        "# Command line",
        "Every command has `--help`. Exit status 0: done, 1: failed, 2: used wrongly. `TIDINGS_URL`, `TIDINGS_USER` and "
        "`TIDINGS_PASSWORD_FILE` stand for the options of clients of the same names.",
    ]
    for path, command in commands(root, ("tidings",)):
        text = helped(command, path)
        parts += [f"## {' '.join(path)}", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All that do something, with the words that lead to them."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, one in sorted(inner.items()):
        yield from commands(one, (*path, name))


def helped(command: Any, path: tuple[str, ...]) -> str:
    """What --help prints, at a width that fits a page."""
    context = command.make_context(
        " ".join(path), [], resilient_parsing=True, terminal_width=100, max_content_width=100
    )
    return str(command.get_help(context)).rstrip()
