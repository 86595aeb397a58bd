"""Creating and deleting queues: nothing is lost unless the deletion is forced, and it holds after a crash."""

from random import Random

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.broker.security.access import AccessRules, GroupMember
from tidings.delivery.mailbox import Mailbox
from tidings.node.requests import CreateQueue, DeleteQueue, Done, Failed, Move, Purge, Unsubscribe, Verdict


def ask(client: DrivenClient, request: CreateQueue | DeleteQueue) -> Done | Failed:
    client.ask(request)
    answer = client.answer(request.receipt)
    assert isinstance(answer, Done | Failed)
    return answer


def delete(client: DrivenClient, *, force: bool = False) -> str | object:
    """The count of deleted messages, or the code of the refusal."""
    answer = ask(client, DeleteQueue(client.next_receipt(), "queue:q", force))
    return answer.error.code if isinstance(answer, Failed) else answer.fields["count"]


def create(client: DrivenClient) -> object:
    answer = ask(client, CreateQueue(client.next_receipt(), "queue:q"))
    assert isinstance(answer, Done)
    return answer.fields["created"]


def queue(driver: NodeDriver) -> Mailbox:
    return driver.engine.view.mailboxes["queue:q"]


def test_a_created_queue_survives_a_crash_and_so_does_its_deletion() -> None:
    driver = NodeDriver()
    assert (create(driver.connect()), create(driver.connect())) == (True, False)
    driver.crash()
    assert delete(driver.connect()) == 0
    driver.crash()
    assert delete(driver.connect()) == "E_QUEUE_UNKNOWN"


def test_messages_deleted_by_force_do_not_come_back() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.publish(driver.message("queue:q", b"1"))
    assert delete(client) == "E_QUEUE_NOT_EMPTY"
    assert delete(client, force=True) == 1
    driver.crash()
    client = driver.connect()
    client.publish(driver.message("queue:q", b"2"))
    consumer = driver.connect()
    consumer.subscribe(1, "queue:q")
    driver.tick()
    assert consumer.bodies() == [b"2"]


def test_a_message_on_its_way_to_disk_keeps_its_queue() -> None:
    driver = NodeDriver()
    client = driver.connect()
    create(client)
    driver.hold_writes = True
    for _ in range(2):  # one in the batch that is being written, one in the next
        client.publish(driver.message("queue:q", b"1"))
        assert queue(driver).messages == 0
        assert delete(client) == "E_QUEUE_NOT_EMPTY"
    driver.hold_writes = False
    while driver.writes:
        driver.write()
    assert queue(driver).messages == 2


def test_a_message_that_a_transaction_has_taken_keeps_its_queue() -> None:
    driver = NodeDriver()
    client, consumer = driver.connect(), driver.connect()
    client.publish(driver.message("queue:q", b"1"))
    consumer.subscribe(1, "queue:q")
    consumer.begin(1)
    consumer.ack(*consumer.receive(), session=1)
    assert delete(client) == "E_QUEUE_BUSY"
    consumer.ask(Unsubscribe(consumer.next_receipt(), 1))
    assert delete(client) == "E_QUEUE_NOT_EMPTY"
    consumer.rollback(1)
    assert len(queue(driver).backlog) == 1


def test_by_force_consumers_are_disconnected_once_each() -> None:
    driver = NodeDriver()
    client, consumer = driver.connect(), driver.connect()
    client.publish(driver.message("queue:q", b"1"))
    for number in (1, 2):
        consumer.subscribe(number, "queue:q")
    assert len(consumer.receive()) == 1
    assert delete(client, force=True) == 1
    assert driver.closed == [consumer.number]
    consumer.leave()
    assert "queue:q" not in driver.engine.view.mailboxes


@pytest.mark.parametrize("make", [CreateQueue, DeleteQueue])
def test_it_takes_the_right_to_manage_the_queue(make: type[CreateQueue] | type[DeleteQueue]) -> None:
    driver = NodeDriver()
    create(driver.connect())
    stranger = driver.connect(principal=GroupMember("eve", AccessRules()))
    answer = ask(stranger, make(stranger.next_receipt(), "queue:q"))
    assert isinstance(answer, Failed)
    assert answer.error.code == "E_FORBIDDEN"


@pytest.mark.parametrize("name", ["topic", "queue:tmp.1.a", "queue:a..b"])
def test_only_names_of_ordinary_queues_are_created(name: str) -> None:
    client = NodeDriver().connect()
    assert isinstance(ask(client, CreateQueue(client.next_receipt(), name)), Failed)


@pytest.mark.parametrize("seed", range(30))
def test_the_count_of_messages_is_exact(seed: int) -> None:
    """Whatever happens to them: `messages` is what waits, what consumers have, and what is in transactions."""
    rng, driver = Random(seed), NodeDriver()
    client = driver.connect()
    consumer = driver.connect()
    create(client)
    held = []
    consumer.subscribe(1, "queue:q", credit=1000)
    for _ in range(80):
        step = rng.randrange(9)
        if step < 4:
            client.publish(
                driver.message(
                    "queue:q",
                    b"1",
                    persistent=rng.random() < 0.6,
                    expiration_ms=rng.choice((None, None, driver.now_ms + 3_000)),
                )
            )
        elif step == 4:
            held += consumer.receive()
            rng.shuffle(held)
            for one in [held.pop() for _ in range(len(held) // 2)]:
                consumer.ack(one, verdict=rng.choice((Verdict.DONE, Verdict.DONE, Verdict.RETRY, Verdict.DEAD)))
        elif step == 5:
            driver.tick(rng.choice((1000, 4000)))
        elif step == 6:
            client.ask(Purge(client.next_receipt(), "queue:q"))
        elif step == 7:
            client.ask(Move(client.next_receipt(), "queue:q", "queue:other"))
        elif rng.random() < 0.3:
            consumer.leave()
            held = []
            consumer = driver.connect()
            consumer.subscribe(1, "queue:q", credit=rng.choice((1, 1000)))
        mailbox = queue(driver)
        assert mailbox.messages == len(mailbox.backlog) + mailbox.unacknowledged
    driver.crash()
    mailbox = queue(driver)
    assert mailbox.messages == len(mailbox.backlog)
