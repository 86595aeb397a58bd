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
