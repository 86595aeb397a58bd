"""`tidings store`: checks, copies and backs up stores of messages."""

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.json_text import found_json
from tidings.cli.queue.management import Json, ManagementAccess, manages
from tidings.errors import UsageError
from tidings.extras import require
from tidings.store.lease import StorePlace
from tidings.store.sqlite.place import STORE, SqlitePlace
from tidings.store.transfer import StoreSummary, check_store, copy_store

group = typer.Typer(no_args_is_help=True, help="Check, copy and back up stores of messages.")
WHERE = "a broker's data directory, or postgresql://…"
Broker = Annotated[int, typer.Option(min=0, help="The broker's id, for a database: its messages are kept under it.")]
PasswordFile = Annotated[str, typer.Option(help="For a database: a file with the password.")]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="store")


def place_of(where: str, broker: int, password_file: str) -> StorePlace:
    if "://" not in where:
        return SqlitePlace(Path(where) / STORE)
    if not broker:
        raise UsageError("E_STORE_BROKER", "a database keeps messages of many brokers; give --broker")
    require("psycopg", extra="postgresql")
    from tidings.store.postgresql.options import DatabaseOptions
    from tidings.store.postgresql.place import PostgresPlace

    return PostgresPlace(DatabaseOptions(where, broker, password_file=password_file))


def _said(found: StoreSummary) -> str:
    return f"{found.mailboxes} mailboxes, {found.messages} messages that wait, {found.bytes} bytes"


@group.command()
def check(
    where: Annotated[str, typer.Argument(help=f"The store: {WHERE}.")],
    broker: Broker = 0,
    password_file: PasswordFile = "",
) -> None:
    """Read all of a store whose broker is stopped, and say what is damaged. A file stays as it is.

    Example: tidings store check /var/lib/tidings
    """
    found = check_store(place_of(where, broker, password_file))
    typer.echo(_said(found))
    for damage in found.damaged:
        typer.echo(f"damaged: {damage.reason}", err=True)
    if found.damaged:
        raise typer.Exit(1)


@group.command()
def copy(
    source: Annotated[str, typer.Argument(help=f"The store to be copied: {WHERE}.")],
    target: Annotated[str, typer.Argument(help=f"One that holds nothing: {WHERE}.")],
    broker: Broker = 0,
    password_file: PasswordFile = "",
) -> None:
    """Copy a store while its broker is stopped, and compare: counts, checksums, what it stands for.

    Example: tidings store copy /var/lib/tidings postgresql://tidings@db1,db2/tidings --broker 7
    """
    found = copy_store(place_of(source, broker, password_file), place_of(target, broker, password_file))
    typer.echo(f"copied and compared: {_said(found)}")


@group.command()
@manages
def backup(
    name: Annotated[str, typer.Argument(help="The file's name in the folder `backups` of the data directory.")],
    json: Json = False,
    *,
    access: ManagementAccess,
) -> None:
    """Let a running broker write a copy of its store to a file, while it goes on using it.

    To restore it, stop the broker, remove messages.db and its companions (messages.db-wal, messages.db.lock) from the
    data directory, and put the file there as messages.db.

    Example: tidings store backup monday.db --url http://127.0.0.1:8700
    """
    found = access.open().ask("POST", "store", "backup", body={"name": name})
    typer.echo(found_json(found) if json else f"{found['file']}: {found['bytes']} bytes")
