"""`tidings tracking`: maintains tracking records on disk."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.json_text import found_json
from tidings.errors import UsageError
from tidings.model.tables import HISTORIES
from tidings.segments.compaction import Compacted, compact_segments
from tidings.segments.history_store import LOCK
from tidings.segments.reader import segments


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Maintain the tracking records of brokers.")
    group.callback()(_group)
    group.command("compact")(compact)
    app.add_typer(group, name="tracking")


def _group() -> None: ...


def compact(
    folder: Annotated[Path, typer.Argument(help="The folder of the broker's records: data/tracking.")],
    capacity: Annotated[
        int, typer.Option(min=0, help="n, as in [tracking]: ids per filter; 0: as many as full filters have.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Merge partly full filters and small segments; answers stay the same. The broker must not be running.

    Example: tidings tracking compact tidings-data/tracking
    """
    if not folder.is_dir():
        raise UsageError("E_FOLDER", f"{folder} is not a directory")
    if not (folder / LOCK).exists() and not any(segments(folder, HISTORIES)):  # no broker was ever here
        raise UsageError("E_FOLDER", f"{folder} has no tracking records; a broker keeps them in data/tracking")
    done = compact_segments(folder, capacity)
    if as_json:
        typer.echo(found_json(asdict(done)))
    else:
        Console().print(_table(done))


def _table(done: Compacted) -> Table:
    table = Table("", "before", "after")
    for what in ("segments", "filters", "bytes"):
        table.add_row(what, *(f"{getattr(done, f'{what}_{when}'):,}" for when in ("before", "after")))
    return table
