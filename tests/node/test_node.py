"""What a broker promises about delivery, on the real node and forwarding plane, without sockets."""

from dataclasses import replace

import pytest

from tidings.delivery.mailbox import SlowPolicy
from tidings.delivery.store import MemoryStore
from tidings.errors import StoreError
from tidings.node.requests import AckMode, Credit, Done, Failed, Forget, Unsubscribe, Verdict
from tidings.node.settings import Settings
from tidings.testing.node_driver import Got, NodeDriver

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
    assert len(driver.node.post_office.depot) == 0


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
    assert driver.node.post_office.expired == 1
    driver.tick()
    assert [len(waiting) for waiting in driver.store.recover().waiting.values()] == [2]


@pytest.mark.parametrize("persistent", [True, False])
def test_what_is_refused_too_often_becomes_a_dead_letter(persistent: bool) -> None:
    driver = NodeDriver(settings=Settings(deliveries_max=3))
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


def test_a_dead_letter_whose_bytes_left_memory_is_fetched() -> None:
    driver = NodeDriver(settings=Settings(messages_bytes_max=100))
    publisher, consumer = driver.connect(), driver.connect()
    for message in numbered(driver, "queue:q", 5):
        publisher.publish(message)
    consumer.subscribe(1, "queue:q", credit=1)
    (got,) = consumer.receive()
    driver.node.post_office.depot.bytes_max = 0
    driver.tick()
    consumer.ack(got, verdict=Verdict.DEAD)
    consumer.subscribe(2, "queue:dead-letters")
    assert consumer.bodies() == [b"0"]


def test_one_message_can_die_in_two_mailboxes_at_once() -> None:
    driver = NodeDriver(settings=Settings(messages_bytes_max=1))
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


def test_a_message_sent_again_is_known_or_marked_even_after_two_crashes() -> None:
    driver = NodeDriver()
    publisher = driver.connect()
    message = driver.message("queue:q", b"x")
    publisher.publish(message)
    publisher.publish(message, flags=1)
    assert driver.node.post_office.duplicates == 1
    driver.crash()
    driver.connect().publish(message, flags=1)
    driver.crash()
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q")
    assert attempts(consumer.receive()) == [(b"x", 1), (b"x", 2)]


def test_a_transaction_is_seen_as_a_whole_or_not_at_all() -> None:
    driver = NodeDriver()
    worker, watcher = driver.connect(), driver.connect()
    watcher.subscribe(1, "t")
    watcher.subscribe(2, "queue:out")
    worker.publish(driver.message("queue:in", b"job"))
    worker.subscribe(1, "queue:in")
    worker.begin(5)
    (job,) = worker.receive()
    worker.publish(driver.message("queue:out", b"result"), session=5)
    worker.publish(driver.message("t", b"news", persistent=False), session=5)
    worker.ack(job, session=5)
    assert watcher.bodies() == []
    done = worker.commit(5)
    assert worker.answer(done) == Done(done)
    assert sorted(watcher.bodies()) == [b"news", b"result"]
    driver.crash()
    again = driver.connect()
    again.subscribe(1, "queue:in")
    assert again.bodies() == []


def test_a_transaction_that_cannot_be_stored_did_not_happen() -> None:
    driver = NodeDriver()
    worker, watcher = driver.connect(), driver.connect()
    watcher.subscribe(1, "queue:out")
    watcher.subscribe(2, "t")
    worker.publish(driver.message("queue:in", b"job"))
    worker.subscribe(1, "queue:in")
    (job,) = worker.receive()
    worker.begin(5)
    worker.publish(driver.message("queue:out", b"result"), session=5)
    worker.publish(driver.message("t", b"news"), session=5)
    worker.ack(job, session=5)
    driver.failure = FULL
    answer = worker.answer(worker.commit(5))
    assert isinstance(answer, Failed)
    assert answer.error.code == "E_STORE_FULL"
    driver.failure = None
    driver.tick()
    assert watcher.bodies() == []
    assert attempts(worker.receive()) == [(b"job", 2)]


