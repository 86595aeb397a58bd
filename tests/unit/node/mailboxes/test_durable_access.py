"""Durable subscriptions whose subscribers' rules change: nothing that they may have is lost, nothing else comes."""

from dataclasses import dataclass, replace

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.delivery.store import MailboxAdded, MemoryStore
from tidings.model.selector import Selector
from tidings.node.clients import subscription_plan
from tidings.node.requests import Done, Failed


@dataclass(frozen=True)
class User:
    """May do everything but, if so, manage; gets what its rule's selector lets through."""

    selector: str = ""
    manages: bool = False
    name: str = "user"

    def may(self, operation: str, destination: str) -> bool:
        return operation != "manage" or self.manages

    def restriction(self, destination: str, operation: str = "subscribe") -> str:
        return self.selector


FREE, EU, US = User(), User("region = 'EU'"), User("region = 'US'")
OWN, SHARED = {"durable": "d"}, {"durable": "d", "shared": "d"}


def publish(driver: NodeDriver, *regions: str) -> None:
    writer = driver.connect()
    for region in regions:
        writer.publish(driver.message("news", region.encode(), {"region": region[:2]}))
    writer.leave()


def attach(driver: NodeDriver, user: User, durable: dict[str, str], selector: str = "") -> DrivenClient:
    client = driver.connect("c", user)
    answer = client.answer(client.subscribe(1, "news", selector=selector, **durable))
    assert isinstance(answer, Done), answer
    return client


def take(driver: NodeDriver, user: User, durable: dict[str, str], selector: str = "") -> list[bytes]:
    client = attach(driver, user, durable, selector)
    got = client.receive()
    client.ack(*got)
    client.leave()
    return [one.body for one in got]


@pytest.mark.parametrize("durable", [OWN, SHARED])
@pytest.mark.parametrize("user", [FREE, EU])
def test_what_version_1_of_the_language_stored_keeps_its_meaning_until_it_is_asked_for_again(
    durable: dict[str, str], user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Former(Selector):
        def __init__(self, text: str, version: int = 1) -> None:
            super().__init__(text, version)

    def publish_sizes(*sizes: int) -> None:
        writer = driver.connect()
        for size in sizes:
            writer.publish(driver.message("news", b"%d" % size, {"region": "EU", "size": size}))
        writer.leave()

    driver, half = NodeDriver(), "size / 2 = 2"
    with monkeypatch.context() as patch:
        patch.setattr(subscription_plan, "Selector", Former)
        assert take(driver, user, durable, half) == []
    driver.crash()
    publish_sizes(4, 5, 6)
    assert take(driver, user, durable, half) == [b"4", b"5"], "the fraction was dropped when it was stored"
    publish_sizes(4, 5, 6)
    assert take(driver, user, durable, half) == [b"4"]


@pytest.mark.parametrize("durable", [OWN, SHARED])
@pytest.mark.parametrize("crash", [False, True])
def test_a_rule_that_gains_a_selector_empties_no_durable_subscription(durable: dict[str, str], crash: bool) -> None:
    driver = NodeDriver()
    assert take(driver, FREE, durable) == []
    publish(driver, "EU1", "US1")
    if crash:
        driver.crash()
    assert take(driver, EU, durable) == [b"EU1"]
    publish(driver, "EU2", "US2")
    driver.tick()
    if crash:
        driver.crash()
    assert take(driver, EU, durable) == [b"EU2"]
    late = [b"US1"] if durable is OWN else [b"US1", b"US2"]  # what is shared, others may want
    assert take(driver, FREE, durable) == late, "what a rule kept from its user comes when it no longer does"
    publish(driver, "US3")
    assert take(driver, FREE, durable) == [b"US3"]


@pytest.mark.parametrize("durable", [OWN, SHARED])
def test_one_rule_after_another(durable: dict[str, str]) -> None:
    driver = NodeDriver()
    assert take(driver, EU, durable) == []
    publish(driver, "EU1", "US1")
    assert take(driver, US, durable) == []
    publish(driver, "EU2", "US2")
    assert take(driver, US, durable) == [b"US2"]


@pytest.mark.parametrize("durable", [OWN, {"durable": "d", "shared": "d"}])
def test_another_selector_of_the_subscriber_is_another_subscription(durable: dict[str, str]) -> None:
    driver = NodeDriver()
    manager = replace(EU, manages=True)
    take(driver, manager, durable, "n IS NULL")
    publish(driver, "EU1")
    assert take(driver, manager, durable, "n IS NULL OR n > 1") == []
    publish(driver, "EU2")
    assert take(driver, manager, durable, "n IS NULL OR n > 1") == [b"EU2"]


def test_who_shares_gets_what_the_own_rule_admits() -> None:
    driver = NodeDriver()
    first, second = attach(driver, EU, SHARED), attach(driver, US, SHARED)
    publish(driver, "EU1", "US1", "JP1", "EU2")
    assert (first.bodies(), second.bodies()) == ([b"EU1", b"EU2"], [b"US1"])
    other = driver.connect("c", FREE)
    assert isinstance(other.answer(other.subscribe(1, "news", selector="n > 1", **SHARED)), Failed)


def test_only_who_may_manage_a_shared_one_narrows_it() -> None:
    driver = NodeDriver()
    take(driver, FREE, SHARED)
    take(driver, replace(EU, manages=True), SHARED)
    publish(driver, "EU1", "US1")
    assert take(driver, FREE, SHARED) == [b"EU1"]


def test_a_store_that_did_not_keep_what_was_asked_for() -> None:
    first = NodeDriver()
    take(first, FREE, OWN)
    publish(first, "EU1", "US1")
    (box,) = first.store.recover().mailboxes
    assert isinstance(first.store, MemoryStore)
    first.store.append([MailboxAdded(box.mailbox, box.name, box.kind, box.predicate)])
    first.crash()
    assert take(first, EU, OWN) == [b"EU1"]


def test_a_message_that_was_matched_before_is_not_lost() -> None:
    """The plane's events name the sinks of the moment when it read them."""
    driver = NodeDriver()
    take(driver, FREE, OWN)
    (mailbox,) = driver.node.mailbox_service.mailboxes.by_name.values()
    (sink,) = driver.node.mailbox_service.mailboxes.by_sink
    attach(driver, EU, OWN)
    message = driver.message("news", b"EU1", {"region": "EU"})
    assert driver.node.mailbox_service.mailboxes.for_message(message, [sink]) == [mailbox]
    driver.tick()
    assert driver.node.mailbox_service.mailboxes.for_message(message, [sink]) == []
    assert driver.node.mailbox_service.mailboxes.for_message(message, driver.plane.match(message)) == [mailbox]
