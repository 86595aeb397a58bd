"""Browse, purge and move: what they show and do, who may, and that nothing is consumed by looking."""

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.broker.security.access import AccessRules, GroupMember, Rule
from tidings.delivery.backlog import BacklogPosition
from tidings.model.destination import DestinationPattern
from tidings.node.requests import Ack, Browse, Done, Failed, Move, Purge


def filled(driver: NodeDriver, count: int = 5, *, persistent: bool = True) -> DrivenClient:
    """A client, after it has published 0, 1, 2, ... to the queue q."""
    client = driver.connect()
    for number in range(count):
        body, properties = b"%d" % number, {"odd": bool(number % 2)}
        client.publish(driver.message("queue:q", body, properties, persistent=persistent))
    client.receive()
    return client


def ask(client: DrivenClient, request: object) -> Done | Failed:
    client.ask(request)  # type: ignore[arg-type]
    client.driver.tick()
    answer = client.answer(request.receipt)  # type: ignore[attr-defined]
    assert isinstance(answer, Done | Failed)
    return answer


def code(client: DrivenClient, request: object) -> str:
    answer = ask(client, request)
    assert isinstance(answer, Failed)
    return answer.error.code


def browsed(client: DrivenClient, selector: str = "", count: int = 0) -> list[bytes]:
    """All pages."""
    bodies: list[bytes] = []
    after, more = BacklogPosition(0, 0), True
    while more:
        answer = ask(client, Browse(client.next_receipt(), 77, "queue:q", selector, after, count))
        assert isinstance(answer, Done)
        bodies += client.bodies()
        after = BacklogPosition(int(answer.fields["seq"]), int(answer.fields["priority"]))
        more = bool(answer.fields["more"])
    return bodies


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_all_that_waits_is_shown_and_stays(in_memory: bool, count: int) -> None:
    driver = NodeDriver()
    client = filled(driver)
    client.publish(driver.message("queue:q", b"first", priority=9))
    if not in_memory:
        driver.crash()
        client = driver.connect()
    assert browsed(client, count=count) == [b"first", b"0", b"1", b"2", b"3", b"4"]
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q")
    got = consumer.receive()
    assert [one.attempt for one in got] == [1] * 6
    assert browsed(client) == [], "it is with its consumer"


def test_an_expensive_selector_makes_pages_short_and_misses_nothing() -> None:
    driver = NodeDriver()
    client = filled(driver, 0)
    for number in range(60):
        client.publish(driver.message("queue:q", b"%d" % number, {"name": "x" * 1000 + f"{number}xy"}))
    client.receive()
    selector = " OR ".join(f"name LIKE '%{number}_y%'" for number in range(500))
    page = ask(client, Browse(client.next_receipt(), 77, "queue:q", selector))
    assert isinstance(page, Done)
    assert page.fields["more"]
    assert 0 < len(client.bodies()) < 60
    assert browsed(client, selector) == [b"%d" % number for number in range(60)]
    page = ask(client, Browse(client.next_receipt(), 77, "queue:q"))
    assert isinstance(page, Done)
    assert not page.fields["more"], "without a selector nothing is counted"


def test_a_selector_chooses_and_the_late_are_not_shown() -> None:
    driver = NodeDriver()
    client = filled(driver)
    client.publish(driver.message("queue:q", b"late", {"odd": True}, expiration_ms=driver.now_ms + 500))
    assert browsed(client, "odd = TRUE", count=2) == [b"1", b"3"]


def test_purge_takes_all_or_what_is_named_also_from_the_store() -> None:
    driver = NodeDriver()
    client = filled(driver)
    ask(client, Browse(client.next_receipt(), 77, "queue:q"))
    tags = [one.tag for one in client.receive()]
    answer = ask(client, Purge(client.next_receipt(), "queue:q", (tags[1], tags[3], 999)))
    assert answer == Done(answer.receipt, {"count": 2, "more": False})
    assert browsed(client) == [b"0", b"2", b"4"]
    assert [len(one) for one in driver.store.recover().waiting.values()] == [3]
    ask(client, Purge(client.next_receipt(), "queue:q"))
    assert browsed(client) == []
    assert [len(one) for one in driver.store.recover().waiting.values()] == [0]


