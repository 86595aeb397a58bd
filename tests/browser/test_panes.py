"""Every pane in a real browser, on three brokers with a little traffic."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hardening.support.console import Browser, ConsoleProcess, WatchedNetwork
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users, add
from tidings.client import Client, connect
from tidings.client.subscription import Subscription
from tidings.delivery.policy import QueuePolicy
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.testing.local_broker import BrokerThread

PATHS = {
    "/": "Map",
    "/rates": "Rates",
    "/queues": "Queues",
    "/subscriptions": "Subscriptions",
    "/connections": "Connections",
    "/administration": "Administration",
    "/try": "Try out",
    "/trace": "Trace",
    "/capacity": "Capacity",
    "/routing": "Routing",
    "/playback": "Simulator",
}
# Made when the button still said so, heard of when it does no more.
LATE_CLICK = """
Object.defineProperty(arguments[0], "innerText", {get: () => "Subscribe", configurable: true});
arguments[0].click();
delete arguments[0].innerText;
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNetwork]:
    with WatchedNetwork(tmp_path_factory.mktemp("brokers")) as running:
        yield running


@pytest.fixture(scope="module")
def urls(network: WatchedNetwork) -> list[str]:
    return list(network.urls)


def test_the_map_shows_brokers_and_links_and_what_is_clicked(browser: Browser) -> None:
    browser.open("/")
    browser.sees("connected to broker 1, broker 2, broker 3")
    browser.until(lambda: len(browser.all(".node.up")) == 3 and len(browser.all(".link.up")) == 2)
    browser.click("[data-broker='2']")
    browser.sees("Utilisation", "of a core", "Routing", "bdrp", "Brokers, share of a core", "beside the busiest (")
    browser.until(lambda: browser.all(".link:not(.load-0)") or None)  # traffic colours them
    browser.one(".link").send_keys(Keys.ENTER)  # by keyboard
    browser.sees("Latency", "both ways")


def test_rates_move(browser: Browser) -> None:
    browser.open("/rates")
    browser.sees("Messages in a second", "broker 1", "broker 3")

    def counted() -> bool:
        return float(browser.one(".t-figure .value").text.replace(",", "").replace("–", "0")) > 0

    browser.until(lambda: counted() or None)
    assert browser.one("[aria-label='Rates over time'] canvas")


def test_rates_by_destination(browser: Browser) -> None:
    browser.open("/rates")

    def counted() -> bool:
        cells = [cell.text for cell in browser.all("[aria-label='Rates by destination'] tbody tr:first-child td")]
        figures = [float(cell) for cell in (cells[1], cells[3]) if cell != "…"] if len(cells) > 3 else []
        return cells[:1] == ["topic:ticks.xyz"] and len(figures) == 2 and min(figures) > 0

    browser.until(lambda: counted() or None)


def test_dead_letters_are_looked_at_moved_and_purged(browser: Browser, network: WatchedNetwork) -> None:
    async def fill(url: str) -> None:
        async with connect(url) as client:
            for number in range(3):
                body = f"<script>document.title='no. {number}'</script>".encode()
                await client.publish("queue:dead-letters", {"cause": "<b>x</b>"}, body, persistent=True)
            await client.publish("queue:orders", {"total": 1}, persistent=True)

    network.do(fill)
    browser.open("/queues")
    browser.sees("queue:orders", "<b>x</b>", "<script>document.title='no. 0'</script>", "ticks.>")
    assert "no." not in browser.driver.title, "what is in a message is text, never markup"
    browser.driver.execute_script("arguments[0].setAttribute('id', 'first')", browser.one("article"))
    browser.press("Delete", "#first")
    browser.sees("1 deleted")
    browser.until(lambda: len(browser.all("article")) == 2 or None)
    browser.fill("Move to queue", "queue:again")
    browser.press("Move all")
    browser.sees("2 moved to queue:again", "Nothing waits here.")
    browser.press("queue:again", ".t-table")
    browser.sees("no. 1", "no. 2")
    browser.press("Purge …")
    browser.press("Delete all")
    browser.sees("2 deleted", "Nothing waits here.")


