"""What a broker promises about delivery, on the real node and forwarding plane, without sockets."""

from dataclasses import replace

import pytest
from hardening.support.node_driver import Got, NodeDriver

from tidings.delivery.store import MemoryStore
from tidings.errors import StoreError
from tidings.node.requests import AckMode, Done, Failed, Forget, Unsubscribe, Verdict
from tidings.node.settings import NodeSettings

FULL = StoreError("E_STORE_FULL", "no space left")


def numbered(driver: NodeDriver, destination: str, count: int, *, persistent: bool = True) -> list[bytes]:
    return [driver.message(destination, b"%d" % i, persistent=persistent) for i in range(count)]


def attempts(got: list[Got]) -> list[tuple[bytes, int]]:
    return [(one.body, one.attempt) for one in got]


def test_a_durable_subscription_collects_while_its_owner_is_away() -> None:
    driver = NodeDriver()
    owner, publisher = driver.connect("me"), driver.connect()
    owner.subscribe(1, "ticks.*", durable="audit", selector="price > 10")
    owner.leave()
    for price in (5, 20, 30):
        publisher.publish(driver.message("ticks.x", b"%d" % price, {"price": price}))
    assert publisher.accepted == {1, 2, 3}
    again = driver.connect("me")
    again.subscribe(1, "ticks.*", durable="audit", selector="price > 10")
    assert again.bodies() == [b"20", b"30"]


def test_durable_names_belong_to_a_client_id() -> None:
    driver = NodeDriver()
    one, other, publisher = driver.connect("a:b"), driver.connect("a"), driver.connect()
    one.subscribe(1, "t", durable="c")
    other.subscribe(1, "t", durable="b:c")
    publisher.publish(driver.message("t", b"x"))
    assert one.bodies() == other.bodies() == [b"x"]


def test_a_durable_subscription_has_one_subscriber_and_can_be_forgotten() -> None:
    driver = NodeDriver()
    owner, second = driver.connect("me"), driver.connect("me")
    owner.subscribe(1, "t", durable="d")
    refused = second.answer(second.subscribe(1, "t", durable="d"))
    assert isinstance(refused, Failed)
    assert refused.error.code == "E_DURABLE_BUSY"
    second.ask(Forget(77, "d"))
    assert isinstance(second.answer(77), Failed)
    owner.leave()
    second.ask(Forget(78, "d"))
    assert second.answer(78) == Done(78)
    assert driver.store.recover().mailboxes == ()


def test_another_selector_starts_a_durable_subscription_anew() -> None:
    driver = NodeDriver()
    owner, publisher = driver.connect("me"), driver.connect()
    owner.subscribe(1, "t", durable="d")
    owner.leave()
    publisher.publish(driver.message("t", b"old"))
    again = driver.connect("me")
    again.subscribe(1, "t", durable="d", selector="x = 1")
    publisher.publish(driver.message("t", b"new", {"x": 1}))
    assert again.bodies() == [b"new"]


@pytest.mark.parametrize("durable", ["", "pool"])
def test_a_shared_subscription_divides_its_messages(durable: str) -> None:
    driver = NodeDriver()
    workers = [driver.connect(f"w{i}") for i in range(3)]
    for worker in workers:
        worker.subscribe(1, "jobs", shared="pool", durable=durable)
    publisher = driver.connect()
    for message in numbered(driver, "jobs", 30):
        publisher.publish(message)
    shares = [worker.bodies() for worker in workers]
    assert [len(share) for share in shares] == [10, 10, 10]
    assert sorted(body for share in shares for body in share) == sorted(b"%d" % i for i in range(30))
    for worker in workers:
        worker.leave()
    publisher.publish(driver.message("jobs", b"late"))
    back = driver.connect()
    back.subscribe(1, "jobs", shared="pool", durable=durable)
    assert (b"late" in back.bodies()) is bool(durable)


def test_a_shared_subscription_in_use_keeps_its_selector() -> None:
    driver = NodeDriver()
    one, other = driver.connect(), driver.connect()
    one.subscribe(1, "t", shared="s")
    refused = other.answer(other.subscribe(1, "t", shared="s", selector="x = 1"))
    assert isinstance(refused, Failed)
    assert refused.error.code == "E_SHARED_DIFFERS"


