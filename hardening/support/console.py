"""For tests of the console: its process, three brokers for it to watch, and a person at a browser."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from hardening.support.links import BrokerNetwork, eventually
from tidings.broker.tuning.capacity_monitor import CapacityMonitor
from tidings.broker.tuning.capacity_observer import watch
from tidings.client import connect
from tidings.tracking.recording.history import BloomSettings
from tidings.tracking.recording.recorder import TrackingSettings
from tidings.tracking.recording.strategies import BloomStrategy

SECONDS = 60.0
EDGES = [(1, 2), (2, 3)]
TRACKING = TrackingSettings(BloomStrategy(BloomSettings(50, 4096, 12, 200, 100)), persist_ms=100)
T = TypeVar("T")


class WatchedNetwork:
    """Brokers on a thread of their own, three in a line unless told; a little traffic from the first to the last."""

    def __init__(self, folder: Path, edges: list[tuple[int, int]] = EDGES) -> None:
        self.urls: list[str] = []
        self._folder, self._edges = folder, edges
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="brokers", daemon=True)

    def __enter__(self) -> "WatchedNetwork":
        self._thread.start()
        assert self._ready.wait(SECONDS), "the brokers did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)

    def do(self, work: Callable[[str], Any]) -> Any:
        """A coroutine with the first broker's address, on the brokers' loop."""
        return asyncio.run_coroutine_threadsafe(work(self.urls[0]), self._loop).result(SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with BrokerNetwork(self._folder, self._edges, tracking=TRACKING) as network:
            first = network.brokers[1]
            first.observer = CapacityMonitor()
            urls = [network.url(router) for router in network.routers]
            tasks = [
                asyncio.create_task(watch(first.observer, first.counting(), None)),
                asyncio.create_task(self._traffic(urls)),
            ]
            await eventually(network.known, SECONDS)
            self.urls = urls
            self._ready.set()
            await self._stop.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _traffic(self, urls: list[str]) -> None:
        async with connect(urls[0], client_id="pub") as publisher, connect(urls[-1], client_id="far reader") as reader:
            ticks = await reader.subscribe("ticks.>", selector="price > 20")
            near = await publisher.subscribe("ticks.>", selector="price <= 20 AND stock LIKE 'X%'")
            for number in range(20):
                await publisher.publish("ticks.xyz", {"price": number * 5, "stock": "XYZ"})
                await asyncio.sleep(0.02)
            while True:
                await publisher.publish("ticks.xyz", {"price": 30, "stock": "XYZ"}, b"tick")
                while ticks.receive_nowait() or near.receive_nowait():
                    pass
                await asyncio.sleep(0.05)


class Browser:
    """Acts and looks as a person does in a browser; every call waits until its condition holds."""

    def __init__(self, driver: Chrome, home: str = "") -> None:
        self.driver = driver
        self.home = home

    def open(self, path: str) -> None:
        self.driver.get(self.home + path)

    def until(self, found: Callable[[], T | None]) -> T:
        def look(_: Chrome) -> T | None:
            try:
                return found()
            except StaleElementReferenceException:  # the page changed while it was looked at
                return None

        try:
            return WebDriverWait(self.driver, SECONDS, 0.1).until(look)  # type: ignore[return-value]
        except TimeoutException:
            raise AssertionError(f"not so within {SECONDS:.0f} seconds; the page:\n{self.text()}") from None

    def sees(self, *texts: str) -> str:
        """The text of the page once all of this is in it."""
        try:
            return self.until(lambda: body if all(one in (body := self.text()) for one in texts) else None)
        except AssertionError as error:
            raise AssertionError(f"not seen: {[one for one in texts if one not in self.text()]}; {error}") from None

    def text(self) -> str:
        return self.driver.find_element(By.TAG_NAME, "body").text

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        return self.until(lambda: next(iter(self.all(css)), None))

    def click(self, css: str) -> None:
        def clicked() -> bool:
            (self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found := self.one(css)))
            found.click()
            return True

        self.until(clicked)

    def press(self, name: str, within: str = "") -> None:
        """A button by what stands on it, or by its label."""

        def pressed() -> bool | None:
            for button in self.all(f"{within} button"):
                if name in (button.text.split("\n")[-1], button.get_attribute("aria-label")) and button.is_displayed():
                    self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
                    button.click()
                    return True
            return None

        self.until(pressed)

    def fill(self, label: str, value: str) -> None:
        """The field with this label gets this text."""
        field = self.one(f'[aria-label="{label}"]')
        self.driver.execute_script(
            "const set = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(arguments[0]), 'value').set;"
            "set.call(arguments[0], arguments[1]); arguments[0].dispatchEvent(new Event('input', {bubbles: true}));",
            field,
            value,
        )

    def complaints(self) -> list[str]:
        """Warnings and errors that the browser has logged about the page since the last call."""
        log: list[dict[str, str]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]


class ConsoleProcess:
    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tidings.cli", "console", "--port", "0", *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.home = line.split()[-1].rstrip("/")
        if not line.startswith("console on"):
            raise AssertionError(line + self._process.stdout.read())
        self.said: list[str] = []
        self._reader = threading.Thread(target=lambda out: self.said.extend(out), args=(self._process.stdout,))
        self._reader.start()

    def __enter__(self) -> "ConsoleProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


def start_chromium() -> Chrome:
    """Debian's, without a window."""
    options = ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "window-size=1280,1000"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=Service("/usr/bin/chromedriver"))
