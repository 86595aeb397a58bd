"""Transactions: sends and acknowledgements that happen together or not at all."""

import pytest
from hardening.support.node_driver import Got, NodeDriver

from tidings.errors import StoreError
from tidings.node.requests import Ack, Done, Failed, MakeTemporary, RemoveTemporary, Unsubscribe, Verdict
from tidings.node.settings import NodeSettings

FULL = StoreError("E_STORE_FULL", "no space left")


def numbered(driver: NodeDriver, destination: str, count: int, *, persistent: bool = True) -> list[bytes]:
    return [driver.message(destination, b"%d" % i, persistent=persistent) for i in range(count)]


def attempts(got: list[Got]) -> list[tuple[bytes, int]]:
    return [(one.body, one.attempt) for one in got]


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
    driver = NodeDriver(settings=NodeSettings(mailboxes_max=1))
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


@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.RELEASE, Verdict.DEAD])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_other_verdicts_may_be_part_of_a_transaction(verdict: Verdict, *, elsewhere: bool) -> None:
    driver = NodeDriver()
    publisher, worker, graveyard = driver.connect(), driver.connect(), driver.connect()
    graveyard.subscribe(1, "queue:dead-letters")
    worker.subscribe(1, "queue:q")
    publisher.publish(driver.message("queue:q", b"x"))

    def give_back(attempt: int) -> None:
        (got,) = worker.receive()
        assert got.attempt == attempt
        worker.begin(5)
        worker.ask(Ack(1, (got.tag,), verdict=verdict, session=5, elsewhere=elsewhere, with_commit=True))
        assert worker.receive() == []
        assert graveyard.bodies() == []

    give_back(1)
    worker.rollback(5)
    give_back(2)
    receipt = worker.commit(5)
    assert worker.answer(receipt) == Done(receipt)
    again = {Verdict.RETRY: 3, Verdict.RELEASE: 2}.get(verdict)
    assert graveyard.bodies() == ([] if again else [b"x"])
    assert attempts(worker.receive()) == ([(b"x", again)] if again and not elsewhere else [])
    publisher.subscribe(1, "queue:q")
    assert attempts(publisher.receive()) == ([(b"x", again)] if again and elsewhere else [])


def test_a_verdict_of_a_transaction_outlives_its_subscription() -> None:
    driver = NodeDriver()
    publisher, worker = driver.connect(), driver.connect()
    publisher.publish(driver.message("queue:q", b"x"))
    worker.subscribe(1, "queue:q")
    worker.begin(5)
    (got,) = worker.receive()
    worker.ask(Ack(1, (got.tag,), verdict=Verdict.DEAD, session=5, with_commit=True))
    worker.ask(Unsubscribe(50, 1, release=True))
    worker.subscribe(2, "queue:q")
    worker.subscribe(3, "queue:dead-letters")
    assert worker.bodies() == []
    worker.commit(5)
    assert worker.bodies() == [b"x"]


def test_a_verdict_of_a_transaction_on_a_queue_that_is_gone_is_of_no_account() -> None:
    driver = NodeDriver()
    worker = driver.connect()
    worker.ask(MakeTemporary(50, "queue:tmp.1"))
    worker.publish(driver.message("queue:tmp.1", b"x"))
    worker.subscribe(1, "queue:tmp.1")
    worker.begin(5)
    (got,) = worker.receive()
    worker.ask(Ack(1, (got.tag,), verdict=Verdict.DEAD, session=5, with_commit=True))
    worker.ask(RemoveTemporary(51, "queue:tmp.1"))
    receipt = worker.commit(5)
    assert worker.answer(receipt) == Done(receipt)
    worker.subscribe(2, "queue:dead-letters")
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
    driver = NodeDriver(settings=NodeSettings(transaction_bytes_max=10_000, transactions_bytes_max=3_000))
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
