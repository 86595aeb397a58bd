"""Dead letters of messages that leave no room for more, and what happens where one cannot be made."""

import pytest
from hardening.support.node_driver import NodeDriver

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import Consumer, Mailbox
from tidings.kernel.codec import altered, decode_message, encode_message
from tidings.model.destination import Destination
from tidings.model.message import PROPERTIES_MAX
from tidings.node.mailboxes.dead_letters import EXPIRED
from tidings.node.requests import Move, Verdict
from tidings.node.settings import NodeSettings

PERHAPS_SENT = 1  # flag of a PUBLISH frame


def waiting(driver: NodeDriver, name: str) -> int:
    return len(driver.node.mailbox_service.mailboxes.by_name[name].backlog)


@pytest.mark.parametrize("room", [0, 1, 2])
def test_a_message_with_as_many_properties_as_there_can_be_becomes_a_dead_letter(room: int) -> None:
    driver = NodeDriver(settings=NodeSettings(deliveries_max=1))
    publisher, consumer = driver.connect(), driver.connect()
    full = {f"p{i}": 1 for i in range(PROPERTIES_MAX - room)}
    publisher.publish(driver.message("queue:full", b"full", full))
    publisher.publish(driver.message("queue:other", b"other"))
    consumer.subscribe(1, "queue:full")
    consumer.subscribe(2, "queue:other")
    assert consumer.bodies() == [b"full", b"other"]
    consumer.leave()
    assert waiting(driver, "queue:full") == 0
    assert driver.logs == []
    reader = driver.connect()
    reader.subscribe(1, "queue:dead-letters")
    properties = {one.body: one.message.properties for one in reader.receive()}
    assert properties.keys() == {b"full", b"other"}
    marks = {"JMSXOriginalDestination": "queue:full", "JMSXDeathCause": "delivered too often"}
    assert properties[b"full"] == full | dict(list(marks.items())[:room])


def test_what_cannot_be_read_as_a_message_stays_where_it_is() -> None:
    driver = NodeDriver()
    service = driver.node.mailbox_service
    queue = service.mailboxes.queue(Destination.parse("queue:q"))
    service.dead_letters.bury(queue, [BacklogPosition(1, 4)], EXPIRED)
    service.dead_letters.loaded({1: b"no message"})
    assert (waiting(driver, "queue:q"), service.dead_letters.failed) == (1, 1)


def test_what_a_lost_connection_had_goes_back_even_if_that_fails_for_some_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    for number, queue in enumerate(("queue:a", "queue:b", "queue:c"), 1):
        publisher.publish(driver.message(queue, b"x"))
        consumer.subscribe(number, queue)
    detach = driver.node.mailbox_service.detach

    def fails_once(mailbox: Mailbox, one: Consumer) -> None:
        if mailbox.name == "queue:a":
            raise ZeroDivisionError
        detach(mailbox, one)

    monkeypatch.setattr(driver.node.mailbox_service, "detach", fails_once)
    consumer.leave()
    assert [waiting(driver, queue) for queue in ("queue:b", "queue:c")] == [1, 1]
    (log,) = driver.logs
    assert "ZeroDivisionError" in str(log.fields["exception"])


def test_a_full_message_that_is_late_becomes_a_dead_letter() -> None:
    driver = NodeDriver(settings=NodeSettings(bury_expired=True))
    full = {f"p{i}": 1 for i in range(PROPERTIES_MAX)}
    driver.connect().publish(driver.message("queue:q", b"full", full, expiration_ms=driver.now_ms + 1))
    driver.tick()
    driver.tick()
    assert (waiting(driver, "queue:q"), waiting(driver, "queue:dead-letters")) == (0, 1)


def test_a_message_fuller_than_our_clients_make_them_becomes_a_dead_letter() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.connect(), driver.connect()
    more = {f"p{i}": 1 for i in range(2**16 - 1)}  # as many as the wire can count
    publisher.publish(encode_message(altered(decode_message(driver.message("queue:q")), properties=more)))
    consumer.subscribe(1, "queue:q")
    consumer.ack(*consumer.receive(), verdict=Verdict.DEAD)
    consumer.subscribe(2, "queue:dead-letters")
    (dead,) = consumer.receive()
    assert dead.message.properties == more


def test_dead_letters_and_moved_messages_are_no_repetitions() -> None:
    """A publisher that sends again what may have been lost, as after a new connection, has nothing to do with them."""
    driver = NodeDriver(settings=NodeSettings(deliveries_max=1))
    publisher, consumer = driver.connect(), driver.connect()
    for queue, body in (("queue:rejected", b"1"), ("queue:moved", b"2"), ("queue:again", b"3")):
        message = driver.message(queue, body)
        publisher.publish(message)
    publisher.publish(message, flags=PERHAPS_SENT)  # from now on, whatever comes from it may have been sent before
    assert waiting(driver, "queue:again") == 1
    consumer.subscribe(1, "queue:rejected")
    consumer.ack(*consumer.receive(), verdict=Verdict.DEAD)
    consumer.ask(Move(2, "queue:moved", "queue:elsewhere"))
    assert [waiting(driver, name) for name in ("queue:dead-letters", "queue:elsewhere")] == [1, 1]