def test_a_transaction_fails_as_a_whole_when_a_queue_cannot_be_made() -> None:
    driver = NodeDriver(settings=Settings(mailboxes_max=1))
    worker = driver.connect()
    worker.begin(5)
    worker.publish(driver.message("queue:one", b"a"), session=5)
    worker.publish(driver.message("queue:two", b"b"), session=5)
    assert isinstance(worker.answer(worker.commit(5)), Failed)
    assert all(len(waiting) == 0 for waiting in driver.store.recover().waiting.values())


def test_rollback_and_loss_give_back_what_was_acknowledged() -> None:
    driver = NodeDriver()
    publisher, worker = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"x"))
    worker.subscribe(1, "queue:q")
    worker.begin(5)
    worker.ack(*worker.receive(), session=5)
    worker.rollback(5)
    (again,) = worker.receive()
    assert again.attempt == 2
    worker.begin(5)
    worker.ack(again, session=5)
    worker.leave()
    third = driver.connect()
    third.subscribe(1, "queue:q")
    assert attempts(third.receive()) == [(b"x", 3)]


def test_an_acknowledgement_of_a_transaction_outlives_its_subscription() -> None:
    driver = NodeDriver()
    publisher, worker = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"x"))
    worker.subscribe(1, "queue:q")
    worker.begin(5)
    worker.ack(*worker.receive(), session=5)
    worker.ask(Unsubscribe(50, 1))
    worker.commit(5)
    worker.subscribe(2, "queue:q")
    assert worker.bodies() == []


def test_a_session_without_a_transaction_publishes_and_acknowledges_nothing() -> None:
    driver = NodeDriver()
    worker = driver.connect()
    worker.publish(driver.message("queue:q", b"x"))
    worker.subscribe(1, "queue:q")
    refused = worker.publish(driver.message("queue:q", b"y"), session=5)
    assert worker.refused == {refused: "E_TRANSACTION_NONE"}
    worker.ack(*worker.receive(), session=5)
    driver.crash()
    again = driver.connect()
    again.subscribe(1, "queue:q")
    assert again.bodies() == [b"x"]


def test_open_transactions_share_a_limit() -> None:
    driver = NodeDriver(settings=Settings(transaction_bytes_max=10_000, transactions_bytes_max=3_000))
    worker = driver.connect()
    for session in (1, 2):
        worker.begin(session)
        worker.publish(driver.message("queue:q", bytes(2_000)), session=session)
    first, second = worker.commit(1), worker.commit(2)
    assert worker.answer(first) == Done(first)
    assert isinstance(worker.answer(second), Failed)
    worker.begin(3)
    worker.publish(driver.message("queue:q", bytes(2_000)), session=3)
    third = worker.commit(3)
    assert worker.answer(third) == Done(third)


def test_a_message_in_a_durable_and_a_private_mailbox_stays_for_both() -> None:
    driver = NodeDriver()
    quick, slow, publisher = driver.connect("me"), driver.connect(), driver.connect()
    quick.subscribe(1, "t", durable="d")
    slow.subscribe(1, "t", ack=AckMode.CLIENT, credit=1)
    for message in numbered(driver, "t", 3):
        publisher.publish(message)
    driver.node.post_office.depot.bytes_max = 0
    driver.tick()
    quick.ack(*quick.receive())
    for expected in (b"0", b"1", b"2"):
        (got,) = slow.receive()
        assert got.body == expected
        slow.ack(got)
        driver.node.post_office.touch_all()
        slow.ask(Credit(1, 1))
    assert len(driver.node.post_office.depot) == 0


def test_a_long_queue_is_paged_in_and_a_failed_read_is_tried_again() -> None:
    driver = NodeDriver(settings=Settings(messages_bytes_max=2_000))
    publisher, consumer = driver.connect(), driver.connect()
    for message in numbered(driver, "queue:q", 1_000):
        publisher.publish(message)
    assert driver.node.post_office.depot.bytes <= 2_000
    driver.read_failure = True
    consumer.subscribe(1, "queue:q", credit=2_000)
    some = consumer.bodies()
    assert len(some) < 1_000
    driver.read_failure = False
    driver.tick()
    assert some + consumer.bodies() == [b"%d" % i for i in range(1_000)]