def test_queues_with_long_names_are_told_apart(browser: Browser, network: WatchedNetwork) -> None:
    names = [f"queue:{'x' * 300}{last}" for last in "ab"]

    async def fill(url: str) -> None:
        async with connect(url) as client:
            for name in names:
                await client.publish(name, body=f"in {name[-1]}".encode(), persistent=True)

    network.do(fill)
    browser.open("/queues")
    for name in names:
        browser.click(f"[aria-label=Queues] button[title='{name}']")
        browser.sees(f"in {name[-1]}")
        assert name in browser.text(), "it is the heading of its messages"

    async def purge(url: str) -> None:
        async with connect(url) as client:
            for name in names:
                await client.queue(name).purge()

    network.do(purge)


def test_a_list_that_has_become_short_shows_its_last_page(browser: Browser, network: WatchedNetwork) -> None:
    async def subscribe(url: str) -> tuple[Client, list[Subscription]]:
        client = await connect(url)
        return client, [await client.subscribe(f"many.{number}") for number in range(60)]

    client, many = network.do(subscribe)
    browser.open("/subscriptions")
    browser.fill("Find", "many.")
    browser.sees("1–50 of 60")
    browser.press("Next page")
    browser.sees("51–60 of 60")

    async def leave(_: str) -> None:
        for one in many[40:]:
            await one.close()

    network.do(leave)
    browser.sees("1–40 of 40")
    network.do(lambda _: client.close())
    browser.sees("Nothing mentions “many.”.")


def test_subscriptions_show_selector_owner_and_matches(browser: Browser) -> None:
    browser.open("/subscriptions")
    browser.sees("price <= 20 AND stock LIKE 'X%'", "anonymous", "pub", "1–")
    browser.fill("Find", "no such thing")
    browser.sees("Nothing mentions “no such thing”.")
    browser.fill("Find", "LIKE")
    browser.sees("1–1 of 1")


def test_connections_are_listed(browser: Browser) -> None:
    browser.open("/connections")
    browser.sees("pub", "console", "127.0.0.1", "native", "ok")


def test_a_connection_is_closed(browser: Browser, network: WatchedNetwork) -> None:
    async def come(url: str) -> Client:
        client: Client = await connect(url, client_id="unwanted", reconnect=False)
        return client

    opened = network.do(come)
    browser.open("/connections")
    browser.press("unwanted", ".t-table")
    browser.sees("Close the connection of unwanted", "Its client may connect again.")
    browser.press("Close it")
    browser.sees("closed")
    browser.until(lambda: "unwanted" not in browser.one(".t-table").text or None)

    async def leave(_: str) -> None:
        await opened.close()

    network.do(leave)


def test_a_queue_is_looked_into_as_a_whole_and_deleted(browser: Browser, network: WatchedNetwork) -> None:
    properties = {f"field{number}": f"value {number}" for number in range(12)}

    async def fill(url: str) -> None:
        async with connect(url) as client:
            await client.publish("queue:whole", properties, b"x", persistent=True, correlation_id="c 1", priority=7)

    network.do(fill)
    browser.open("/queues")
    browser.sees("Unacknowledged")
    browser.press("queue:whole", ".t-table")
    browser.sees("Policy", "none", "Other headers and properties")
    assert browser.one("[aria-label='queue:whole over the last hour'] canvas")
    assert "value 11" not in browser.text()
    browser.click("article summary")
    browser.sees("value 11", "Correlation id", "c 1", "Priority", "7")
    browser.press("Delete queue …")
    browser.sees("Delete queue:whole at broker 1", "close the connections of its consumers?")
    browser.press("Delete all")
    browser.sees("1 messages deleted, and the queue", "There is no such queue.")


def test_policies_users_and_rules_are_shown(fresh: Chrome, tmp_path: Path) -> None:
    rules = AccessRules(
        (
            Rule("root", DestinationPattern.parse(">"), frozenset({"manage"})),
            Rule("", DestinationPattern.parse("secret.>"), frozenset({"publish"}), False, group="traders"),
        )
    )
    known = add(Users({}), "root", "pw", frozenset({"admins"}), Cost(n=2, r=1, p=1))
    policy = QueuePolicy(DestinationPattern.parse("queue:orders.>"), messages_max=500, deliveries_max=3)
    guard, password = UserGuard(known, rules, BrokerLimits()), tmp_path / "password"
    password.write_text("pw\n")
    login = ("--user", "root", "--password-file", str(password))
    with (
        BrokerThread(guard=guard, settings=NodeSettings(policies=(policy,))) as here,
        ConsoleProcess(here.url, *login) as console,
    ):
        browser = Browser(fresh, console.home)
        browser.open("/administration")
        browser.sees("queue:orders.>", "at most 500 messages, then refuse; 3 deliveries", "user root", "manage")
        browser.sees("group traders", "not: publish", "secret.>", "admins", "password or certificate")
        browser.sees("No user has a quota.")
        assert browser.complaints() == []


