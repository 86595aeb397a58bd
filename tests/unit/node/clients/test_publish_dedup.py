"""Messages that are sent again after the broker crashed between the write and the receipt."""

import pytest
from hardening.support.node_driver import NodeDriver

from tidings.delivery.store import Acked, MailboxAdded, MailboxRemoved, MemoryStore, Stored
from tidings.kernel.forwarder import PERHAPS_SENT
from tidings.node.clients import publish_dedup
from tidings.node.clients.publish_dedup import recent_ids


def test_what_was_stored_before_a_crash_and_waits_is_not_stored_again() -> None:
    driver = NodeDriver()
    driver.connect("me").subscribe(1, "t.*", durable="d")
    message = driver.message("t.x", b"once", persistent=True)
    driver.connect("publisher").publish(message)
    driver.crash()
    publisher = driver.connect("publisher")
    receipt = publisher.publish(message, flags=PERHAPS_SENT)
    assert receipt in publisher.accepted
    reader = driver.connect("me")
    reader.subscribe(1, "t.*", durable="d", credit=10)
    assert [one.message.body for one in reader.receive()] == [b"once"]


def test_what_was_acknowledged_before_a_crash_is_not_stored_again() -> None:
    driver = NodeDriver()
    reader = driver.connect("me")
    reader.subscribe(1, "t.*", durable="d", credit=10)
    message = driver.message("t.x", b"once", persistent=True)
    driver.connect("publisher").publish(message)
    (delivery,) = reader.receive()
    reader.ack(delivery)
    driver.tick()
    driver.crash()
    reader = driver.connect("me")
    reader.subscribe(1, "t.*", durable="d", credit=10)
    publisher = driver.connect("publisher")
    receipt = publisher.publish(message, flags=PERHAPS_SENT)
    assert receipt in publisher.accepted
    assert reader.receive() == []


def test_the_last_messages_for_clients_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_dedup, "RECENT_MAX", 6)
    store = MemoryStore()
    store.append(
        [MailboxAdded(1, "queue:a", "queue"), MailboxAdded(2, "d", "durable"), MailboxAdded(3, "t", "transit")]
    )
    ids = [bytes([seq]) * 16 for seq in range(1, 9)]
    boxes = [1, 1, 1, 2, 3, 1, 3, 2]
    store.append([Stored(seq, b"head" + ids[seq - 1], (box,)) for seq, box in enumerate(boxes, 1)])
    store.append([Acked(1, (3,)), MailboxRemoved(2), Stored(9, b"no id", (1,))])
    assert recent_ids(store, store.recover()) == [ids[3], ids[5], ids[7]]
