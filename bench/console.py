"""Responsiveness of the console with 100 brokers and 10 000 subscriptions: python -m bench.console

Two consoles fed with made-up brokers, a small one (4 brokers, 10 subscriptions) as reference and a large one, each in
headless Chromium: how long a page takes, how long after a click its answer is seen, how long the page's thread is held
up while updates come in, and the processor time of console and browser a second. And one real broker, with 10 and with
10 000 subscriptions: how long it takes to answer INSPECT, which is time it does nothing else in.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hardening.support.console import Browser, start_chromium

from bench.harness import save, table
from tidings.broker.inspection import inspect
from tidings.client import connect
from tidings.node.protocol_session import Inspect
from tidings.testing.local_broker import local_broker

SMALL, LARGE = (4, 10), (100, 10_000)
CLICKS, WATCHED_SECONDS = 20, 10.0
_WATCH = """
window.gaps = []; let last = performance.now();
const step = (now) => { window.gaps.push(now - last); last = now; requestAnimationFrame(step); };
requestAnimationFrame(step);
"""
# Clicks, and tells after how many milliseconds a text is on the page.
_CLICK = """
const [target, selector, text, done] = arguments, began = performance.now();
const look = () => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text));
const seen = () => { if (look()) { observer.disconnect(); done(performance.now() - began); } };
const observer = new MutationObserver(seen);
observer.observe(document.body, {childList: true, subtree: true, characterData: true});
target.dispatchEvent(new MouseEvent('click', {bubbles: true}));
"""


def fed(brokers: int, subscriptions: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.console_feed", str(brokers), str(subscriptions)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    driver = start_chromium()
    driver.set_script_timeout(60)
    try:
        browser = Browser(driver, f"http://127.0.0.1:{process.stdout.readline().strip()}")
        browser.open("/")
        browser.until(lambda: len(browser.all(".node")) == brokers or None)  # the libraries are in the cache now
        began = time.perf_counter()
        browser.open("/")
        browser.until(lambda: len(browser.all(".node")) == brokers or None)
        found: dict[str, Any] = {"brokers": brokers, "subscriptions": subscriptions}
        found["map_seconds"] = time.perf_counter() - began
        found |= _watched(browser, process.pid)
        found["click_ms"] = statistics.median(_clicks(browser, brokers))
        found |= _pages(browser, subscriptions)
    finally:
        driver.quit()
        process.terminate()
        process.wait()
        process.stdout.close()
    return found


def _watched(browser: Browser, pid: int) -> dict[str, float]:
    """The map, while updates come in."""
    browser.driver.execute_script(_WATCH)
    before = _cpu_seconds(pid)
    time.sleep(WATCHED_SECONDS)
    busy = _cpu_seconds(pid) - before
    gaps = sorted(browser.driver.execute_script("return window.gaps"))
    return {
        "frame_ms_median": statistics.median(gaps),
        "frame_ms_99": gaps[int(len(gaps) * 0.99)],
        "frame_ms_max": gaps[-1],
        "console_cpu_share": busy / WATCHED_SECONDS,
    }


def _clicks(browser: Browser, brokers: int) -> list[float]:
    """From a click on a broker until its details are there."""
    times = []
    for number in range(CLICKS):
        id = number % brokers + 1
        node = browser.one(f"[data-broker='{id}']")
        times.append(browser.driver.execute_async_script(_CLICK, node, "h2", f"site-{id}"))
    return times


def _pages(browser: Browser, subscriptions: int) -> dict[str, float]:
    """The list of subscriptions: open it, turn a page, look for a text."""
    began = time.perf_counter()
    browser.open("/subscriptions")
    browser.sees(f"of {subscriptions}")
    found = {"list_seconds": time.perf_counter() - began}
    if subscriptions > 50:
        times = []
        for page in range(1, CLICKS + 1):
            button = browser.one("[aria-label='Next page']")
            told = f"{page * 50 + 1}–"
            times.append(browser.driver.execute_async_script(_CLICK, button, "[role=status]", told))
        found["turn_ms"] = statistics.median(times)
    began = time.perf_counter()
    browser.fill("Find", f"> {subscriptions - 1}")
    browser.sees("1–1 of 1")
    return found | {"find_seconds": time.perf_counter() - began}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def real(subscriptions: int) -> dict[str, Any]:
    """Milliseconds of the broker's thread for one answer."""
    async with local_broker() as here, connect(here.url) as client:
        for number in range(subscriptions):
            await client.subscribe(f"ticks.{number % 1000}.>", selector=f"price > {number}")
        (client_connection,) = here.broker.engine.view.connections.values()
        asked = {
            "overview_ms": Inspect(1),
            "page_ms": Inspect(1, "subscriptions", offset=subscriptions - 5, count=50),
            "find_ms": Inspect(1, "subscriptions", count=50, containing=f"> {subscriptions - 1}"),
            "destinations_ms": Inspect(1, "destinations", count=25),
        }
        found: dict[str, Any] = {"subscriptions": subscriptions}
        for name, request in asked.items():
            times = []
            for _ in range(20):
                began = time.thread_time()
                inspect(here.broker.view(), client_connection.principal, request)
                times.append(time.thread_time() - began)
            found[name] = statistics.median(times) * 1000
        return found


def main() -> None:
    pages = [fed(*SMALL), fed(*LARGE)]
    brokers = [asyncio.run(real(SMALL[1])), asyncio.run(real(LARGE[1]))]
    ratios = {name: pages[1][name] / pages[0][name] for name in pages[0] if name in pages[1]}
    names = list(pages[1])
    table("In the browser", names, [[one.get(name, "") for name in names] for one in pages])
    table("A real broker", list(brokers[0]), [list(one.values()) for one in brokers])
    print(f"\n{save('console', {'fed': pages, 'large_over_small': ratios, 'real': brokers})}")


if __name__ == "__main__":
    main()