def test_a_message_is_published_received_and_traced(browser: Browser) -> None:
    browser.open("/try")
    browser.fill("Selector (empty: everything)", "price > 20 AND AND x")
    mark = browser.until(lambda: next((one.text for one in browser.all(".t-mark") if "^" in one.text), None))
    above, below = mark.split("\n")
    assert above[below.index("^") :] == "AND x", "the mark stands below the second AND"
    browser.sees("expected a value, found AND")
    browser.press("Subscribe")  # nothing happens while it is wrong
    browser.fill("Selector (empty: everything)", "note = 'hello'")
    browser.until(lambda: not any(one.is_displayed() for one in browser.all(".t-mark")) or None)
    browser.press("Subscribe")
    browser.until(lambda: any(one.text.endswith("Stop") for one in browser.all("button")) or None)
    browser.fill("Properties, as JSON", "{oops")
    browser.press("Publish")
    browser.sees("the properties are not JSON")
    browser.fill("Properties, as JSON", json.dumps({"note": "hello", "price": 50}))
    browser.fill("Body", "<i>what</i>")
    browser.press("Publish")
    browser.sees("Published as", "1 came", "<i>what</i>")
    browser.driver.find_element(By.LINK_TEXT, "Trace it").click()
    browser.until(lambda: len(browser.all(".node.lit")) == 3 or None)
    browser.sees("published here", "far reader", "brokers asked")
    assert len(browser.all(".link.lit")) == 2
    assert any("p " in one.text for one in browser.all(".node.lit .note"))


def test_two_quick_clicks_subscribe_once(browser: Browser, network: WatchedNetwork) -> None:
    async def subscribed(url: str) -> int:
        async with connect(url) as client:
            found = await client.inspect("subscriptions", count=50, containing="twice.>")
            return int(found["total"])

    async def publish(url: str) -> None:
        async with connect(url) as client:
            await client.publish("twice.one", {"price": 50})

    browser.open("/try")
    browser.sees("Nothing yet")
    browser.fill("Destination", "twice.>")
    button = browser.until(lambda: next((one for one in browser.all("button") if "Subscribe" in one.text), None))
    browser.driver.execute_script("arguments[0].click(); arguments[0].click()", button)
    browser.until(lambda: button.text.endswith("Stop") or None)
    network.do(publish)
    browser.sees("1 came")  # by then a second subscription would be there
    browser.driver.execute_script(LATE_CLICK, button)
    network.do(publish)
    browser.sees("2 came")
    assert network.do(subscribed) == 1
    browser.press("Stop")
    browser.until(lambda: network.do(subscribed) == 0 or None)


def test_an_unknown_id_is_explained(browser: Browser) -> None:
    browser.open("/trace")
    browser.sees("Paste the id of a message")
    browser.fill("Message id (32 hexadecimal digits)", "xyz")
    browser.press("Trace")
    browser.until(lambda: any(one.text for one in browser.all(".t-problem")) or None)
    browser.fill("Message id (32 hexadecimal digits)", "0" * 15 + "1" + "0" * 7 + "1" + "0" * 8)
    browser.press("Trace")
    browser.sees("asked")


def test_routes_are_shown(browser: Browser) -> None:
    browser.open("/routing")
    browser.sees("3: broker 3", "broker 2", "directly", "bdrp", "Copies sent to other brokers")
    browser.sees("Interests by cost", "encoded", "Only brokers that route by covering have these tables.")


