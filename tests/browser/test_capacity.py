"""What the capacity pane says of a broker that goes away and comes back."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from typing import Any

from hardening.support.console import SECONDS, Browser, ConsoleProcess
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.remote.webelement import WebElement

from tidings.broker.tuning.capacity_monitor import CapacityMonitor
from tidings.broker.tuning.capacity_observer import Counters, watch
from tidings.client import Client, connect
from tidings.testing.local_broker import local_broker


class Experienced(CapacityMonitor):
    """Has seen an hour of load in no time, and what comes now is not enough to change its mind."""

    def __init__(self) -> None:
        super().__init__()
        now = Counters(0, 0, 100, 0.0, 0, 0)
        super().observe(0.0, now)
        for second in range(1, 60):
            batch = 1 + 3 * (second % 5)
            now = replace(
                now,
                received=now.received + 20_000,
                delivered=now.delivered + 20_000,
                reads=now.reads + 20_000 // batch,
                writes=now.writes + 20_000 // batch,
                cpu_s=now.cpu_s + 0.043 + 0.8 / batch,
            )
            super().observe(float(second), now)

    def observe(self, now_s: float, counters: Counters) -> None:
        pass


class Returning:
    """A broker that estimates what it can carry, with some traffic; each time at the same port."""

    def __init__(self, make_observer: Callable[[], CapacityMonitor]) -> None:
        self._make_observer = make_observer
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
        local.broker.observer = observer = self._make_observer()
        client = await self._running.enter_async_context(connect(local.url))
        for work in (watch(observer, local.broker.counting(), None), _traffic(client)):
            self._running.callback(asyncio.create_task(work).cancel)


async def _traffic(client: Client) -> None:
    subscription = await client.subscribe("ticks.>")
    while True:
        await client.publish("ticks.xyz", {"price": 30})
        while subscription.receive_nowait():
            pass
        await asyncio.sleep(0.02)


@contextmanager
def returning(make_observer: Callable[[], CapacityMonitor]) -> Iterator[Returning]:
    running = Returning(make_observer)
    running.come()
    try:
        yield running
    finally:
        running.end()


def test_what_if_is_asked_of_a_broker_that_is_there(fresh: Chrome) -> None:
    with returning(Experienced) as broker, ConsoleProcess(broker.url) as console:
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


def test_capacity_is_predicted_and_asked_about(fresh: Chrome) -> None:
    with returning(Experienced) as broker, ConsoleProcess(broker.url) as console:
        page = Browser(fresh, console.home)
        page.open("/capacity")
        page.sees("Utilisation at the present rate", "One broker carries it.")
        headline = page.until(lambda: text if (text := page.all(".t-figure .value")[1].text)[:1].isdigit() else None)
        far_right = Keys.PAGE_UP * 30
        _slider(page, "99.99 % may wait at most, ms").send_keys(far_right)
        page.sees("at most, ms: 10.0k", "One broker carries it.", f"{headline} messages/s")
        _slider(page, "Messages a second").send_keys(far_right)
        page.sees("Messages a second: 200.0k", "One broker does not carry it.", "publishers spread")
        assert len(page.all("[role=slider]")) == 4


def test_a_quiet_broker_is_measuring_and_gives_no_verdict(fresh: Chrome) -> None:
    with returning(CapacityMonitor) as broker, ConsoleProcess(broker.url) as console:
        page = Browser(fresh, console.home)
        page.open("/capacity")
        page.sees("Measuring: too little has been seen")
        values = ["measuring …"] * 3
        page.until(lambda: [one.text for one in page.all(".t-figure .value")][1:] == values or None)
        assert "One broker" not in page.text()


def _slider(page: Browser, name: str) -> WebElement:
    """What the keyboard reaches is what has the name."""
    return page.one(f"[role=slider][aria-label='{name}'][tabindex='0']")
