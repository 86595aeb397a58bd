"""Who gets past the gate: hosts, origins, cookies; and log-ins that the broker decides."""

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tidings.broker.security import users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.console.login_page import own_path
from tidings.console.request_guard import COOKIE, RequestGuard, token_of
from tidings.console.sessions import IDLE_SECONDS, Sessions
from tidings.console.source import BrokerLogin, BrokerSource
from tidings.errors import ConnectionLostError, SecurityError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.testing.local_broker import local_broker, run

LOCAL = frozenset({"127.0.0.1", "localhost"})


def guard() -> UserGuard:
    known = users.add(Users({}), "boss", "a password", frozenset(), Cost(n=2, r=1, p=1))
    rule = Rule("boss", DestinationPattern.parse(">"), frozenset({"manage"}))
    return UserGuard(known, AccessRules((rule,)), BrokerLimits())


def sessions_for(url: str) -> Sessions:
    return Sessions(lambda login: [BrokerSource(url, login)], BrokerLogin())


async def ask(
    gate: RequestGuard, path: str = "/", query: bytes = b"", *, kind: str = "http", **headers: str
) -> list[dict[str, Any]]:
    """What a request is answered; the application behind the gate answers 200."""
    said: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    given = [(name.encode(), value.encode()) for name, value in ({"host": "127.0.0.1:8700"} | headers).items()]
    scope = {"type": kind, "path": path, "query_string": query, "method": "GET", "headers": given}
    await gate(scope, receive, send)
    return said


async def page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def status(said: list[dict[str, Any]]) -> int:
    return int(said[0].get("status", said[0].get("code", 0)))


def test_only_its_own_host_and_origin() -> None:
    async def check() -> None:
        async with local_broker() as here:
            sessions = sessions_for(here.url)
            gate = RequestGuard(page, sessions, LOCAL)
            assert status(await ask(gate)) == 200
            assert status(await ask(gate, origin="http://127.0.0.1:8700")) == 200
            for origin in ("http://evil.example", "http://127.0.0.1:9999", "null"):
                assert status(await ask(gate, origin=origin)) == 403
                assert status(await ask(gate, "/_nicegui_ws/", kind="websocket", origin=origin)) == 1008
            assert status(await ask(gate, host="evil.example:8700")) == 403
            assert status(await ask(gate, host="")) == 403
            await sessions.close()

    run(check())


def test_with_users_nothing_is_shown_without_a_log_in() -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here:
            sessions = sessions_for(here.url)
            gate = RequestGuard(page, sessions, LOCAL)
            turned_away = await ask(gate, "/queues")
            assert status(turned_away) == 303
            assert (b"location", b"/login?next=/queues") in turned_away[0]["headers"]
            (deep, *_) = await ask(gate, "/trace", b"id=1&x=%2F%22")
            where = urlsplit(dict(deep["headers"])[b"location"].decode())
            assert (where.netloc, where.path) == ("", "/login")
            assert parse_qs(where.query) == {"next": ["/trace?id=1&x=%2F%22"]}, "whole, and nothing but it"
            assert status(await ask(gate, "/login")) == 200
            for path in ("/_nicegui_ws/socket.io/", "/_nicegui/3/static/nicegui.js"):
                assert status(await ask(gate, path)) == 401
            assert status(await ask(gate, "/_nicegui_ws/", kind="websocket")) == 1008
            for user, password in (("boss", "wrong"), ("nobody", "a password"), ("", "")):
                with pytest.raises(SecurityError):
                    await sessions.log_in(user, password, "10.0.0.1")
            token = await sessions.log_in("boss", "a password", "10.0.0.1")
            assert status(await ask(gate, "/queues", cookie=f"{COOKIE}={token}")) == 200
            assert status(await ask(gate, "/queues", cookie=f"{COOKIE}={token[:-1]}")) == 303
            answered = await ask(gate, "/queues", cookie=f"{COOKIE}={token}")
            assert any(name == b"content-security-policy" for name, _ in answered[0]["headers"])
            sessions.log_out(token)
            assert status(await ask(gate, "/queues", cookie=f"{COOKIE}={token}")) == 303
            await sessions.close()

    run(check())


def test_guessing_has_to_wait_before_it_costs_others_their_log_in() -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here:
            sessions = sessions_for(here.url)
            for _ in range(4):
                with pytest.raises(SecurityError, match="E_LOGIN:"):
                    await sessions.log_in("boss", "guess", "10.0.0.1")
            before = here.broker.login.refused["E_LOGIN"]
            with pytest.raises(SecurityError, match="E_LOGIN_THROTTLED"):
                await sessions.log_in("other", "guess", "10.0.0.1")
            assert here.broker.login.refused["E_LOGIN"] == before, "the broker was not even asked"
            await sessions.close()

    run(check())


def test_a_broker_that_is_away_is_not_a_wrong_password() -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here:
            url = here.url
        sessions = sessions_for(url)
        with pytest.raises(ConnectionLostError):
            await sessions.log_in("boss", "a password", "10.0.0.1")
        await sessions.close()

    run(check())


def test_when_a_broker_gets_users_everybodys_session_ends() -> None:
    async def check() -> None:
        async with local_broker() as here:
            sessions = sessions_for(here.url)
            session = await sessions.find("")
            assert session is not None
            assert sessions.shares(session)
            here.broker.login.guard = guard()
            here.broker.clients.end_all("E_ACCESS_CHANGED", "users have been configured; log in")
            async with asyncio.timeout(60):
                while await sessions.find("") is not None:
                    await asyncio.sleep(0.05)
            assert session.ended
            await sessions.close()

    run(check())


@pytest.mark.parametrize("to", ["//evil.example", "/\\evil.example", "/\t/evil.example", "https://evil.example", ""])
def test_a_log_in_leads_nowhere_else(to: str) -> None:
    assert own_path(to) == "/"
    assert own_path(f"/trace?id={to or 1}".replace("\t", "%09")).startswith("/trace?id=")


@pytest.mark.parametrize("cookies", ["", "a=b", f"{COOKIE}=", "\x00;;==", f"x={COOKIE}"])
def test_a_cookie_that_says_nothing(cookies: str) -> None:
    assert token_of(cookies) == ""


def test_nobody_there_for_long_ends_a_session() -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here:
            sessions = sessions_for(here.url)
            token = await sessions.log_in("boss", "a password", "10.0.0.1")
            session = await sessions.find(token)
            assert session is not None
            session.used_at -= IDLE_SECONDS + 1
            assert await sessions.find(token) is None
            assert session.ended
            await sessions.close()

    run(check())
