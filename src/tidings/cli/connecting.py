"""The options by which every client command connects, and how passwords are asked for."""

import asyncio
import inspect
import ssl
import sys
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, fields
from functools import wraps
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop

from tidings.client import Client, connect
from tidings.errors import UsageError

T = TypeVar("T")
DEFAULT_URL = "tidings://127.0.0.1:7300"


def named(destination: str) -> str:
    """The destination from the command line; a UsageError if it is empty."""
    if not destination:
        raise UsageError("E_DESTINATION_EMPTY", "no destination; give a topic, queue:NAME, or --type TYPE")
    return destination


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """Address of the broker and credentials. The fields are options of every command that `connects`."""

    url: Annotated[str, typer.Option(envvar="TIDINGS_URL", help="The broker; tidings+tls://… with TLS.")] = DEFAULT_URL
    user: Annotated[str, typer.Option(envvar="TIDINGS_USER", help="The user to log in as.")] = ""
    password_file: Annotated[
        Path | None, typer.Option(envvar="TIDINGS_PASSWORD_FILE", help="A file whose first line is the password.")
    ] = None
    tls_ca: Annotated[
        Path | None, typer.Option(help="The CA of the broker's certificate (PEM), if not a public one.")
    ] = None
    tls_certificate: Annotated[Path | None, typer.Option(help="A certificate to log in with (PEM).")] = None
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, if it is not in the same file.")] = None

    @property
    def asks(self) -> bool:
        """True if the password must be read from the terminal or the input."""
        return bool(self.user) and self.password_file is None and self.tls_certificate is None

    def password(self) -> str:
        if self.asks:
            return ask("Password: ")
        return first_line(self.password_file) if self.password_file is not None else ""

    def tls(self) -> ssl.SSLContext | None:
        """A context for the TLS options; None: none were given."""
        return tls_context(self.tls_ca, self.tls_certificate, self.tls_key) if self._encrypts else None

    @property
    def _encrypts(self) -> bool:
        return any((self.tls_ca, self.tls_certificate, self.tls_key))

    def client(self, **options: Any) -> Client:
        if self._encrypts and not self.url.startswith("tidings+tls:"):
            raise UsageError("E_URL", "TLS options need an address that begins with tidings+tls://")
        return connect(self.url, user=self.user, password=self.password(), tls=self.tls(), **options)


def connects(*, leave_out: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of `ClientAccess`, last, in place of its parameter `access`."""
    shared = [one for one in fields(ClientAccess) if one.name not in leave_out]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def connecting(*arguments: Any, **values: Any) -> None:
            access = ClientAccess(**{one.name: values.pop(one.name) for one in shared if one.name in values})
            command(*arguments, **values, access=access)

        signature = inspect.signature(command)
        own = [one for one in signature.parameters.values() if one.name != "access"]
        options = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for one in shared
        ]
        connecting.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        return connecting

    return decorate


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
        return path.read_text(encoding="utf-8-sig").split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("E_PASSWORD_FILE", f"cannot read the password from {path}: {error}") from None


def ask(prompt: str) -> str:
    """A password from the terminal, or the next line of the input; never an argument, which others can see."""
    return getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