def test_a_scenario_is_run_and_played(browser: Browser) -> None:
    browser.open("/playback")
    browser.sees("Run the scenario")
    browser.press("Run")
    browser.sees("step 1 of")
    browser.until(lambda: len(browser.all(".node")) == 4 or None)
    browser.press("Step forward")
    browser.sees("step 2 of")
    browser.press("Play")
    browser.until(lambda: browser.all(".link.up") or None)
    browser.press("Pause")
    browser.fill("Scenario or transcript", "12.0  a  link to b up\n13.0  b  link to a up\n20.0  a  crashes")
    browser.press("Run")
    browser.sees("step 1 of 3")


def test_every_pane_is_for_phones_the_dark_and_keyboards(browser: Browser) -> None:
    driver = browser.driver
    metrics = {"width": 390, "height": 780, "deviceScaleFactor": 1, "mobile": True}
    browser.open("/")  # whose cookie it is
    driver.add_cookie({"name": "tidings_theme", "value": "dark"})
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for path, title in PATHS.items():
            browser.open(path)
            browser.sees(title, "connected to")
            browser.until(lambda: browser.all("body.body--dark") or None)
            facts: dict[str, Any] = driver.execute_script(_FACTS)
            assert facts["wide"] == [], f"{path}: nothing reaches beyond a phone's page"
            assert facts["unnamed"] == [], f"{path}: everything that can be used has a name"
            assert (facts["mains"], facts["navs"], facts["headings"]) == (1, 1, [title])
            driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
            assert driver.switch_to.active_element.text == "Skip to the pane"
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.delete_cookie("tidings_theme")


_FACTS = """
const shown = (one) => one.offsetParent !== null;
const wide = document.scrollingElement.scrollWidth > innerWidth + 1
  ? [...document.querySelectorAll('main *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
      .slice(0, 3).map((one) => one.outerHTML.slice(0, 200)) : [];
const usable = 'button, a, input, textarea, [role=button], [role=slider]';
const controls = [...document.querySelectorAll(usable)].filter(shown);
const named = (one) => one.innerText?.trim() || one.getAttribute('aria-label') || one.labels?.length
  || one.getAttribute('aria-labelledby') || one.closest('label') || one.closest('[aria-label]');
return {
  wide, unnamed: controls.filter((one) => !named(one)).map((one) => one.outerHTML.slice(0, 200)),
  mains: document.querySelectorAll('main').length, navs: document.querySelectorAll('nav').length,
  headings: [...document.querySelectorAll('h1')].map((one) => one.innerText),
};
"""


def test_brokers_that_stand_alone_are_shown_each(chromium: Chrome) -> None:
    with BrokerThread() as one, BrokerThread() as other, ConsoleProcess(one.url, other.url) as console:
        page = Browser(chromium, console.home)
        page.open("/")
        page.sees("connected to ")
        page.until(lambda: len(page.all(".node.up")) == 2)
        page.open("/rates")
        page.sees(*(f"broker 1 ({url.partition('://')[2]})" for url in (one.url, other.url)))
        page.open("/capacity")
        page.sees("broker 1", "estimates nothing")
        assert page.complaints() == []


def _long_run() -> str:
    """Minutes: everybody has a link to everybody, and every message takes them all."""
    links = [f"{{between = [{a}, {b}]}}" for a in range(1, 41) for b in range(1, a)]
    publish = "[[publish]]\nat = 2000\nbroker = 1\nattributes = {price = 50}\ncount = 50000\nevery_ms = 0\n"
    subscribe = "".join(f"[[subscribe]]\nat = 500\nbroker = {broker}\n" for broker in range(1, 41))
    return f"scheme = 'flooding'\n{publish}{subscribe}[topology]\nlinks = [{', '.join(links)}]"


def test_a_run_is_stopped_by_its_button_and_by_the_end_of_the_console(fresh: Chrome, network: WatchedNetwork) -> None:
    with ConsoleProcess(network.urls[0]) as console:
        page = Browser(fresh, console.home)
        page.open("/playback")
        page.fill("Scenario or transcript", _long_run())
        page.press("Run")
        page.press("Stop")
        page.sees("the run was stopped")
        page.press("Run")
        page.until(lambda: any(one.text.endswith("Stop") for one in page.all("button")) or None)
        page.driver.get("about:blank")
    assert [line for line in console.said if "Traceback" in line] == []
