"""The management API of a broker as commands use it: options, requests, errors."""

import base64
import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode, urlsplit

import typer

from tidings.cli import connecting
from tidings.cli.json_text import strict_json
from tidings.errors import ConnectionLostError, RemoteError, UsageError

DEFAULT_URL = "http://127.0.0.1:8700"
SECONDS = 60.0
PAGE = 200
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class ManagementAccess:
    """Address of the management API and credentials. The fields are options of every command that `manages`."""

    url: Annotated[
        str, typer.Option(envvar="TIDINGS_API_URL", help="The broker's HTTP address; https://… with TLS.")
    ] = DEFAULT_URL
    user: Annotated[str, typer.Option(envvar="TIDINGS_USER", help="The user to log in as.")] = ""
    password_file: Annotated[
        Path | None, typer.Option(envvar="TIDINGS_PASSWORD_FILE", help="A file whose first line is the password.")
    ] = None
    tls_ca: Annotated[
        Path | None, typer.Option(help="The CA of the broker's certificate (PEM), if not a public one.")
    ] = None

    def open(self) -> "ManagementClient":
        password = ""
        if self.user and self.password_file is not None:
            password = connecting.first_line(self.password_file)
        elif self.user:
            password = connecting.ask("Password: ")
        return ManagementClient(self.url, self.user, password, self.tls_ca)


def manages(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `ManagementAccess`, last, in place of its parameter `access`."""

    @wraps(command)
    def managing(*arguments: Any, **values: Any) -> None:
        access = ManagementAccess(**{one.name: values.pop(one.name) for one in fields(ManagementAccess)})
        command(*arguments, **values, access=access)

    own = [one for one in signature(command).parameters.values() if one.name != "access"]
    options = [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(ManagementAccess)
    ]
    managing.__signature__ = signature(command).replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return managing


class ManagementClient:
    def __init__(self, url: str, user: str, password: str, ca: Path | None = None) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or not port:
            raise UsageError("E_URL", f"{url!r} is not the address of a broker; write it as in {DEFAULT_URL}")
        if ca is not None and parts.scheme != "https":
            raise UsageError("E_URL", "--tls-ca needs an address that begins with https://")
        self._url, self._host, self._port = url, parts.hostname, port
        self._tls = connecting.tls_context(ca, None, None) if parts.scheme == "https" else None
        self._headers = {"Content-Type": "application/json"}
        if user:
            self._headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def ask(
        self, method: str, *path: str, query: Mapping[str, object] | None = None, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The answer; a RemoteError with the broker's code and reason if it refuses."""
        target = "/api/v1/" + "/".join(quote(part, safe="") for part in path)
        target += f"?{urlencode(query)}" if query else ""
        connection = self._connection()
        try:
            data = None if body is None else strict_json(body)
            connection.request(method, target, data, self._headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            reason = f"no answer from {self._url} ({error}); is the broker running, with metrics.api = true?"
            raise ConnectionLostError("E_CONNECT", reason) from None
        finally:
            connection.close()
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if answer.status == http.client.OK and isinstance(found, dict):
            return found
        if not isinstance(found, dict) or not found.keys() >= {"code", "reason", "remedy"}:
            raise RemoteError("E_API", f"{self._url} has no management API (status {answer.status}); check --url")
        raise RemoteError(str(found["code"]), f"{found['reason']}; {found['remedy']}")

    def all(self, part: str, containing: str = "") -> Iterator[dict[str, Any]]:
        """All items of a list, page by page."""
        seen, total = 0, 1
        while seen < total:
            page = self.ask("GET", part, query={"offset": seen, "limit": PAGE, "containing": containing})
            yield from page["items"]
            seen, total = seen + max(1, len(page["items"])), page["total"]

    def _connection(self) -> http.client.HTTPConnection:
        if isinstance(self._tls, ssl.SSLContext):
            return http.client.HTTPSConnection(self._host, self._port, timeout=SECONDS, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=SECONDS)
