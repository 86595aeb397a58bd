"""The HTTP pages of a broker: metrics, health, the network, and the console if there is one.

The broker serves the first three itself. A console that has the same address fetches them from a port of this
machine; while it is not up the broker answers in its place (`console_process`).
"""

import logging
from collections.abc import Callable, Mapping

from tidings.broker.config.tables import Configuration
from tidings.broker.http.console_process import ConsoleChild, command
from tidings.broker.http.metrics import Metrics
from tidings.broker.http.network_status import network_page
from tidings.broker.http.server import HttpEndpoint, HttpHandler, HttpPage
from tidings.broker.logs import note
from tidings.broker.server import Broker
from tidings.broker.startup import Startup

log = logging.getLogger("tidings.process")
CONSOLE_LEAVES_SECONDS = 5.0  # the console of a broker that was killed ends a moment after it


class HttpPages:
    def __init__(self, broker: Broker, handlers: Mapping[str, HttpHandler] | None = None) -> None:
        metrics = Metrics(broker.view)
        pages: dict[str, Callable[[], HttpPage]] = {
            "/metrics": metrics.metrics,
            "/health": metrics.health,
            "/live": metrics.live,
            "/ready": metrics.ready,
            "/network": lambda: network_page(broker.view()),
        }
        self._broker, self._handlers = broker, handlers or {}
        self._pages = {path: broker.aside.doing(page) for path, page in pages.items()}
        self._endpoint = HttpEndpoint(self._pages, broker.handshakes.failed, handlers)
        self._port = 0  # of that
        self._front: HttpEndpoint | None = None  # at the address of metrics and console, while there is no console
        self._console: ConsoleChild | None = None

    async def start(self, prepared: Startup) -> None:
        table = prepared.configuration.metrics
        if not table.enabled:
            return
        tls = prepared.tls if table.tls else None
        if prepared.configuration.pages_share_port:
            waiting = HttpPage("the console is starting; try again in a moment\n", status=503)
            self._front = HttpEndpoint(
                {**self._pages, "/": lambda: waiting}, self._broker.handshakes.failed, self._handlers
            )
            patience = CONSOLE_LEAVES_SECONDS
            shown = await self._front.start(table.host, table.port, tls, patience_seconds=patience)
            self._port = await self._endpoint.start("127.0.0.1", 0)
        else:
            shown = self._port = await self._endpoint.start(table.host, table.port, tls)
        note(log, logging.INFO, "metrics", host=table.host, port=shown, tls=tls is not None)

    def start_console(self, prepared: Startup) -> None:
        """Start the console; the broker, to which it connects, must be listening."""
        if prepared.configuration.console.enabled:
            line, pair = self._console_command(prepared), _console_pair(prepared.configuration)
            self._console = ConsoleChild(line, pair, self._front)
            self._console.start()

    def renew(self, new: Startup) -> None:
        """Use renewed certificates for new connections."""
        if new.tls is not None:
            self._endpoint.renew(new.tls)
            if self._front is not None:
                self._front.renew(new.tls)
        if self._console is not None and (pair := _console_pair(new.configuration)) is not None:
            self._console.renew(pair)

    async def stop_console(self) -> None:
        """Stop the console while the broker still serves it."""
        if self._console is not None:
            await self._console.stop()

    async def stop(self) -> None:
        await self._endpoint.stop()
        if self._front is not None:
            await self._front.stop()

    def _console_command(self, prepared: Startup) -> list[str]:
        configuration = prepared.configuration
        plain = (one for one in self._broker.listening if one.listener.protocol == "native" and not one.listener.tls)
        listening = next(plain)
        host = listening.listener.host
        reached = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return command(
            f"tidings://{reached}:{listening.port}",
            configuration.console.host,
            configuration.console.port,
            configuration.console.names,
            metrics=f"127.0.0.1:{self._port}" if configuration.pages_share_port and self._port else "",
            anonymous=prepared.users is not None or configuration.users.allow_anonymous,
        )


def _console_pair(configuration: Configuration) -> tuple[str, str] | None:
    tls = configuration.tls
    return (tls.certificate, tls.key) if configuration.console.tls else None
