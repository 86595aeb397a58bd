"""Brokers that stand alone, each with a queue of the same name: what is done is done at the one that is shown."""

from collections.abc import Iterator

import pytest
from hardening.support.console import Browser

from tidings import sync
from tidings.testing.local_broker import BrokerThread

QUEUE = "queue:orders"


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[BrokerThread]]:
    with BrokerThread() as one, BrokerThread() as other:
        yield [one, other]


@pytest.fixture(scope="module")
def urls(brokers: list[BrokerThread]) -> list[str]:
    return [one.url for one in brokers]


@pytest.fixture
def depths(brokers: list[BrokerThread]) -> Iterator["Depths"]:
    found = Depths(brokers)
    found.fill()
    yield found
    found.empty()


class Depths:
    """How much waits in the queue of either broker: two messages at first."""

    def __init__(self, brokers: list[BrokerThread]) -> None:
        self._urls = [one.url for one in brokers]

    def fill(self) -> None:
        for number, url in enumerate(self._urls, 1):
            with sync.connect(url) as client:
                for _ in range(2):
                    client.publish(QUEUE, body=f"at no. {number}".encode(), persistent=True, wait=True)

    def empty(self) -> None:
        for url in self._urls:
            with sync.connect(url) as client:
                client.queue(QUEUE).purge()

    def now(self) -> list[int]:
        found = []
        for url in self._urls:
            with sync.connect(url) as client:
                found += [one["waiting"] for one in client.inspect("mailboxes", count=9)["items"]]
        return found


def _choose(browser: Browser, broker: BrokerThread) -> None:
    browser.click(".q-select")
    address = broker.url.partition("://")[2]
    browser.until(lambda: _pressed(browser, address))


def _pressed(browser: Browser, address: str) -> bool | None:
    for option in browser.all(".q-menu .q-item"):
        if address in option.text:
            option.click()
            return True
    return None


def _look_into(browser: Browser, broker: BrokerThread, number: int) -> None:
    browser.open("/queues")
    _choose(browser, broker)
    browser.until(lambda: not browser.all(".q-menu") or None)
    browser.press(QUEUE, ".t-table")
    browser.sees(f"at no. {number}", f"At broker 1 ({broker.url.partition('://')[2]}).")


def test_messages_of_the_broker_before_are_not_left_standing(
    browser: Browser, brokers: list[BrokerThread], depths: Depths
) -> None:
    _look_into(browser, brokers[0], 1)
    _choose(browser, brokers[1])
    browser.until(lambda: "at no. 1" not in browser.text() or None)
    browser.until(lambda: not browser.all(".q-menu") or None)
    browser.press(QUEUE, ".t-table")
    browser.sees("at no. 2")
    browser.press("Purge …")
    browser.sees(f"Delete everything that waits in {QUEUE} at broker 1 ({brokers[1].url.partition('://')[2]})?")
    assert browser.one(".q-dialog").get_attribute("aria-label") == browser.one(".q-dialog .text-weight-bold").text
    browser.press("Delete all")
    browser.sees("2 deleted", "Nothing waits here.")
    assert depths.now() == [2, 0]


def test_another_tab_does_not_choose_for_this_one(
    browser: Browser, brokers: list[BrokerThread], depths: Depths
) -> None:
    driver = browser.driver
    here = driver.current_window_handle
    _look_into(browser, brokers[0], 1)
    driver.switch_to.new_window("tab")
    try:
        _look_into(browser, brokers[1], 2)
    finally:
        driver.close()
        driver.switch_to.window(here)
    browser.press("Delete", "article")
    browser.sees("1 deleted")
    browser.until(lambda: len(browser.all("article")) == 1 or None)
    assert depths.now() == [1, 2]
    browser.fill("Move to queue", "queue:elsewhere")
    browser.press("Move all")
    browser.sees("1 moved to queue:elsewhere")
    assert sorted(depths.now()) == [0, 1, 2], "the one that was moved is at the same broker"


def test_a_message_is_traced_at_the_broker_it_was_published_to(browser: Browser, brokers: list[BrokerThread]) -> None:
    driver = browser.driver
    here = driver.current_window_handle
    browser.open("/try")
    _choose(browser, brokers[0])
    browser.until(lambda: not browser.all(".q-menu") or None)
    browser.press("Publish")
    browser.sees("Published as")
    driver.switch_to.new_window("tab")
    try:
        browser.open("/queues")
        _choose(browser, brokers[1])  # now the latest choice
        browser.until(lambda: not browser.all(".q-menu") or None)
    finally:
        driver.close()
        driver.switch_to.window(here)
    browser.click("a[href^='/trace?id=']")
    browser.sees("What the brokers say")
    assert brokers[0].url.partition("://")[2] in browser.one(".q-select").text


def test_a_question_is_asked_again_and_again_by_the_same_dialog(
    browser: Browser, brokers: list[BrokerThread], depths: Depths
) -> None:
    _look_into(browser, brokers[0], 1)
    counts = []
    for _ in range(3):
        browser.press("Purge …")
        browser.press("Keep it")
        browser.until(lambda: not browser.all(".q-dialog") or None)
        counts.append(browser.driver.execute_script("return Object.keys(mounted_app.elements).length"))
    assert len(set(counts)) == 1, "nothing is left behind"
    assert depths.now()[0] == 2
