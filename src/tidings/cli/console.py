"""`tidings console`: watch brokers in a browser."""

from typing import Annotated

import typer

from tidings.cli.connecting import (
    DEFAULT_URL,
    PasswordFile,
    TlsCa,
    TlsCertificate,
    TlsKey,
    User,
    ask,
    first_line,
    tls_context,
)
from tidings.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command()(console)


def console(
    urls: Annotated[list[str] | None, typer.Argument(help="The brokers to watch.", metavar="[URL]...")] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: the system chooses.")] = 8700,
    user: User = "",
    password_file: PasswordFile = None,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Show brokers in a browser: map, rates, queues, subscriptions, traces, capacity.

    Who opens it logs in with a user of the brokers, if they have users. With --user nobody has to: everybody who
    reaches the console then acts as that user, so this is only for a console on loopback.

    Example: tidings console tidings://127.0.0.1:7300 tidings://127.0.0.1:7310
    """
    try:
        from tidings.console.app import LOOPBACK, Options, serve
        from tidings.console.source import Login
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tidings"):
            raise
        reason = f"the console needs {error.name}: pip install 'tidings[console]'"
        raise UsageError("E_CONSOLE_MISSING", reason) from None
    if user and host not in LOOPBACK:
        raise UsageError("E_CONSOLE_OPEN", f"with --user the console listens on loopback only, not on {host}")
    password = first_line(password_file) if password_file is not None else ""
    if user and not password and tls_certificate is None:
        password = ask("Password: ")
    encrypted = tls_ca or tls_certificate or tls_key
    login = Login(user, password, tls_context(tls_ca, tls_certificate, tls_key) if encrypted else None)

    def ready(found: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"console on http://{shown}:{found}/")

    serve(Options(tuple(urls or [DEFAULT_URL]), host, port, login), ready)
