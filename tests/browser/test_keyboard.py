"""Where the keyboard's focus is, that it can be seen, and what the page tells to those who listen to it."""

from collections.abc import Iterator
from typing import Any

import pytest
from hardening.support.console import Browser
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tidings import sync
from tidings.testing.local_broker import BrokerThread


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture(scope="module")
def urls(broker: BrokerThread) -> list[str]:
    return [broker.url]


def _put(broker: BrokerThread, name: str, count: int) -> None:
    with sync.connect(broker.url) as client:
        for _ in range(count):
            client.publish(name, body=b"x", persistent=True, wait=True)


def _focus(browser: Browser, css: str) -> None:
    browser.driver.execute_script("arguments[0].focus()", browser.one(css))


def _named(browser: Browser) -> str:
    active = browser.driver.switch_to.active_element
    return str(active.get_attribute("title") or active.get_attribute("aria-label") or active.tag_name)


def _queues(browser: Browser) -> list[str | None]:
    return [one.get_attribute("title") for one in browser.all("[aria-label=Queues] tbody button")]


def test_a_list_that_is_sorted_anew_keeps_the_focus(browser: Browser, broker: BrokerThread) -> None:
    for count, name in enumerate(("queue:c", "queue:b", "queue:a"), 1):
        _put(broker, name, count)
    browser.open("/queues")
    for focused, grows, order in (("c", "c", "cab"), ("c", "a", "acb"), ("b", "b", "abc")):
        browser.until(lambda: len(_queues(browser)) == 3 or None)
        _focus(browser, f"button[title='queue:{focused}']")
        _put(broker, f"queue:{grows}", 10)
        wanted = [f"queue:{one}" for one in order]
        browser.until(lambda wanted=wanted: _queues(browser) == wanted or None)  # type: ignore[misc]
        assert _named(browser) == f"queue:{focused}"


def test_after_a_deletion_the_focus_is_where_the_messages_are(browser: Browser, broker: BrokerThread) -> None:
    _put(broker, "queue:gone", 3)
    browser.open("/queues")
    browser.press("queue:gone", ".t-table")
    browser.until(lambda: len(browser.all("article")) == 3 or None)
    _focus(browser, "article button.text-negative")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.until(lambda: len(browser.all("article")) == 2 or None)
    assert _named(browser) == "Messages"
    _focus(browser, "section[aria-label=Messages] .t-row button.text-negative:last-child")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.sees("Delete everything that waits in queue:gone?")
    browser.until(lambda: browser.driver.switch_to.active_element.text == "Keep it" or None)
    browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.sees("2 deleted", "Nothing waits here.")
    assert _named(browser) == "Messages"


def test_the_last_page_keeps_the_focus_on_the_button_that_led_there(browser: Browser, broker: BrokerThread) -> None:
    with sync.connect(broker.url) as client:
        many = [client.subscribe(f"many.{number}") for number in range(60)]
        browser.open("/subscriptions")
        browser.sees("1–50 of 60")
        assert browser.one("[aria-label='Page before']").get_attribute("aria-disabled") == "true"
        _focus(browser, "[aria-label='Next page']")
        browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
        browser.sees("51–60 of 60")
        assert _named(browser) == "Next page"
        browser.until(lambda: browser.one("[aria-label='Next page']").get_attribute("aria-disabled") == "true" or None)
        browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
        browser.press("Page before")
        browser.sees("1–50 of 60")
        for one in many:
            one.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_focus_can_be_seen(browser: Browser, theme: str) -> None:
    driver = browser.driver
    browser.open("/try")
    driver.add_cookie({"name": "tidings_theme", "value": theme})
    try:
        browser.open("/try")
        browser.sees("Nothing yet")
        driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)  # what is focused by a mouse has no mark
        for css in ("nav a:nth-child(3)", "header button", ".t-card button.bg-primary"):
            _focus(browser, css)
            drawn: dict[str, Any] = driver.execute_script(_DRAWN)
            assert drawn["outline"] == "solid 2px", css
            for ground in drawn["grounds"]:
                assert _contrast(drawn["colour"], ground) >= 3, (css, drawn)
    finally:
        driver.delete_cookie("tidings_theme")


_DRAWN = """
const of = (element) => getComputedStyle(element);
const {outlineStyle, outlineWidth, outlineColor} = of(document.activeElement);
const grounds = [document.body, document.querySelector(".t-card")];
return {
  outline: `${outlineStyle} ${outlineWidth}`, colour: outlineColor,
  grounds: grounds.map((one) => of(one).backgroundColor),
};
"""


def _contrast(one: str, other: str) -> float:
    """As WCAG has it, of two colours as a browser writes them."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_roles_are_those_of_the_things(browser: Browser) -> None:
    browser.open("/playback")
    browser.until(lambda: browser.all(".q-slider[role=presentation]") or None)
    assert {one.get_attribute("role") for one in browser.all("nav a")} == {"link"}
    values = "[aria-valuemin], [aria-valuemax], [aria-valuenow], [aria-label]"
    assert browser.all(f".q-slider:is({values})") == []
    assert browser.one("[role=slider][aria-label=Step][tabindex='0']").get_attribute("aria-valuenow") == "0"


def test_the_keyboard_reaches_tables_that_scroll(browser: Browser, broker: BrokerThread) -> None:
    _put(broker, f"queue:{'x' * 300}", 1)
    driver = browser.driver
    wide = {"width": 2400, "height": 780, "deviceScaleFactor": 1, "mobile": False}
    narrow = {"width": 320, "height": 780, "deviceScaleFactor": 1, "mobile": True}
    try:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", wide)
        browser.open("/queues")
        browser.until(lambda: browser.all("[aria-label=Queues] [role=group]:not([tabindex])") or None)
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
        browser.until(lambda: browser.all("[role=group][aria-label=Queues][tabindex='0']") or None)
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
