"""The options by which every client command connects, and how passwords are asked for."""

import asyncio
import ssl
import sys
from collections.abc import Coroutine
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop

from tidings.client import Client, connect
from tidings.errors import UsageError

T = TypeVar("T")
Url = Annotated[str, typer.Option(envvar="TIDINGS_URL", help="The broker; tidings+tls://… with TLS.")]
User = Annotated[str, typer.Option(envvar="TIDINGS_USER", help="The user to log in as.")]
PasswordFile = Annotated[
    Path | None, typer.Option(envvar="TIDINGS_PASSWORD_FILE", help="A file whose first line is the password.")
]
TlsCa = Annotated[Path | None, typer.Option(help="Who signs the broker's certificate (PEM), if not a public one.")]
TlsCertificate = Annotated[Path | None, typer.Option(help="A certificate to log in with (PEM).")]
TlsKey = Annotated[Path | None, typer.Option(help="Its private key, if it is not in the same file.")]
DEFAULT_URL = "tidings://127.0.0.1:7300"


def client(
    url: str,
    user: str,
    password_file: Path | None,
    tls_ca: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    **options: Any,
) -> Client:
    password = first_line(password_file) if password_file is not None else ""
    if user and not password and not tls_certificate:
        password = ask("Password: ")
    tls = tls_context(tls_ca, tls_certificate, tls_key) if url.startswith("tidings+tls:") else None
    if tls is None and (tls_ca or tls_certificate or tls_key):
        raise UsageError("E_URL", "TLS options need an address that begins with tidings+tls://")
    return connect(url, user=user, password=password, tls=tls, **options)


def tls_context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        named = ", ".join(str(path) for path in (ca, certificate, key) if path is not None)
        raise UsageError("E_TLS", f"cannot use {named}: {error.strerror or error}") from None
    return context


def first_line(path: Path) -> str:
    try:
        return path.read_text().split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("E_PASSWORD_FILE", f"cannot read the password from {path}: {error}") from None


def ask(prompt: str) -> str:
    """A password from the terminal, or the next line of the input; never an argument, which others can see."""
    return getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
