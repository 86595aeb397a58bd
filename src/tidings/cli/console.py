"""`tidings console`: watch brokers in a browser."""

import socket
from pathlib import Path
from typing import Annotated

import typer

from tidings.broker import logs
from tidings.cli import connecting
from tidings.client import connect
from tidings.client.options import parse_url, without_login
from tidings.errors import SecurityError, TidingsError, UsageError

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
        typer.Option(min=0, max=65535, help="The port; 0: the system chooses. Left out: 8700, or the next free one."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name under which it is called, such as that of a proxy before it.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(help="The console's own certificate (PEM): it is then https. SIGHUP reads it again."),
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key, if it is not in the same file.")] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="On other addresses than loopback too, without users.")
    ] = False,
    metrics: Annotated[str, typer.Option(hidden=True)] = "",
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
    listening: Annotated[list[int] | None, typer.Option(hidden=True)] = None,
    *,
    access: connecting.ClientAccess,
) -> None:
    """Show brokers in a browser: map, rates, queues, subscriptions, traces, capacity.

    Who opens it logs in with a user of the brokers, if they have users. With --user nobody has to: everybody who
    reaches the console then acts as that user, so this is only for a console on loopback.

    Example: tidings console tidings://127.0.0.1:7300 tidings://127.0.0.1:7310
    """
    if with_parent:
        logs.set_up_for_parent()
    try:
        from tidings.console.app import LOOPBACK, ConsoleOptions, serve
        from tidings.console.certificate import Certificate
        from tidings.console.source import BrokerLogin
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tidings"):
            raise
        reason = f"the console needs {error.name}: pip install 'tidings[console]'"
        raise UsageError("E_CONSOLE_MISSING", reason) from None
    named = [*(urls or []), *(() if net is None else _urls(net))] or [connecting.DEFAULT_URL]
    if key is not None and certificate is None:
        raise UsageError("E_TLS", "a key without a certificate; give --certificate too")
    for url in named:
        parse_url(url)  # refuses what can never be reached
    if host not in LOOPBACK and not allow_anonymous:
        _check_exposure(named, host, access.user)
    login = BrokerLogin(access.user, access.password(), access.tls())

    def ready(found: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"console on {'http' if certificate is None else 'https'}://{shown}:{found}/")

    options = ConsoleOptions(
        tuple(named),
        host,
        _port(host) if port is None else port,
        tuple(name or ()),
        login,
        metrics,
        with_parent,
        None if certificate is None else Certificate(str(certificate), str(key or "")),
        tuple(listening or ()),
    )
    serve(options, ready)


def _urls(folder: Path) -> list[str]:
    from tidings.localnet.network import LocalNetwork  # not needed otherwise

    return [member.url() for member in LocalNetwork.load(folder).members.values()]


def _check_exposure(urls: list[str], host: str, user: str) -> None:
    """Nobody's brokers become everybody's by accident."""
    remedy = "give the brokers users, or say --allow-anonymous"
    if user:
        raise UsageError("E_CONSOLE_OPEN", f"with --user the console listens on loopback only, not on {host}")
    for url in urls:
        shown = without_login(url)
        try:
            connecting.run(_enter(url))
        except SecurityError:
            continue  # it asks who comes
        except (OSError, TidingsError) as error:
            raise UsageError("E_CONSOLE_OPEN", f"cannot tell whether {shown} has users ({error}); {remedy}") from None
        raise UsageError("E_CONSOLE_OPEN", f"everybody who reaches {host} could do everything at {shown}; {remedy}")


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
    raise UsageError("E_LISTEN", f"ports {FIRST_PORT} to {FIRST_PORT + 9} are taken; choose one with --port")
