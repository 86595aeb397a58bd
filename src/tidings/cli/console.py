"""`tidings console`: watch brokers in a browser."""

import socket
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tidings.broker import logs
from tidings.cli import connecting
from tidings.client import connect
from tidings.client.broker_url import parse_url, without_login
from tidings.errors import SecurityError, TidingsError, UsageError
from tidings.extras import require

FIRST_PORT = 8700


def register(app: typer.Typer) -> None:
    app.command()(console)


@connecting.connects(leave_out=("url",))
def console(
    urls: Annotated[list[str] | None, typer.Argument(help="The brokers to watch.", metavar="URL")] = None,
    net: Annotated[
        Path | None, typer.Option(help="All brokers of a network that `tidings net` runs, by its folder: out/net.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; 0: chosen by the system. Default: 8700, or the next free one."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name under which it is reached, such as that of a reverse proxy.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(help="A certificate of the console (PEM), to use HTTPS. SIGHUP reloads it."),
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key, if it is not in the same file.")] = None,
    allow_anonymous: Annotated[
        bool,
        typer.Option(
            "--allow-anonymous", help="Allow addresses other than loopback although the brokers have no users."
        ),
    ] = False,
    metrics: Annotated[str, typer.Option(hidden=True)] = "",
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
    listening: Annotated[list[int] | None, typer.Option(hidden=True)] = None,
    *,
    access: connecting.ClientAccess,
) -> None:
    """Show brokers in a browser: map, rates, queues, subscriptions, traces, capacity.

    Visitors log in as users of the brokers, if these have users. With --user no login is needed: everyone that
    reaches the console then acts as that user, so this is for a console on loopback only.

    Example: tidings console tidings://127.0.0.1:7300 tidings://127.0.0.1:7310
    """
    if with_parent:
        logs.set_up_for_parent()
    require("nicegui", extra="console")
    from tidings.console.app import LOOPBACK, ConsoleOptions, serve  # loads NiceGUI
    from tidings.console.certificate import Certificate
    from tidings.console.source import BrokerLogin

    brokers = _checked_urls(urls or [], net)
    _check_key(certificate, key)
    if host not in LOOPBACK and not allow_anonymous:
        _check_exposure(brokers, host, access.user)
    options = ConsoleOptions(
        tuple(brokers),
        host,
        _port(host) if port is None else port,
        tuple(name or ()),
        BrokerLogin(access.user, access.password(), access.tls()),
        metrics,
        with_parent,
        None if certificate is None else Certificate(str(certificate), str(key or "")),
        tuple(listening or ()),
    )
    serve(options, partial(_show_address, host, tls=certificate is not None))


def _check_key(certificate: Path | None, key: Path | None) -> None:
    if key is not None and certificate is None:
        raise UsageError("E_TLS", "a key without a certificate; give --certificate")


def _show_address(host: str, port: int, *, tls: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"console on {'https' if tls else 'http'}://{shown}:{port}/")


def _checked_urls(urls: list[str], folder: Path | None) -> list[str]:
    """The brokers to watch: named ones and those of a local network; without any, the default."""
    brokers = [*urls, *(() if folder is None else _urls(folder))] or [connecting.DEFAULT_URL]
    for url in brokers:
        parse_url(url)  # refuses malformed addresses
    return brokers


def _urls(folder: Path) -> list[str]:
    from tidings.localnet.network import LocalNetwork  # not needed otherwise

    return [member.url() for member in LocalNetwork.load(folder).members.values()]


def _check_exposure(urls: list[str], host: str, user: str) -> None:
    """Refuse to expose brokers without users to other machines."""
    remedy = "configure users on the brokers, or give --allow-anonymous"
    if user:
        raise UsageError("E_CONSOLE_OPEN", f"with --user the console listens on loopback only, not on {host}")
    for url in urls:
        shown = without_login(url)
        try:
            connecting.run(_enter(url))
        except SecurityError:
            continue  # it has users
        except (OSError, TidingsError) as error:
            raise UsageError("E_CONSOLE_OPEN", f"cannot determine if {shown} has users ({error}); {remedy}") from None
        raise UsageError("E_CONSOLE_OPEN", f"everyone that reaches {host} would have full access to {shown}; {remedy}")


async def _enter(url: str) -> None:
    async with connect(url, reconnect=False):
        pass


def _port(host: str) -> int:
    """8700 is where a broker has its metrics: beside one, the console takes the next."""
    for port in range(FIRST_PORT, FIRST_PORT + 10):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise UsageError("E_LISTEN", f"ports {FIRST_PORT} to {FIRST_PORT + 9} are in use; choose one with --port")
