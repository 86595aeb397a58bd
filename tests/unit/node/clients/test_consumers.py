"""Credit that comes later, drains, what is given back uncounted or sent elsewhere, temporary queues, late names."""

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.node.requests import (
    Ack,
    AckMode,
    Answer,
    Browse,
    Credit,
    Done,
    Drain,
    Failed,
    Forget,
    Identify,
    MakeTemporary,
    Move,
    Purge,
    RemoveTemporary,
    Unsubscribe,
    Verdict,
)
from tidings.node.settings import NodeSettings


def numbered(driver: NodeDriver, destination: str, count: int, *, persistent: bool = True) -> list[bytes]:
    return [driver.message(destination, b"%d" % i, persistent=persistent) for i in range(count)]


def code(answer: Answer | None) -> str:
    assert isinstance(answer, Failed)
    return answer.error.code


def drain(client: DrivenClient, subscription: int) -> Answer | None:
    receipt = client.next_receipt()
    client.ask(Drain(receipt, subscription))
    return client.answer(receipt)


@pytest.mark.parametrize("destination", ["t", "queue:q"])
def test_a_paused_subscription_waits_for_credit(destination: str) -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, destination, paused=True)
    for message in numbered(driver, destination, 3):
        publisher.publish(message)
    assert consumer.bodies() == []
    consumer.ask(Credit(1, 2))
    assert consumer.bodies() == [b"0", b"1"]


@pytest.mark.parametrize("options", [{}, {"ack": AckMode.CLIENT}])
def test_a_drain_gives_out_what_is_there_and_takes_the_rest_of_the_credit(options: dict[str, object]) -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "t", paused=True, **options)
    for message in numbered(driver, "t", 2):
        publisher.publish(message)
    consumer.ask(Credit(1, 5))
    answer = drain(consumer, 1)
    assert isinstance(answer, Done)
    assert answer.fields == {"credit": 3}
    assert consumer.bodies() == [b"0", b"1"]
    publisher.publish(driver.message("t", b"later"))
    assert consumer.bodies() == []


def test_a_drain_waits_for_what_the_store_has_to_bring() -> None:
    driver = NodeDriver(settings=NodeSettings(messages_bytes_max=1))
    publisher, consumer = driver.connect(), driver.connect()
    for message in numbered(driver, "queue:q", 3):
        publisher.publish(message)
    driver.read_failure = True
    consumer.subscribe(1, "queue:q", paused=True)
    consumer.ask(Credit(1, 5))
    receipt = consumer.next_receipt()
    consumer.ask(Drain(receipt, 1))
    assert consumer.answer(receipt) is None
    driver.read_failure = False
    driver.tick()
    assert consumer.bodies() == [b"0", b"1", b"2"]
    assert consumer.answer(receipt) == Done(receipt, {"credit": 2})


def test_what_is_released_is_not_counted() -> None:
    driver = NodeDriver(settings=NodeSettings(deliveries_max=2))
    publisher, consumer = driver.connect(), driver.connect()
    consumer.subscribe(1, "queue:q")
    publisher.publish(driver.message("queue:q", b"0"))
    for _ in range(5):
        (got,) = consumer.receive()
        assert got.attempt == 1
        consumer.ack(got, verdict=Verdict.RELEASE)


def test_of_what_lost_consumers_had_all_is_marked_and_only_the_oldest_dies() -> None:
    driver = NodeDriver(settings=NodeSettings(deliveries_max=3))
    publisher = driver.connect()
    for number in range(4):
        publisher.publish(driver.message("queue:q", b"%d" % number))
    for lost in range(9):
        consumer = driver.connect()
        consumer.subscribe(1, "queue:q")
        assert all((one.attempt > 1) == (lost > 0) for one in consumer.receive()), "marked, after a crash too"
        if lost % 2:
            driver.crash()
        else:
            consumer.leave()
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q")
    assert consumer.bodies() == [b"2", b"3"]  # crashes count too, but for the first one
    consumer.subscribe(2, "queue:dead-letters")
    assert consumer.bodies() == [b"0", b"1"]


def test_what_is_sent_elsewhere_does_not_come_back_to_the_same_consumer() -> None:
    driver = NodeDriver()
    publisher, first, second = driver.connect(), driver.connect(), driver.connect()
    first.subscribe(1, "queue:q")
    publisher.publish(driver.message("queue:q", b"0"))
    (got,) = first.receive()
    first.ask(Ack(1, (got.tag,), verdict=Verdict.RETRY, elsewhere=True))
    publisher.publish(driver.message("queue:q", b"1"))
    assert first.bodies() == [b"1"]
    second.subscribe(1, "queue:q")
    (again,) = second.receive()
    assert (again.body, again.attempt) == (b"0", 2)


def test_a_temporary_queue_lives_as_long_as_its_connection() -> None:
    driver = NodeDriver()
    owner, other = driver.connect(), driver.connect()
    refused = other.publish(driver.message("queue:tmp.1", b"early"))
    assert other.refused[refused] == "E_QUEUE_GONE"
    made = owner.next_receipt()
    owner.ask(MakeTemporary(made, "queue:tmp.1"))
    assert owner.answer(made) == Done(made)
    accepted = other.publish(driver.message("queue:tmp.1", b"kept"))
    assert accepted in other.accepted
    owner.subscribe(1, "queue:tmp.1")
    assert owner.bodies() == [b"kept"]
    owner.ask(Unsubscribe(owner.next_receipt(), 1))
    owner.subscribe(2, "queue:tmp.1")
    assert owner.bodies() == [b"kept"]
    owner.leave()
    late = other.publish(driver.message("queue:tmp.1", b"late"))
    assert other.refused[late] == "E_QUEUE_GONE"
    assert driver.node.mailbox_service.message_cache.pinned_bytes == 0
    other.leave()


