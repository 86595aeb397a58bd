"""Takes the pictures of the console, in headless Chromium: `python -m docs.pictures.console [FOLDER] [PATH…]`.

Without paths those of the documentation; a path such as /queues takes that pane, light, dark and on a phone.
"""

import sys
import tempfile
from pathlib import Path

from hardening.support.console import Browser, ConsoleProcess, WatchedNetwork, start_chromium

from tidings.client import connect

EDGES = [(1, 2), (2, 3), (1, 3), (1, 4), (3, 4), (3, 5)]
WIDE, PHONE = (1280, 880), (420, 900)


def main(folder: Path, paths: list[str]) -> None:
    with (
        tempfile.TemporaryDirectory() as data,
        WatchedNetwork(Path(data), EDGES) as network,
        ConsoleProcess(*network.urls) as console,
    ):
        driver = start_chromium()
        try:
            photographer = Photographer(Browser(driver, console.home), folder)
            if paths:
                for path in paths:
                    photographer.pane(path)
            else:
                photographer.documentation(network)
        finally:
            driver.quit()


class Photographer:
    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser, self._folder = browser, folder

    def documentation(self, network: WatchedNetwork) -> None:
        self._map("light", WIDE)
        self._save("console-map")
        self._map("light", PHONE)
        self._save("console-phone")
        network.do(orders)
        self._look("light", WIDE, "/queues")
        self._browser.press("queue:orders", ".t-table")
        self._browser.sees("Other headers and properties")
        self._browser.until(lambda: self._browser.all("[aria-label*='over the last hour'] canvas") or None)
        self._browser.driver.set_script_timeout(120)
        self._browser.driver.execute_async_script("setTimeout(arguments[0], 65000)")  # a minute of depths
        self._save("console-queues")
        self._look("dark", WIDE, f"/trace?id={network.do(published)}")
        self._browser.until(lambda: self._browser.all(".node.lit .note") or None)
        self._save("console-trace")

    def pane(self, path: str) -> None:
        name = path.strip("/") or "map"
        for theme, size in (("light", WIDE), ("dark", WIDE), ("light", PHONE)):
            self._look(theme, size, path)
            kind = "phone" if size == PHONE else theme
            self._browser.sees("connected to 5 brokers")
            self._save(f"{name}-{kind}")

    def _map(self, theme: str, size: tuple[int, int]) -> None:
        self._look(theme, size, "/")
        self._browser.until(lambda: self._browser.all(".link:not(.load-0)") or None)
        self._browser.click("[data-broker='1']")
        self._browser.sees("Utilisation", "deliveries/s")
        self._browser.driver.execute_script("window.scrollTo(0, 0)")

    def _look(self, theme: str, size: tuple[int, int], path: str) -> None:
        driver = self._browser.driver
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)  # a window is never so narrow
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        self._browser.open("/")
        driver.add_cookie({"name": "tidings_theme", "value": theme})
        self._browser.open(path)

    def _save(self, name: str) -> None:
        self._browser.driver.execute_async_script("setTimeout(arguments[0], 2500)")  # figures of two seconds, at rest
        self._browser.driver.save_screenshot(str(self._folder / f"{name}.png"))


async def published(url: str) -> str:
    """The id of a message that is on its way to the last broker."""
    async with connect(url) as client:
        receipt = await client.publish("ticks.xyz", {"price": 50, "stock": "XYZ"}, persistent=True)
        return str(receipt.message_id)


async def orders(url: str) -> None:
    async with connect(url) as client:
        for number in range(12):
            body = b'{"items": [1, 2, 3]}'
            await client.publish("queue:orders", {"total": 100 * number, "region": "EU"}, body, persistent=True)
        await client.publish("queue:invoices", {"total": 1200}, persistent=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent, sys.argv[2:])
