"""The console as a web application: pages, login, and the server that shows them."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from nicegui import app as pages
from nicegui import ui
from uvicorn.config import LOGGING_CONFIG

from tidings.console.certificate import Certificate
from tidings.console.layout import THEME_COOKIE, Pane, frame
from tidings.console.login_page import add_login
from tidings.console.metrics_pages import METRICS_PAGES, add_metrics
from tidings.console.panes import (
    administration,
    capacity,
    connections,
    map,
    playback,
    queues,
    rates,
    routing,
    subscriptions,
    trace,
)
from tidings.console.panes import playground as tryout
from tidings.console.request_guard import SESSION, RequestGuard
from tidings.console.sessions import ConsoleSession, MakeSources, Sessions
from tidings.console.source import BrokerLogin, BrokerSource
from tidings.errors import UsageError

PANES: tuple[Pane, ...] = (
    map.PANE,
    rates.PANE,
    queues.PANE,
    subscriptions.PANE,
    connections.PANE,
    administration.PANE,
    tryout.PANE,
    trace.PANE,
    capacity.PANE,
    routing.PANE,
    playback.PANE,
)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
NICENESS = 5  # beside a broker, which goes first
STYLE = Path(__file__).parent / "style"


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    urls: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 8700
    names: tuple[str, ...] = ()  # host names under which it is called, besides those of loopback
    login: BrokerLogin = field(default_factory=BrokerLogin)
    metrics: str = ""  # host:port of a broker's metrics, shown under the console's address too
    with_parent: bool = False  # end when the input does: the process that started it is gone
    certificate: Certificate | None = None  # then it is https
    listening: tuple[int, ...] = ()  # sockets of the process that started it, instead of host and port


def sources_of(urls: Sequence[str]) -> MakeSources:
    return lambda login: [BrokerSource(url, login) for url in urls]


def make_app(make_sources: MakeSources, login: BrokerLogin, hosts: frozenset[str], metrics: str = "") -> RequestGuard:
    sessions = Sessions(make_sources, login)

    @asynccontextmanager
    async def life(_: FastAPI) -> Any:
        yield
        await sessions.close()

    outer = FastAPI(lifespan=life, docs_url=None, redoc_url=None, openapi_url=None)
    add_login(outer, sessions)
    if metrics:
        add_metrics(outer, metrics)
    pages.add_static_files("/style", STYLE)
    for pane in PANES:
        _add_page(pane, sessions)
    ui.run_with(outer, title="Tidings", dark=None, show_welcome_message=False, reconnect_timeout=10.0, language="en-US")
    return RequestGuard(outer, sessions, hosts, METRICS_PAGES if metrics else ())


def _add_page(pane: Pane, sessions: Sessions) -> None:
    @ui.page(pane.path, title=f"{pane.title} · Tidings")
    def show(request: Request) -> None:
        session: ConsoleSession = request.scope[SESSION]
        theme = request.cookies.get(THEME_COOKIE, "auto")
        with frame(pane, PANES, session, theme, sessions.shares(session)):
            pane.build(session)


def serve(options: ConsoleOptions, ready: Callable[[int], None]) -> None:
    """Until SIGTERM or SIGINT; `ready` gets the port once pages are served."""
    hosts = frozenset(options.names) | (LOOPBACK if options.host in LOOPBACK else frozenset())
    app = make_app(sources_of(options.urls), options.login, hosts, options.metrics)
    config = uvicorn.Config(
        app,
        options.host,
        options.port,
        log_level="warning",
        log_config=None if options.with_parent else LOGGING_CONFIG,
        ws_max_size=1 << 20,
        server_header=False,
        lifespan="on",
    )
    if options.certificate is not None:
        config.ssl_certfile = options.certificate.file  # which makes it https; the context is ours
        config.load()
        config.ssl = options.certificate.context
    server = uvicorn.Server(config)
    if options.with_parent:
        os.nice(NICENESS)
        threading.Thread(target=_heed_input, args=(server, options.certificate), daemon=True).start()
    # uvicorn raises the signal once more when it has ended in order: that is status 0, not an end by SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: None if server.should_exit else sys.exit(0))
    if options.certificate is not None:
        signal.signal(signal.SIGHUP, lambda *_: _renew(options.certificate))
    asyncio.run(_serve(server, ready, [socket.socket(fileno=one) for one in options.listening]))


def _heed_input(server: uvicorn.Server, certificate: Certificate | None) -> None:
    """Each line names another certificate and its key."""
    for line in sys.stdin.buffer:
        _renew(certificate, *json.loads(line))
    server.should_exit = True


def _renew(certificate: Certificate | None, *pair: str) -> None:
    assert certificate is not None
    try:
        certificate.renew(*pair)
    except UsageError as error:
        print(f"tidings: {error}; the old one is still shown", file=sys.stderr)  # noqa: T201


async def _serve(server: uvicorn.Server, ready: Callable[[int], None], listening: list[socket.socket]) -> None:
    running = asyncio.create_task(server.serve(listening or None))
    while not server.started and not running.done():
        await asyncio.sleep(0.02)
    if server.started:
        ready(server.servers[0].sockets[0].getsockname()[1])
    try:
        await running
    except SystemExit:  # uvicorn's way to say that it cannot listen
        where = f"{server.config.host} port {server.config.port}"
        raise UsageError("E_LISTEN", f"cannot listen on {where}; choose another with --port") from None
