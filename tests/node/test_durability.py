"""What is promised once it is on disk, and only then: receipts, transactions, recovery of what was given out."""

from tidings.node.requests import Done, Failed, Unsubscribe
from tidings.node.settings import Settings
from tidings.testing.node_driver import FULL, NodeDriver, attempts, numbered


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
