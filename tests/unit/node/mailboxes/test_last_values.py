"""Last values: after any crash each topic has the last message published to it, compared with a plain dictionary."""

import random

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.delivery.store import MemoryStore
from tidings.kernel.codec import decode_message
from tidings.model.destination import Destination, DestinationPattern
from tidings.node.requests import Done, Failed, ReadRetained, Retain
from tidings.node.settings import NodeSettings

SETTINGS = NodeSettings(last_values=True)
PATTERNS = (">", "a", "a.*", "a.>", "*.b", "c.d.e", "nothing")
TOPICS = ("a", "a.b", "a.c", "c.b", "c.d.e")


def read(client: DrivenClient, pattern: str, **options: object) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    after = 0
    while True:
        request = ReadRetained(client.next_receipt(), "", after, destination=pattern, messages=3, **options)  # type: ignore[arg-type]
        client.ask(request)
        answer = client.session.said[-1]
        assert isinstance(answer, Done), answer
        if not answer.retained:
            return found
        for _, encoded in answer.retained:
            message = decode_message(encoded)
            assert message.destination.name not in found
            found[message.destination.name] = message.body
        after = int(str(answer.fields["next"]))


@pytest.mark.parametrize("seed", range(20))
def test_each_topic_has_its_last_message(seed: int) -> None:
    rng, expected = random.Random(seed), dict[str, bytes]()
    driver = NodeDriver(MemoryStore(), SETTINGS)
    client = driver.connect()
    for step in range(150):
        topic, body = rng.choice(TOPICS), b"" if rng.random() < 0.3 else f"{step}".encode()
        retained = rng.random() < 0.7
        properties = {"JMSXRetain": True} if retained else {}
        client.publish(driver.message(topic, body, properties, persistent=rng.random() < 0.5))
        driver.turn()
        if retained:
            expected.pop(topic, None)
            expected |= {topic: body} if body else {}
        if rng.random() < 0.05:
            driver.crash()
            client = driver.connect()
        if rng.random() < 0.1:
            driver.tick()
        if rng.random() < 0.2:
            pattern = rng.choice(PATTERNS)
            matching = DestinationPattern(pattern)
            assert read(client, pattern) == {
                one: body for one, body in expected.items() if matching.matches(Destination(one))
            }
    assert expected
    assert sum(len(one) for one in driver.store.recover().waiting.values()) >= len(expected)
    driver.tick()
    driver.crash()
    assert sum(len(one) for one in driver.store.recover().waiting.values()) == len(expected)


def test_an_expired_one_is_gone() -> None:
    driver = NodeDriver(MemoryStore(), SETTINGS)
    client = driver.connect()
    for topic, expires in (("a", 5000), ("a.b", 50_000)):
        expiration_ms = driver.now_ms + expires
        client.publish(driver.message(topic, b"x", {"JMSXRetain": True}, expiration_ms=expiration_ms))
    assert set(read(client, ">")) == {"a", "a.b"}
    driver.tick(6000)
    driver.tick()
    assert set(read(client, ">")) == {"a.b"}
    driver.crash()
    driver.tick(60_000)
    driver.tick()
    assert read(driver.connect(), ">") == {}


def test_selectors_choose_and_a_named_one_has_its_own_topics() -> None:
    driver = NodeDriver(MemoryStore(), SETTINGS)
    client = driver.connect()
    client.ask(Retain(client.next_receipt(), "latest", "a.>", last=True))
    for topic, price in (("a.b", 1), ("a.c", 2), ("a.b", 3), ("b", 4)):
        client.publish(driver.message(topic, b"x", {"price": price}))
    assert read(client, ">") == {}
    client.ask(ReadRetained(client.next_receipt(), "latest", selector="price > 2"))
    answer = client.session.said[-1]
    assert isinstance(answer, Done)
    assert [decode_message(one).properties["price"] for _, one in answer.retained] == [3]
    client.ask(Retain(client.next_receipt(), "all", "a.>"))
    for request in (
        ReadRetained(client.next_receipt(), "all", destination="a.b"),
        Retain(client.next_receipt(), "latest", "a.>"),
    ):
        client.ask(request)
        refused = client.session.said[-1]
        assert isinstance(refused, Failed)
        assert refused.error.code in ("E_RETAINED_LAST", "E_RETAIN_DIFFERS")


def test_without_the_setting_there_are_none() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.ask(ReadRetained(client.next_receipt(), "", destination="a"))
    answer = client.session.said[-1]
    assert isinstance(answer, Failed)
    assert answer.error.code == "E_RETAINED_UNKNOWN"
