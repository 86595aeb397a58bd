"""One browser for all tests of the console."""

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tidings.testing.console import start_chromium


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


def _leave(driver: Chrome) -> None:
    driver.get("about:blank")
    driver.get_log("browser")  # type: ignore[no-untyped-call]
