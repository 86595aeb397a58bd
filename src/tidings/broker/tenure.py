"""The tenure of a broker: from the moment at which its process has the lease of the store until it gives it up.

    standby = false   the lease must be free
    standby = true    wait (pages of metrics and health say so; nothing else listens) ──► free: take over
                                                   ▲                                        │ switch-over
                                                   └──────── the process starts again ◄─────┘

A process that loses the lease must not go on for a moment: another one is the broker. It says so in its log, and ends.
"""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from enum import Enum

from tidings.broker.config.tables import MetricsTable
from tidings.broker.http.metrics import TYPE, standby_text
from tidings.broker.http.server import HttpEndpoint, HttpPage
from tidings.broker.logs import note
from tidings.broker.startup import Startup
from tidings.errors import StoreError
from tidings.store.lease import Lease

log = logging.getLogger("tidings.process")
WAIT_SECONDS = 0.5  # for the lease, until it is looked whether the process is to end
RETRY_SECONDS = 1.0  # after an error of the lease: the database is away
LOST_STATUS = 1


class Role(Enum):
    SINGLE = "single"  # it is no pair
    ACTIVE = "active"
    STANDBY = "standby"


async def is_free(lease: Lease) -> bool:
    """True: it was, and is held now. A store that cannot be reached is waited for (`wait_for`)."""
    try:
        return await asyncio.to_thread(lease.wait, 0.0)
    except StoreError:
        return False


async def wait_for(lease: Lease, stop: asyncio.Event) -> bool:
    """Until the lease is held, or (False) the process is to end. An unreachable store is waited for as well."""
    said = ""
    while not stop.is_set():
        try:
            if await asyncio.to_thread(lease.wait, WAIT_SECONDS):
                return True
            if said:
                note(log, logging.INFO, "the store's lease can be asked for again")
                said = ""
        except StoreError as error:
            if error.code != said:
                note(log, logging.ERROR, "the store's lease cannot be asked for", code=error.code, reason=error.reason)
                said = error.code
            await asyncio.sleep(RETRY_SECONDS)
    return False


def end_if_lost(lease: Lease, end: Callable[[int], None] = os._exit) -> None:
    """Let the process end at once when another one has the lease."""

    def lost(error: StoreError) -> None:
        text = "this broker can no longer write its store and ends"
        note(log, logging.CRITICAL, text, code=error.code, reason=error.reason)
        for handler in logging.getLogger().handlers:
            handler.flush()
        end(LOST_STATUS)

    lease.on_lost(lost)


class StandbyPages:
    """The pages of metrics and health of a process that waits for the lease, at their address."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.time()
        pages: Mapping[str, Callable[[], HttpPage]] = {
            "/metrics": lambda: HttpPage(standby_text(self._name, self._began), TYPE),
            "/health": self._health,
            "/live": lambda: HttpPage("live\n"),
            "/ready": lambda: HttpPage("not ready: standby\n", status=503),
        }
        self._endpoint = HttpEndpoint(pages)

    async def start(self, table: MetricsTable, prepared: Startup) -> None:
        if table.enabled:
            tls = prepared.tls if table.tls else None
            port = await self._endpoint.start(table.host, table.port, tls)
            note(log, logging.INFO, "metrics", host=table.host, port=port, tls=tls is not None)

    async def stop(self) -> None:
        await self._endpoint.stop()

    def _health(self) -> HttpPage:
        state = {
            "role": Role.STANDBY.value,
            "live": True,
            "ready": False,
            "store": "waiting for its lease",
            "connections": 0,
            "uptime_seconds": round(time.time() - self._began, 3),
        }
        return HttpPage(json.dumps(state) + "\n", "application/json", 503)
