"""Checks host, origin and session of every request before it is handled, and adds security headers to answers.

Panes act over a websocket, which browsers open across origins without asking: so its Origin must be the console's own,
as that of every request which says one. The Host is checked so that a name that somebody points at 127.0.0.1 reaches
nothing.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote, urlsplit

from tidings.console.sessions import Sessions

COOKIE = "tidings_console"
SESSION = "tidings.session"  # where a request's scope has its session
LOGIN_PATH = "/login"
_OPEN = (LOGIN_PATH, "/favicon.ico", "/style/")  # needs no session: nothing of a broker is in it
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
]
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class RequestGuard:
    """`hosts`: names under which the console may be called; empty: all. `open`: further paths without login."""

    def __init__(
        self, app: App, sessions: Sessions, hosts: frozenset[str] = frozenset(), open: tuple[str, ...] = ()
    ) -> None:
        self.app = app  # uvicorn and NiceGUI look for it under this name
        self._sessions = sessions
        self._hosts = hosts
        self._open = (*_OPEN, *open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._at_home(headers):
            await _refuse(scope, receive, send, 403, "this address or origin is not the console's own")
            return
        if not scope["path"].startswith(self._open):
            session = await self._sessions.find(token_of(headers.get(b"cookie", "")))
            if session is None:
                await _turn_away(scope, receive, send)
                return
            scope[SESSION] = session
        await self.app(scope, receive, _with_headers(send))

    def _at_home(self, headers: dict[bytes, str]) -> bool:
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        try:
            name, page = urlsplit(f"//{host}").hostname or "", urlsplit(origin or "").netloc
        except ValueError:  # neither is an address
            return False
        return (not self._hosts or name in self._hosts) and (origin is None or page == host)


def token_of(cookies: str) -> str:
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def _turn_away(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" and scope["method"] == "GET" and not scope["path"].startswith("/_"):
        query = scope.get("query_string", b"").decode("latin-1")
        wanted = quote(scope["path"]) + (f"?{query}" if query else "")
        where = f"{LOGIN_PATH}?next={quote(wanted)}".encode()
        await send({"type": "http.response.start", "status": 303, "headers": [(b"location", where), *HEADERS]})
        await send({"type": "http.response.body", "body": b""})
    else:
        await _refuse(scope, receive, send, 401, "log in first")


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{reason}\n".encode()})


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return sending