def test_a_temporary_queue_is_its_owners_to_make_and_to_remove() -> None:
    driver = NodeDriver()
    owner, other = driver.connect(), driver.connect()
    owner.ask(MakeTemporary(owner.next_receipt(), "queue:tmp.1"))
    for request in (MakeTemporary(11, "queue:tmp.1"), RemoveTemporary(12, "queue:tmp.1")):
        other.ask(request)
    assert [code(other.answer(receipt)) for receipt in (11, 12)] == ["E_QUEUE_EXISTS", "E_QUEUE_TEMPORARY"]
    for options in ({}, {"temporary": True}):
        taking = other.subscribe(1, "queue:tmp.1", **options)
        assert code(other.answer(taking)) == "E_FORBIDDEN"
    for looking in (Browse(21, 1, "queue:tmp.1"), Purge(22, "queue:tmp.1"), Move(23, "queue:tmp.1", "queue:mine")):
        other.ask(looking)
        assert code(other.answer(looking.receipt)) == "E_QUEUE_UNKNOWN"
    assert other.publish(driver.message("queue:tmp.1", b"answer")) in other.accepted
    owner.subscribe(1, "queue:tmp.1")
    assert owner.bodies() == [b"answer"]
    other.ask(MakeTemporary(13, "queue:orders"))
    assert code(other.answer(13)) == "E_QUEUE_TEMPORARY"
    missing = other.subscribe(1, "queue:tmp.2")
    assert code(other.answer(missing)) == "E_QUEUE_TEMPORARY"
    owner.ask(RemoveTemporary(14, "queue:tmp.1"))
    assert owner.answer(14) == Done(14)
    assert "queue:tmp.1" not in driver.node.mailbox_service.mailboxes.by_name


def test_who_could_not_name_itself_at_first_may_do_so_before_it_subscribes() -> None:
    driver = NodeDriver()
    early, late = driver.connect("alice/"), driver.connect("alice/")
    early.ask(Identify(91, "audit"))
    early.subscribe(1, "t", durable="d")
    assert "durable:alice/audit:d" in driver.node.mailbox_service.mailboxes.by_name
    late.subscribe(1, "t")
    late.ask(Identify(92, "audit"))
    assert code(late.answer(92)) == "E_IDENTIFY_LATE"


def test_an_id_does_not_grow_without_end() -> None:
    driver = NodeDriver()
    client = driver.connect("alice/")
    for number in range(91, 95):
        client.ask(Identify(number, "x" * 255))
    assert client.answer(91) == Done(91)
    assert code(client.answer(94)) == "E_CLIENT_ID"


def test_a_name_that_no_store_can_keep_fails_its_own_request_only() -> None:
    driver = NodeDriver()
    unlucky, other = driver.connect("x" * 70_000), driver.connect()
    refused = unlucky.subscribe(1, "t", durable="d")
    assert code(unlucky.answer(refused)) == "E_STORE_RECORD"
    assert other.publish(driver.message("queue:q")) in other.accepted
    assert list(driver.node.mailbox_service.mailboxes.by_name) == ["queue:q"]


def test_whether_there_is_a_durable_subscription_can_be_asked() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.subscribe(1, "t", durable="s")
    client.ask(Forget(91, "s", look=True))
    assert client.answer(91) == Done(91)
    client.ask(Forget(92, "s", shared=True, look=True))
    assert code(client.answer(92)) == "E_DURABLE_UNKNOWN"
    client.ask(Unsubscribe(93, 1))
    client.ask(Forget(94, "s", look=True))
    client.ask(Forget(95, "s"))
    assert [client.answer(94), client.answer(95)] == [Done(94), Done(95)], "it was still there"


def test_a_shared_durable_subscription_can_be_forgotten() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.subscribe(1, "t", durable="s", shared="s")
    client.ask(Forget(91, "s", shared=True))
    assert code(client.answer(91)) == "E_DURABLE_BUSY"
    client.ask(Unsubscribe(92, 1))
    client.ask(Forget(93, "s", shared=True))
    assert client.answer(93) == Done(93)
    assert "shared-durable:s" not in driver.node.mailbox_service.mailboxes.by_name


@pytest.mark.parametrize("large", [1, 3000])
def test_a_backlog_flows_as_fast_as_there_is_room_for_it(large: int) -> None:
    """Also to who acknowledges nothing, without a tick of the clock; and whoever drains is told that it has all."""
    driver = NodeDriver(output_bytes_max=4096)
    publisher, consumer = driver.connect(), driver.connect()
    bodies = [bytes([number]) * large for number in range(20)]
    for body in bodies:
        publisher.publish(driver.message("queue:q", body))
    consumer.subscribe(1, "queue:q", credit=1000)
    consumer.ask(Drain(77, 1))
    got: list[bytes] = []
    while more := consumer.bodies():
        got += more
    assert got == bodies
    assert consumer.answer(77) == Done(77, {"credit": 980})
