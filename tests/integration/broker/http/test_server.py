import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hardening.support.certificates import Authority

from tidings.broker.config.tls import TlsTable
from tidings.broker.http import server
from tidings.broker.http.server import HttpEndpoint, HttpPage
from tidings.broker.security.tls import server_context
from tidings.errors import UsageError
from tidings.testing.local_broker import run, run_plain

PAGES = {"/a": lambda: HttpPage("hello\n"), "/b": lambda: HttpPage("no\n", status=503)}


async def exchange(port: int, request: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status", "body"),
    [
        (b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK", b"hello\n"),
        (b"GET /a?x=1 HTTP/1.0\r\n\r\n", b"200 OK", b"hello\n"),
        (b"GET /b HTTP/1.1\r\n\r\n", b"503 Service Unavailable", b"no\n"),
        (b"GET /c HTTP/1.1\r\n\r\n", b"404 Not Found", b"no such page; available: /a /b\n"),
        (b"HEAD /a HTTP/1.1\r\n\r\n", b"200 OK", b""),
        (b"POST /a HTTP/1.1\r\n\r\n", b"405 Method Not Allowed", b"method not allowed: use GET\n"),
        (b"hello\r\n\r\n", b"400 Bad Request", b"malformed request: not HTTP/1.1\n"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", b"404 Not Found", b"no such page; available: /a /b\n"),
        (b"GET /a HTTP/1.1\r\nx: " + b"y" * 20_000, b"400 Bad Request", b"malformed request: not HTTP/1.1\n"),
    ],
)
def test_answers(request_bytes: bytes, status: bytes, body: bytes) -> None:
    async def check() -> bytes:
        endpoint = HttpEndpoint(PAGES)
        answer = await exchange(await endpoint.start("127.0.0.1", 0), request_bytes)
        await endpoint.stop()
        return answer

    answer = run(check())
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert answer.endswith(b"\r\n\r\n" + body)
    length = len(b"hello\n") if request_bytes.startswith(b"HEAD") else len(body)
    assert b"Content-Length: %d\r\n" % length in answer


def test_who_is_slow_or_one_too_many_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(server, "CLIENTS_MAX", 2)

    async def check() -> None:
        endpoint = HttpEndpoint(PAGES)
        port = await endpoint.start("127.0.0.1", 0)
        answers = await asyncio.gather(*(exchange(port, b"GET /a HT") for _ in range(4)))
        assert answers == [b""] * 4
        assert (await exchange(port, b"GET /a HTTP/1.1\r\n\r\n")).endswith(b"hello\n")
        with pytest.raises(UsageError, match="E_LISTEN"):
            await HttpEndpoint(PAGES).start("127.0.0.1", port)
        await endpoint.stop()

    run(check())


@pytest.mark.parametrize("run_on", [run, run_plain])
def test_with_tls_certificates_are_renewed_and_handshakes_bounded(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, run_on: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    monkeypatch.setattr(server, "CLIENTS_MAX", 2)
    first, second = (
        server_context(TlsTable(certificate=str(authority.sign("broker", file)))) for file in ("one.pem", "two.pem")
    )
    mine = authority.client_context()

    async def serial(port: int) -> int:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=mine)
        shown = int(writer.get_extra_info("peercert")["serialNumber"], 16)
        writer.close()
        return shown

    async def check() -> None:
        endpoint = HttpEndpoint(PAGES)
        port = await endpoint.start("127.0.0.1", 0, first)
        assert (await exchange(port, b"GET /a HTTP/1.1\r\n\r\n", mine)).endswith(b"hello\n")
        assert await exchange(port, b"GET /a HTTP/1.1\r\n\r\n") == b""
        before = await serial(port)
        endpoint.renew(second)
        assert await serial(port) == before + 1
        halves = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert await exchange(port, b"\x16") == b""  # at once
        for _, writer in halves:
            writer.close()
        await endpoint.stop()
        plain = HttpEndpoint(PAGES)
        port = await plain.start("127.0.0.1", 0)
        plain.renew(second)
        assert (await exchange(port, b"GET /a HTTP/1.1\r\n\r\n")).endswith(b"hello\n")
        await plain.stop()

    run_on(check())