def test_client_acknowledgement_without_durability_redelivers_until_its_connection_ends() -> None:
    driver = NodeDriver()
    consumer, publisher = driver.connect(), driver.connect()
    consumer.subscribe(1, "t", ack=AckMode.CLIENT)
    publisher.publish(driver.message("t", b"x"))
    (first,) = consumer.receive()
    consumer.ack(first, verdict=Verdict.RETRY)
    (second,) = consumer.receive()
    assert (first.attempt, second.attempt) == (1, 2)
    consumer.ack(second)
    consumer.ack(second)  # twice: no harm
    consumer.ask(Unsubscribe(9, 1))
    assert consumer.answer(9) == Done(9)
    assert len(driver.node.mailbox_service.message_cache) == 0


def test_competing_consumers_with_selectors_get_what_they_accept() -> None:
    driver = NodeDriver()
    even, rest, publisher = driver.connect(), driver.connect(), driver.connect()
    even.subscribe(1, "queue:q", selector="odd = FALSE")
    for i in range(6):
        publisher.publish(driver.message("queue:q", b"%d" % i, {"odd": bool(i % 2)}))
    assert even.bodies() == [b"0", b"2", b"4"]
    rest.subscribe(1, "queue:q")
    assert rest.bodies() == [b"1", b"3", b"5"]


def test_priorities_first_and_expired_messages_never() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"low", priority=1))
    publisher.publish(driver.message("queue:q", b"soon late", expiration_ms=driver.now_ms + 10))
    publisher.publish(driver.message("queue:q", b"high", priority=9))
    driver.now_ms += 10
    consumer.subscribe(1, "queue:q")
    assert consumer.bodies() == [b"high", b"low"]
    assert driver.node.mailbox_service.expired == 1
    driver.tick()
    assert [len(waiting) for waiting in driver.store.recover().waiting.values()] == [2]


@pytest.mark.parametrize("persistent", [True, False])
def test_what_is_refused_too_often_becomes_a_dead_letter(persistent: bool) -> None:
    driver = NodeDriver(settings=NodeSettings(deliveries_max=3))
    publisher, consumer = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"poison", persistent=persistent))
    consumer.subscribe(1, "queue:q")
    for attempt in (1, 2, 3):
        (got,) = consumer.receive()
        assert got.attempt == attempt
        consumer.ack(got, verdict=Verdict.RETRY)
    assert consumer.receive() == []
    consumer.subscribe(2, "queue:dead-letters")
    (dead,) = consumer.receive()
    assert dead.message.properties["JMSXOriginalDestination"] == "queue:q"
    assert dead.body == b"poison"
    assert dead.attempt == 1
    consumer.ack(dead, verdict=Verdict.DEAD)  # there is no second graveyard
    assert consumer.receive() == []
    driver.tick()
    assert all(len(waiting) == 0 for waiting in driver.store.recover().waiting.values())


def test_dead_letters_have_a_queue_however_many_there_are() -> None:
    driver = NodeDriver(settings=NodeSettings(mailboxes_max=1))
    publisher, consumer = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"poison"))
    consumer.subscribe(1, "queue:q")
    consumer.ack(*consumer.receive(), verdict=Verdict.DEAD)
    assert driver.node.mailbox_service.mailboxes.by_name.keys() == {"queue:q", "queue:dead-letters"}
    assert consumer.receive() == []


def test_what_is_rejected_and_cannot_be_buried_comes_again_marked_and_is_counted() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"poison"))
    consumer.subscribe(1, "queue:q")
    (got,) = consumer.receive()
    driver.failure = StoreError("E_STORE_FULL", "no space left")
    consumer.ack(got, verdict=Verdict.DEAD)
    driver.tick()
    (again,) = consumer.receive()
    assert again.attempt == 2
    letters = driver.node.mailbox_service.dead_letters
    assert letters.failed == 1
    driver.failure = None
    consumer.ack(again, verdict=Verdict.DEAD)
    driver.tick()
    assert consumer.receive() == []
    assert letters.failed == 1