def test_a_selective_consumer_finds_its_message_at_the_end_of_a_paged_queue() -> None:
    driver = NodeDriver(settings=Settings(messages_bytes_max=2_000))
    publisher, consumer = driver.connect(), driver.connect()
    for i in range(1_000):
        publisher.publish(driver.message("queue:q", b"%d" % i, {"n": i}))
    consumer.subscribe(1, "queue:q", selector="n = 999")
    assert consumer.bodies() == [b"999"]


def test_a_full_private_mailbox_pushes_back_then_loses_then_pushes_back_again() -> None:
    driver = NodeDriver(settings=Settings(sink_bytes_max=2_000, stall_ms=500))
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "t", ack=AckMode.CLIENT)
    big = [driver.message("t", bytes(900)) for _ in range(8)]
    for message in big[:5]:
        publisher.publish(message)
    assert len(consumer.receive()) == 3, "the publisher waits after the one that was too much"
    driver.tick()
    driver.plane.resume(publisher.number, driver.now_ms)
    driver.turn()
    mailbox = driver.node.post_office.by_name[f"private:{consumer.number}:1"]
    assert mailbox.dropped == 2, "nobody takes anything: no reason to hold up publishers"
    consumer.ack(*[Got(1, 1, tag, None) for tag in (1, 2, 3)])  # type: ignore[arg-type]
    for message in big[5:]:
        publisher.publish(message)
    assert len(consumer.receive()) == 3
    assert mailbox.dropped == 2
    publisher.publish(big[0])
    assert consumer.receive() == [], "it holds its publisher again"


@pytest.mark.parametrize(
    ("policy", "kept"), [(SlowPolicy.DROP_OLDEST, [b"1", b"4", b"5"]), (SlowPolicy.DROP_NEWEST, [b"1", b"2"])]
)
def test_a_full_private_mailbox_drops_as_its_policy_says(policy: SlowPolicy, kept: list[bytes]) -> None:
    driver = NodeDriver(settings=Settings(sink_bytes_max=2_100))
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "t", ack=AckMode.CLIENT, credit=1, policy=policy)
    for i in range(1, 6):
        publisher.publish(driver.message("t", b"%d" % i + bytes(600)))
    got = [one.body[:1] for one in consumer.receive()]
    consumer.ask(Credit(1, 10))
    got += [one.body[:1] for one in consumer.receive()]
    assert got[: len(kept)] == kept
    assert driver.node.post_office.by_name[f"private:{consumer.number}:1"].dropped == 5 - len(got)


def test_a_full_private_mailbox_can_cost_its_connection() -> None:
    driver = NodeDriver(settings=Settings(sink_bytes_max=1_000))
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "t", ack=AckMode.CLIENT, policy=SlowPolicy.DISCONNECT)
    for _ in range(3):
        publisher.publish(driver.message("t", bytes(600)))
    assert set(driver.closed) == {consumer.number}


def test_those_who_hold_the_memory_and_take_nothing_are_closed() -> None:
    settings = Settings(messages_bytes_max=10_000, sink_bytes_max=4_000, stall_ms=500)
    driver = NodeDriver(settings=settings)
    publisher = driver.connect()
    idle = [driver.connect() for _ in range(4)]
    for number, consumer in enumerate(idle):
        consumer.subscribe(1, f"t{number}", ack=AckMode.CLIENT)
        for _ in range(4):
            publisher.publish(driver.message(f"t{number}", bytes(900)))
    driver.tick()
    driver.tick()
    assert driver.closed
    for consumer in idle:
        if consumer.number in driver.closed:
            consumer.leave()
    driver.tick()
    before = publisher.accepted
    receipt = publisher.publish(driver.message("queue:q", b"goes on"))
    assert receipt in publisher.accepted - before


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


def test_a_commit_of_a_lost_connection_is_seen_by_direct_sinks() -> None:
    driver = NodeDriver(output_bytes_max=100)
    worker, watcher = driver.connect(), driver.connect()
    watcher.subscribe(1, "t", credit=1)
    worker.begin(1)
    for message in numbered(driver, "t", 3):
        worker.publish(message, session=1)
    worker.publish(driver.message("queue:q", b"x"), session=1)
    driver.hold_writes = True
    worker.commit(1)
    worker.leave()
    driver.write()
    assert watcher.bodies() == [b"0"]


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
