"""What the capacity pane says of a broker that goes away and comes back."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hardening.support.console import SECONDS, Browser, ConsoleProcess
from selenium.webdriver import Chrome

from tidings.broker.tuning.capacity_monitor import CapacityMonitor
from tidings.broker.tuning.capacity_observer import watch
from tidings.client import Client, connect
from tidings.testing.local_broker import local_broker


class Returning:
    """A broker that estimates what it can carry, with some traffic; each time at the same port."""

    def __init__(self) -> None:
        self.url = ""
        self._port = 0
        self._running = AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self._thread.start()

    def come(self) -> None:
        self._do(self._start())

    def go(self) -> None:
        self._do(self._running.aclose())

    def end(self) -> None:
        self.go()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    async def _start(self) -> None:
        local = await self._running.enter_async_context(local_broker(port=self._port))
        self.url, self._port = local.url, local.port
        local.broker.observer = observer = CapacityMonitor()
        client = await self._running.enter_async_context(connect(local.url))
        for work in (watch(observer, local.broker.forwarder, local.broker.aside, None), _traffic(client)):
            self._running.callback(asyncio.create_task(work).cancel)


async def _traffic(client: Client) -> None:
    subscription = await client.subscribe("ticks.>")
    while True:
        await client.publish("ticks.xyz", {"price": 30})
        while subscription.receive_nowait():
            pass
        await asyncio.sleep(0.02)


@pytest.fixture
def broker() -> Iterator[Returning]:
    running = Returning()
    running.come()
    yield running
    running.end()


def test_what_if_is_asked_of_a_broker_that_is_there(fresh: Chrome, broker: Returning) -> None:
    with ConsoleProcess(broker.url) as console:
        page = Browser(fresh, console.home)
        page.open("/capacity")
        page.sees("One broker", "Utilisation at the present rate")
        broker.go()
        page.until(lambda: any(one.text for one in page.all(".t-problem[role=alert]")) or None)
        page.until(lambda: "One broker" not in page.text() or None)
        assert [one.text for one in page.all(".t-figure .value")] == ["–"] * 4
        broker.come()
        page.sees("One broker", "Utilisation at the present rate")
        page.until(lambda: not any(one.text for one in page.all(".t-problem[role=alert]")) or None)
        assert page.complaints() == []