def test_a_dead_letter_dies_only_if_somebody_says_so() -> None:
    driver = NodeDriver(settings=NodeSettings(deliveries_max=2))
    publisher, consumer = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:dead-letters", b"poison"))
    consumer.subscribe(1, "queue:dead-letters")
    for attempt in range(1, 6):
        (got,) = consumer.receive()
        assert got.attempt == attempt
        consumer.ack(got, verdict=Verdict.RETRY)
    consumer.ack(*consumer.receive(), verdict=Verdict.DEAD)
    assert consumer.receive() == []


def test_a_dead_letter_whose_bytes_left_memory_is_fetched() -> None:
    driver = NodeDriver(settings=NodeSettings(messages_bytes_max=100))
    publisher, consumer = driver.connect(), driver.connect()
    for message in numbered(driver, "queue:q", 5):
        publisher.publish(message)
    consumer.subscribe(1, "queue:q", credit=1)
    (got,) = consumer.receive()
    driver.node.mailbox_service.message_cache.bytes_max = 0
    driver.tick()
    consumer.ack(got, verdict=Verdict.DEAD)
    consumer.subscribe(2, "queue:dead-letters")
    assert consumer.bodies() == [b"0"]


def test_one_message_can_die_in_two_mailboxes_at_once() -> None:
    driver = NodeDriver(settings=NodeSettings(messages_bytes_max=1))
    consumer, publisher = driver.connect("me"), driver.connect()
    consumer.subscribe(1, "t", durable="a")
    consumer.subscribe(2, "t", durable="b")
    publisher.publish(driver.message("t", b"x"))
    one, two = consumer.receive()
    driver.read_failure = True
    consumer.ack(one, two, verdict=Verdict.DEAD)
    driver.read_failure = False
    driver.tick()
    consumer.subscribe(3, "queue:dead-letters")
    assert consumer.bodies() == [b"x", b"x"]


def test_a_dead_letter_that_cannot_be_stored_stays_where_it_was() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"x"))
    consumer.subscribe(1, "queue:q")
    (got,) = consumer.receive()
    driver.failure = FULL
    consumer.ack(got, verdict=Verdict.DEAD)
    driver.failure = None
    driver.tick()
    assert consumer.bodies() == [b"x"]


def test_receipts_come_only_after_the_disk() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "queue:q")
    driver.hold_writes = True
    receipt = publisher.publish(driver.message("queue:q", b"x"))
    assert publisher.accepted == set()
    assert consumer.bodies() == []
    driver.write()
    assert publisher.accepted == {receipt}
    assert consumer.bodies() == [b"x"]


def test_what_cannot_be_stored_is_refused_and_non_persistent_traffic_goes_on() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "queue:q")
    consumer.subscribe(2, "t")
    driver.failure = FULL
    refused = publisher.publish(driver.message("queue:q", b"lost"))
    kept = publisher.publish(driver.message("queue:q", b"light", persistent=False))
    direct = publisher.publish(driver.message("t", b"direct", persistent=False))
    assert publisher.refused == {refused: "E_STORE_FULL"}
    assert publisher.accepted == {kept, direct}
    assert consumer.bodies() == [b"light", b"direct"]
    driver.failure = None
    again = publisher.publish(driver.message("queue:q", b"again"))
    assert again in publisher.accepted
    assert consumer.bodies() == [b"again"]


def test_changes_of_state_are_written_when_the_disk_is_back_before_what_rests_on_them() -> None:
    driver = NodeDriver()
    publisher = driver.connect()
    driver.failure, driver.hold_writes = FULL, True
    first = publisher.publish(driver.message("queue:new", b"refused"))
    publisher.publish(driver.message("queue:new", b"kept"))
    driver.write()  # the queue's own record fails with it
    driver.failure = None
    while driver.writes:
        driver.write()
    assert publisher.refused == {first: "E_STORE_FULL"}
    driver.hold_writes = False
    driver.crash()
    consumer = driver.connect()
    consumer.subscribe(1, "queue:new")
    assert consumer.bodies() == [b"kept"]


