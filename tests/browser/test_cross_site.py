"""What a page of another site can do to somebody who is logged in to the console: nothing."""

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tidings.console.login_page import add_login
from tidings.console.request_guard import COOKIE, HEADERS, RequestGuard
from tidings.errors import SecurityError

HOME = "http://127.0.0.1:8700"


class OneSession:
    """Whoever knows the password gets the one cookie there is."""

    def __init__(self) -> None:
        self.here = False

    async def log_in(self, user: str, password: str, address: str) -> str:
        if password != "right":
            raise SecurityError("E_LOGIN", "no")
        self.here = True
        return "token"

    def log_out(self, token: str) -> None:
        self.here = self.here and token != "token"

    async def find(self, token: str) -> object | None:
        return self if self.here and token == "token" else None


def console() -> tuple[OneSession, httpx.AsyncClient]:
    app, sessions = FastAPI(), OneSession()
    add_login(app, sessions)  # type: ignore[arg-type]
    gate: Any = RequestGuard(app, sessions, frozenset({"127.0.0.1"}))  # type: ignore[arg-type]
    return sessions, httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url=HOME)


async def log_in(client: httpx.AsyncClient, to: str = "/") -> httpx.Response:
    return await client.post("/login", data={"user": "boss", "password": "right", "next": to})


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites() -> None:
    async def check() -> None:
        _, client = console()
        async with client:
            said = (await log_in(client)).headers["set-cookie"].lower()
            assert said.startswith(f"{COOKIE}=token;")
            assert "httponly" in said
            assert "samesite=lax" in said

    asyncio.run(check())


def test_over_tls_the_cookie_travels_by_tls_only() -> None:
    async def check() -> None:
        _, client = console()
        async with client:
            plain = (await log_in(client)).headers["set-cookie"].lower()
            client.base_url = HOME.replace("http:", "https:")
            encrypted = (await log_in(client)).headers["set-cookie"].lower()
            assert ("; secure" in plain, "; secure" in encrypted) == (False, True)

    asyncio.run(check())


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:9999", "http://[", ""])
def test_a_form_of_another_site_does_nothing(origin: str) -> None:
    async def check() -> None:
        sessions, client = console()
        async with client:
            await log_in(client)
            answer = await client.post("/logout", headers={"origin": origin})
            assert answer.status_code == 403
            assert sessions.here
            assert (await client.post("/logout", headers={"origin": HOME})).status_code == 303
            assert not sessions.here

    asyncio.run(check())


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8700", "[", "127.0.0.1.evil.example"])
def test_a_name_that_somebody_points_here_reaches_nothing(host: str) -> None:
    async def check() -> None:
        _, client = console()
        async with client:
            assert (await client.get("/login", headers={"host": host})).status_code == 403

    asyncio.run(check())


def test_no_answer_may_be_framed_or_guessed_at() -> None:
    async def check() -> None:
        _, client = console()
        async with client:
            answers = [
                await client.get("/login"),
                await client.get("/"),
                await client.get("/", headers={"origin": "http://evil.example"}),
            ]
            assert [one.status_code for one in answers] == [200, 303, 403]
            for answer in answers:
                for name, value in HEADERS:
                    assert answer.headers[name.decode()] == value.decode()
                assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]

    asyncio.run(check())


@pytest.mark.parametrize("to", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
def test_a_log_in_leads_to_no_other_site(to: str) -> None:
    async def check() -> None:
        _, client = console()
        async with client:
            assert (await log_in(client, to)).headers["location"] == "/"

    asyncio.run(check())


def test_what_was_typed_is_no_markup() -> None:
    async def check() -> None:
        _, client = console()
        async with client:
            answer = await client.post("/login", data={"user": '"><script>', "password": "wrong", "next": "'\">"})
            assert answer.status_code == 401
            assert "<script" not in answer.text

    asyncio.run(check())
