"""HTTP/1.1 on the broker's side, without I/O: requests from bytes, answers to bytes; one request at a time.

>>> exchange = HttpExchange((), body_bytes_max=100)
>>> exchange.receive(b"GET /messages?destination=ticks HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
>>> request = exchange.next_request(strict=False)
>>> request.method, request.path, request.query
('GET', '/messages', 'destination=ticks')
>>> exchange.answer(Answer(200, b"{}"))
>>> exchange.take()[:15]
b'HTTP/1.1 200 \\r\\n'
"""

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import h11

from tidings.errors import RemoteProtocolError, SecurityError, TidingsError

HEAD_BYTES_MAX = 16 << 10
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
METHODS = "GET, POST, OPTIONS"


@dataclass(frozen=True, slots=True)
class HttpCall:
    method: str
    path: str
    query: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = field(default=())


class HttpExchange:
    """`origins`: of web pages that may send requests."""

    def __init__(self, origins: tuple[str, ...], *, body_bytes_max: int) -> None:
        self.body_bytes_max = body_bytes_max
        self._origins = origins
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._output: list[bytes] = []
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._allowed_origin = ""
        self._waiting_bytes = 0  # behind the request that is being answered

    def receive(self, data: bytes) -> None:
        if not data:
            return  # to h11 that is the end of the connection
        self._waiting_bytes += len(data)
        if self._waiting_bytes > self.body_bytes_max + HEAD_BYTES_MAX:
            raise RemoteProtocolError("E_HTTP", "too much input behind a request that is not answered yet")
        self._connection.receive_data(data)

    def next_request(self, *, strict: bool) -> HttpCall | None:
        """The next whole request; None: it is not there yet. `strict`: hosts must be addresses, see `_check_origin`."""
        if self._connection.our_state is h11.DONE and self._connection.their_state is h11.DONE:
            self._connection.start_next_cycle()
        try:
            return self._next(strict=strict)
        except h11.RemoteProtocolError as error:
            raise RemoteProtocolError("E_HTTP", f"malformed request: {error}") from None

    def _next(self, *, strict: bool) -> HttpCall | None:
        while True:
            event = self._connection.next_event()
            match event:
                case h11.Request():
                    self._head, self._body, self._body_bytes = event, [], 0
                    self._expect(event)
                case h11.Data():
                    self._body_bytes += len(event.data)
                    if self._body_bytes > self.body_bytes_max:
                        raise TidingsError("E_HTTP_BODY_SIZE", f"the body is longer than {self.body_bytes_max} bytes")
                    self._body.append(bytes(event.data))
                case h11.EndOfMessage():
                    assert self._head is not None
                    self._waiting_bytes = len(self._connection.trailing_data[0])
                    request = _request(self._head, b"".join(self._body))
                    self._check_origin(request, strict=strict)
                    return request
                case _:
                    return None

    def _expect(self, head: h11.Request) -> None:
        if self._connection.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))

    def _check_origin(self, request: HttpCall, *, strict: bool) -> None:
        """Pages of other origins may send requests only if they are configured. `strict`: a broker without users is
        addressed by an IP address or as localhost, so that no foreign name can be made to resolve to it."""
        self._allowed_origin = ""
        origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
        if origin in self._origins or (origin and "*" in self._origins):
            self._allowed_origin = origin
        elif origin and urlsplit(origin).netloc != host:
            raise SecurityError("E_HTTP_ORIGIN", "requests from pages of this origin are refused")
        if strict and not is_address(host):
            raise SecurityError("E_HTTP_ORIGIN", "a broker without users is reached by address or as localhost only")

    # --- answers --------------------------------------------------------------------------------------------------

    def answer(self, answer: Answer) -> None:
        if self._connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [("Content-Type", JSON), ("Content-Length", str(len(answer.body))), *answer.headers]
        self._send(h11.Response(status_code=answer.status, headers=[*headers, *self._permission()]))
        if self._head is None or self._head.method != b"HEAD":
            self._send(h11.Data(data=answer.body))
        self._send(h11.EndOfMessage())

    def begin_stream(self) -> None:
        headers = [("Content-Type", EVENT_STREAM), ("Cache-Control", "no-store"), ("Connection", "close")]
        self._send(h11.Response(status_code=200, headers=[*headers, *self._permission()]))

    def stream(self, data: bytes) -> None:
        self._send(h11.Data(data=data))

    def end_stream(self) -> None:
        if self._connection.our_state is h11.SEND_BODY:
            self._send(h11.EndOfMessage())

    @property
    def over(self) -> bool:
        """True if no further request can come on this connection, or the last was answered before it had ended."""
        ours, theirs = self._connection.our_state, self._connection.their_state
        answered_early = ours is h11.DONE and theirs is h11.SEND_BODY
        return answered_early or ours in (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR) or theirs in (h11.CLOSED, h11.ERROR)

    def take(self) -> bytes:
        data = b"".join(self._output)
        self._output.clear()
        return data

    def _permission(self) -> list[tuple[str, str]]:
        """The headers by which a browser lets a page of an allowed origin read the answer."""
        if not self._allowed_origin:
            return []
        allowed = [("Access-Control-Allow-Origin", self._allowed_origin), ("Vary", "Origin")]
        allowed.append(("Access-Control-Allow-Headers", "Authorization, Content-Type"))
        return [*allowed, ("Access-Control-Allow-Methods", METHODS)]

    def _send(self, event: h11.Event) -> None:
        data = self._connection.send(event)
        if data:
            self._output.append(data)


def _request(head: h11.Request, body: bytes) -> HttpCall:
    headers: dict[str, str] = {}
    for raw, value in head.headers:
        name = raw.decode("ascii")
        headers[name] = f"{headers[name]}, {value.decode('latin-1')}" if name in headers else value.decode("latin-1")
    path, _, query = head.target.decode("ascii", errors="replace").partition("?")
    return HttpCall(head.method.decode("ascii"), path, query, headers, body)


def basic_credentials(header: str) -> tuple[str, str]:
    """User and password of basic authentication, or no user and a bearer's token; empty without."""
    scheme, _, encoded = header.partition(" ")
    if not header:
        return "", ""
    try:
        if scheme.lower() == "bearer" and encoded.strip():
            return "", encoded.strip()
        if scheme.lower() != "basic":
            raise ValueError
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        if not colon or not user:
            raise ValueError
    except (binascii.Error, ValueError):
        raise SecurityError("E_LOGIN", "malformed header Authorization; use Basic or Bearer") from None
    return user, password


def is_address(host: str) -> bool:
    """
    >>> [is_address(host) for host in ("127.0.0.1:8090", "localhost:8090", "[::1]:8090", "evil.example", "")]
    [True, True, True, False, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False
