"""One browser for all tests of the console, and a console for those of one file that says which brokers it watches."""

from collections.abc import Iterator

import pytest
from hardening.support.console import Browser, ConsoleProcess, start_chromium
from selenium.webdriver import Chrome


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chrome]:
    driver = start_chromium()
    yield driver
    driver.quit()


@pytest.fixture
def fresh(chromium: Chrome) -> Iterator[Chrome]:
    """The browser without a page, before and after: one whose console has ended would go on complaining."""
    _leave(chromium)
    yield chromium
    _leave(chromium)


@pytest.fixture(scope="module")
def console(urls: list[str]) -> Iterator[ConsoleProcess]:
    """`urls`: a fixture of the file."""
    with ConsoleProcess(*urls) as running:
        yield running
    assert [line for line in running.said if "Traceback" in line] == []


@pytest.fixture
def browser(fresh: Chrome, console: ConsoleProcess) -> Iterator[Browser]:
    page = Browser(fresh, console.home)
    yield page
    assert page.complaints() == []


def _leave(driver: Chrome) -> None:
    driver.get("about:blank")
    driver.get_log("browser")  # type: ignore[no-untyped-call]