@pytest.mark.parametrize("in_memory", [True, False])
def test_move_brings_messages_to_another_queue(in_memory: bool) -> None:
    driver = NodeDriver()
    client = filled(driver)
    ask(client, Browse(client.next_receipt(), 77, "queue:q"))
    second = client.receive()[1].tag
    if not in_memory:
        driver.crash()
        client = driver.connect()
    answer = ask(client, Move(client.next_receipt(), "queue:q", "queue:other", (second,)))
    assert isinstance(answer, Done)
    assert answer.fields["count"] == 1
    ask(client, Move(client.next_receipt(), "queue:q", "queue:other"))
    assert browsed(client) == []
    driver.crash()
    consumer = driver.connect()
    consumer.subscribe(1, "queue:other")
    got = consumer.receive()
    assert [one.body for one in got] == [b"1", b"0", b"2", b"3", b"4"]
    assert {str(one.message.destination) for one in got} == {"queue:other"}
    consumer.ask(Ack(1, tuple(one.tag for one in got)))
    driver.tick()
    assert all(len(one) == 0 for one in driver.store.recover().waiting.values())


def test_more_than_a_page_is_moved_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.node.clients.queue_requests.PAGE_MESSAGES_MAX", 2)
    driver = NodeDriver()
    client = filled(driver)
    counts = []
    for _ in range(3):
        answer = ask(client, Move(client.next_receipt(), "queue:q", "queue:other"))
        assert isinstance(answer, Done)
        counts.append((answer.fields["count"], answer.fields["more"]))
    assert counts == [(2, True), (2, True), (1, False)]


def test_who_asks_for_nonsense_is_told() -> None:
    driver = NodeDriver()
    client = filled(driver)
    assert code(client, Browse(client.next_receipt(), 7, "queue:unknown")) == "E_QUEUE_UNKNOWN"
    assert code(client, Browse(client.next_receipt(), 7, "topic:q")) == "E_QUEUE_NAME"
    assert code(client, Browse(client.next_receipt(), 7, "queue:q", "a = ")) == "E_SELECTOR_SYNTAX"
    assert code(client, Move(client.next_receipt(), "queue:q", "queue:q")) == "E_QUEUE_TARGET"
    assert code(client, Move(client.next_receipt(), "queue:q", "topic:t")) == "E_QUEUE_TARGET"


def test_only_those_may_who_may() -> None:
    driver = NodeDriver()
    filled(driver)
    queue, other = DestinationPattern.parse("queue:q"), DestinationPattern.parse("queue:other")
    rules = AccessRules(
        (
            Rule("guest", queue, frozenset({"browse"}), selector="odd = TRUE"),
            Rule("keeper", queue, frozenset({"manage"})),
            Rule("mover", queue, frozenset({"manage"})),
            Rule("mover", other, frozenset({"publish"})),
        )
    )

    def member(name: str) -> DrivenClient:
        client = driver.connect()
        driver.node.connections[client.number].principal = GroupMember(name, rules.concerning(name, ()))
        return client

    guest, keeper, mover = member("guest"), member("keeper"), member("mover")
    assert browsed(guest) == [b"1", b"3"], "a rule's selector applies to looking, too"
    assert code(guest, Purge(guest.next_receipt(), "queue:q")) == "E_FORBIDDEN"
    assert code(keeper, Browse(keeper.next_receipt(), 7, "queue:q")) == "E_FORBIDDEN"
    assert code(keeper, Move(keeper.next_receipt(), "queue:q", "queue:other")) == "E_FORBIDDEN"
    assert isinstance(ask(mover, Move(mover.next_receipt(), "queue:q", "queue:other")), Done)