def test_a_subscription_that_could_not_be_stored_is_not_there() -> None:
    driver = NodeDriver()
    owner, publisher = driver.connect("me"), driver.connect()
    driver.failure = FULL
    answer = owner.answer(owner.subscribe(1, "t", durable="d"))
    assert isinstance(answer, Failed)
    driver.failure = None
    driver.tick()
    publisher.publish(driver.message("t", b"x"))
    assert owner.bodies() == []
    assert driver.store.recover().mailboxes == ()
    assert owner.answer(owner.subscribe(1, "t", durable="d")) == Done(2)
    publisher.publish(driver.message("t", b"y"))
    assert owner.bodies() == [b"y"]


def test_subscribing_is_answered_once_it_is_active() -> None:
    driver = NodeDriver()
    owner, publisher = driver.connect("me"), driver.connect()
    driver.hold_writes = True
    receipt = owner.subscribe(1, "t", durable="d")
    assert owner.answer(receipt) is None
    publisher.publish(driver.message("t", b"meanwhile"))
    driver.hold_writes = False
    driver.write()
    assert owner.answer(receipt) == Done(receipt)
    publisher.publish(driver.message("t", b"afterwards"))
    assert owner.bodies() == [b"meanwhile", b"afterwards"]


def test_nothing_is_seen_before_the_store_knows_that_somebody_may_have_seen_it() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"x"))
    driver.hold_writes = True
    consumer.subscribe(1, "queue:q")
    assert consumer.bodies() == []
    driver.write()
    assert consumer.bodies() == [b"x"]
    driver.hold_writes = False
    driver.crash()
    again = driver.connect()
    again.subscribe(1, "queue:q")
    assert attempts(again.receive()) == [(b"x", 2)]


def test_what_was_given_back_before_a_crash_is_still_marked() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    for message in numbered(driver, "queue:q", 2):
        publisher.publish(message)
    consumer.subscribe(1, "queue:q", credit=1)
    assert consumer.bodies() == [b"0"]
    consumer.leave()
    driver.crash()
    again = driver.connect()
    again.subscribe(1, "queue:q")
    assert attempts(again.receive()) == [(b"0", 2), (b"1", 1)]


def test_a_message_sent_again_is_known_even_after_three_crashes() -> None:
    driver = NodeDriver()
    publisher = driver.connect()
    message = driver.message("queue:q", b"x")
    publisher.publish(message)
    publisher.publish(message, flags=1)
    assert driver.node.mailbox_service.publish_dedup.duplicates == 1
    driver.crash()
    driver.connect().publish(message, flags=1)
    driver.crash()
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q", ack=AckMode.CLIENT, credit=2)
    (given,) = consumer.receive()
    assert attempts([given]) == [(b"x", 1)]  # it waited, so it was known
    consumer.ack(given)
    driver.tick()
    driver.crash()
    driver.connect().publish(message, flags=1)
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q")
    assert consumer.receive() == []  # what was acknowledged is still known


def test_answers_to_a_lost_connection_reach_nobody_else() -> None:
    driver = NodeDriver()
    publisher = driver.connect()
    driver.hold_writes = True
    publisher.publish(driver.message("queue:q", b"x"))
    publisher.leave()
    others = [driver.connect() for _ in range(3)]
    while driver.writes:
        driver.write()
    assert publisher.number not in [other.number for other in others]
    assert [other.accepted for other in others] == [set(), set(), set()]


def test_recovery_stands_where_the_store_says() -> None:
    store = MemoryStore()
    driver = NodeDriver(store)
    publisher, owner = driver.connect(), driver.connect("me")
    owner.subscribe(1, "t", durable="d", selector="x = 1")
    for i, message in enumerate(numbered(driver, "queue:q", 4)):
        publisher.publish(message)
        publisher.publish(driver.message("t", b"%d" % i, {"x": i % 2}))
    owner.ack(owner.receive()[0])
    driver.tick()
    before = store.recover()
    driver.crash()
    assert replace(store.recover(), damaged=()) == replace(before, damaged=())
    again = driver.connect("me")
    again.subscribe(1, "t", durable="d", selector="x = 1")
    again.subscribe(2, "queue:q")
    got = again.receive()
    assert attempts([one for one in got if one.subscription == 1]) == [(b"3", 2)]
    assert attempts([one for one in got if one.subscription == 2]) == [(b"%d" % i, 1) for i in range(4)]
