"""`tidings user`: edits the users file, which a running broker reloads on SIGHUP; shows access rules and quotas."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidings.broker.config import load as config
from tidings.broker.security import users
from tidings.cli.connecting import ask
from tidings.cli.json_text import found_json
from tidings.cli.queue.management import Json, ManagementAccess, manages
from tidings.errors import UsageError

group = typer.Typer(no_args_is_help=True, help="Add, remove and list users, and change passwords.")
Name = Annotated[str, typer.Argument(help="The user's name.")]
File = Annotated[Path | None, typer.Option("--file", help="The users file; otherwise the configured one.")]
Config = Annotated[Path | None, typer.Option("--config", help="The broker's configuration file.")]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="user")


def _place(file: Path | None, configuration: Path | None) -> Path:
    return file or config.load_users_file(configuration)


def _load(path: Path) -> users.Users:
    return users.load(path) if path.exists() else users.Users({})


@group.command()
def add(
    name: Name,
    member: Annotated[list[str] | None, typer.Option("--group", help="A group the user belongs to.")] = None,
    no_password: Annotated[bool, typer.Option("--no-password", help="Logs in by certificate only.")] = False,
    file: File = None,
    config: Config = None,
) -> None:
    """Add a user; the password is asked for, or read from the input.

    Example: tidings user add alice --group traders --config broker.toml
    """
    path = _place(file, config)
    known = _load(path)
    if known.get(name) is not None:
        raise UsageError("E_USER_EXISTS", f"there is a user {name} already; see `tidings user passwd`")
    users.check_name(name)
    password = None if no_password else _new_password()
    users.edit(path, lambda now: users.add(now, name, password, frozenset(member or ())))
    typer.echo(f"added {name} to {path}")


@group.command()
def passwd(name: Name, file: File = None, config: Config = None) -> None:
    """Change a user's password; it is asked for, or read from the input.

    Example: tidings user passwd alice < secret.txt
    """
    path = _place(file, config)
    users.known(_load(path), name)
    password = _new_password()
    users.edit(path, lambda now: users.change_password(now, name, password))
    typer.echo(f"changed the password of {name}")


@group.command()
def groups(
    name: Name,
    member: Annotated[
        list[str] | None, typer.Option("--group", help="A group; without any, the user has none.")
    ] = None,
    file: File = None,
    config: Config = None,
) -> None:
    """Replace the groups of a user.

    Example: tidings user groups alice --group traders --group operators
    """
    path = _place(file, config)
    users.known(_load(path), name)
    users.edit(path, lambda now: users.change_groups(now, name, frozenset(member or ())))
    typer.echo(f"{name} is in {', '.join(sorted(member)) if member else 'no group'}")


@group.command()
def remove(name: Name, file: File = None, config: Config = None) -> None:
    """Remove a user. Durable subscriptions stay: see `tidings durable`.

    Example: tidings user remove alice
    """
    path = _place(file, config)
    users.known(_load(path), name)
    users.edit(path, lambda now: now.without(name))
    typer.echo(f"removed {name} from {path}")
    typer.echo(
        f"durable subscriptions of {name} continue to collect messages; see: tidings durable list --of {name}", err=True
    )


@group.command("list")
def list_users(file: File = None, config: Config = None) -> None:
    """List users and their groups.

    Example: tidings user list
    """
    for name, user in sorted(_load(_place(file, config)).by_name.items()):
        kind = "" if user.password else " (certificate only)"
        typer.echo(f"{name}{kind} {' '.join(sorted(user.groups))}".rstrip())


@group.command()
@manages
def access(json: Json = False, *, access: ManagementAccess) -> None:
    """Show the access rules of a running broker, in order: the first that matches decides.

    Example: tidings user access --user monitor --password-file secret
    """
    found = list(access.open().all("access"))
    if json:
        typer.echo(found_json(found))
        return
    for one in found:
        who = f"group {one['group']}" if one["group"] else one["user"]
        where = f" where {one['selector']}" if one["selector"] else ""
        operations = ", ".join(one["operations"])
        typer.echo(
            f"{one['number']}. {who} {'may' if one['allow'] else 'may not'} {operations} {one['destination']}{where}"
        )


@group.command()
@manages
def quotas(json: Json = False, *, access: ManagementAccess) -> None:
    """Show the quotas of users and what they use. Needs the right to monitor or manage all topics.

    Example: tidings user quotas --user monitor --password-file secret
    """
    found = list(access.open().all("quotas"))
    if json:
        typer.echo(found_json(found))
        return
    for one in found:
        quota = one["quota"]
        used = [
            f"{one[name]} of {quota[name]} {name.replace('_', ' ')}"
            for name in ("connections", "queues", "stored_bytes")
            if quota[name]
        ]
        rates = [
            f"{one[name]} {name} at {quota[f'{name}_per_second']:g}/s at most"
            for name in ("messages", "bytes")
            if quota[f"{name}_per_second"]
        ]
        waits = [f"waited {one['waits']} times"] if one["waits"] else []
        typer.echo(f"{one['user']}: {', '.join(used + rates + waits)}")


def _new_password() -> str:
    password = ask("New password: ")
    if sys.stdin.isatty() and ask("Repeat password: ") != password:
        raise UsageError("E_PASSWORD", "the two passwords differ")
    if not password:
        raise UsageError("E_PASSWORD", "the password is empty; give at least one character")
    return password
