"""Records of clients: on disk when answered, valid with their transaction, deleted with wills published when the client
stays away."""

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.delivery.store import MemoryStore
from tidings.errors import StoreError
from tidings.node.requests import Begin, Commit, Done, Failed, Keep, Linger, Outcome, Recall, Rollback, Subscribe

SECOND = 1000


def answer(client: DrivenClient, request: object) -> Outcome:
    client.ask(request)  # type: ignore[arg-type]
    return client.session.said[-1]


def records(client: DrivenClient) -> dict[str, object]:
    found = answer(client, Recall(client.next_receipt(), "mqtt"))
    assert isinstance(found, Done)
    return dict(found.fields)


def linger(client: DrivenClient, **fields: object) -> Outcome:
    return answer(client, Linger(client.next_receipt(), "mqtt", **fields))  # type: ignore[arg-type]


def keep(client: DrivenClient, name: str, value: bytes, session: int = 0) -> Outcome:
    return answer(client, Keep(client.next_receipt(), name, value, session))


def test_a_record_outlives_connection_and_process_and_is_its_clients_own() -> None:
    driver = NodeDriver()
    keep(driver.connect("me"), "mqtt/session", b"one")
    keep(driver.connect("other"), "mqtt/session", b"two")
    keep(driver.connect("me"), "mqtt/in", b"three")
    keep(driver.connect("me"), "elsewhere", b"four")
    driver.crash()
    assert records(driver.connect("me")) == {"mqtt/session": b"one", "mqtt/in": b"three"}
    keep(driver.connect("me"), "mqtt/session", b"")
    driver.crash()
    assert records(driver.connect("me")) == {"mqtt/in": b"three"}
    assert records(driver.connect("other")) == {"mqtt/session": b"two"}
    assert sum(note.startswith("record/") for note in driver.store.recover().notes) == 3


@pytest.mark.parametrize("ending", ["committed", "rolled back", "refused", "crashed"])
def test_a_record_of_a_transaction_is_valid_with_its_messages(ending: str) -> None:
    driver = NodeDriver()
    client = driver.connect("me")
    keep(client, "mqtt/in", b"before")
    driver.connect("audit").subscribe(1, "ticks.a", durable="audit")
    client.ask(Begin(client.next_receipt(), 1))
    client.publish(driver.message("ticks.a"), session=1)
    assert isinstance(keep(client, "mqtt/in", b"after", 1), Done)
    if ending == "rolled back":
        client.ask(Rollback(client.next_receipt(), 1))
    else:
        driver.failure = StoreError("E_STORE_FULL", "full") if ending == "refused" else None
        driver.hold_writes = ending == "crashed"
        client.ask(Commit(client.next_receipt(), 1))
        driver.failure = None
    if ending == "crashed":
        driver.hold_writes = False
        driver.crash()
        client = driver.connect("me")
    committed = ending == "committed"
    assert records(client) == {"mqtt/in": b"after" if committed else b"before"}
    driver.crash()
    assert records(driver.connect("me")) == {"mqtt/in": b"after" if committed else b"before"}
    assert sum(len(waiting) for waiting in driver.store.recover().waiting.values()) == committed


def test_a_record_is_answered_when_it_is_on_disk_and_recalled_in_order() -> None:
    driver = NodeDriver()
    client = driver.connect("me")
    driver.hold_writes = True
    before = len(client.session.said)
    client.ask(Keep(client.next_receipt(), "mqtt/in", b"x"))
    client.ask(Recall(client.next_receipt(), "mqtt"))
    assert len(client.session.said) == before
    while driver.writes:
        driver.write()
    last = client.session.said[-1]
    assert isinstance(last, Done)
    assert dict(last.fields) == {"mqtt/in": b"x"}


def test_when_the_lifetime_is_over_records_and_durable_subscriptions_are_gone() -> None:
    for crash in (False, True):
        driver = NodeDriver()
        client = driver.connect("me")
        linger(client, lifetime_ms=10 * SECOND)
        keep(client, "mqtt/session", b"one")
        client.ask(Subscribe(client.next_receipt(), 1, "ticks.>", durable="mqtt/1"))
        client.ask(Subscribe(client.next_receipt(), 2, "ticks.>", durable="other"))
        client.leave()
        driver.tick(9 * SECOND)
        if crash:
            driver.crash()
        assert len(driver.node.mailbox_service.mailboxes.by_name) == 2
        driver.tick(2 * SECOND)
        driver.tick(SECOND)
        assert list(driver.node.mailbox_service.mailboxes.by_name) == ["durable:me:other"]
        driver.crash()
        assert records(driver.connect("me")) == {}
        assert not [note for note in driver.store.recover().notes if note.startswith(("record/", "linger/"))]


def test_the_time_of_who_was_connected_at_a_crash_starts_with_the_next_process() -> None:
    driver = NodeDriver()
    client = driver.connect("me")
    linger(client, lifetime_ms=10 * SECOND)
    keep(client, "mqtt/session", b"one")
    driver.now_ms += 60 * SECOND
    driver.crash()
    driver.tick(SECOND)
    driver.tick(8 * SECOND)
    again = driver.connect("me")
    assert records(again) == {"mqtt/session": b"one"}
    linger(again, lifetime_ms=10 * SECOND)
    driver.tick(60 * SECOND)
    assert records(again) == {"mqtt/session": b"one"}


def test_a_lifetime_of_zero_on_leaving_deletes_at_once() -> None:
    driver = NodeDriver()
    client = driver.connect("me")
    linger(client, lifetime_ms=10 * SECOND)
    keep(client, "mqtt/session", b"one")
    client.ask(Subscribe(client.next_receipt(), 1, "ticks.>", durable="mqtt/1"))
    linger(client)
    client.leave()
    driver.turn()
    assert records(driver.connect("me")) == {}
    assert not driver.node.mailbox_service.mailboxes.by_name


def test_clear_ends_what_an_earlier_connection_left() -> None:
    driver = NodeDriver(MemoryStore())
    client = driver.connect("me")
    linger(client, lifetime_ms=10 * SECOND)
    keep(client, "mqtt/session", b"one")
    client.ask(Subscribe(client.next_receipt(), 1, "ticks.>", durable="mqtt/1"))
    client.leave()
    again = driver.connect("me")
    linger(again, clear=True, lifetime_ms=20 * SECOND)
    assert records(again) == {}
    assert not driver.node.mailbox_service.mailboxes.by_name
    driver.tick(30 * SECOND)
    assert driver.node.records.lingering == 1


def watcher(driver: NodeDriver) -> DrivenClient:
    found = driver.connect("watcher")
    found.subscribe(1, "wills.>")
    return found


def bodies(client: DrivenClient) -> list[bytes]:
    return [got.body for got in client.receive()]


def test_a_will_is_published_after_its_delay_or_at_the_end_of_the_lifetime() -> None:
    for lifetime, delay, after in ((0, 0, 0), (0, 5, 0), (60, 5, 5), (3, 5, 3), (60, 0, 0)):
        driver = NodeDriver()
        sees, client = watcher(driver), driver.connect("me")
        will = driver.message("wills.me", b"gone", persistent=False)
        linger(client, lifetime_ms=lifetime * SECOND, will=will, will_delay_ms=delay * SECOND)
        client.leave()
        driver.turn()
        for second in range(8):
            assert bodies(sees) == ([b"gone"] if second == after else []), (lifetime, delay, second)
            driver.tick(SECOND)


def test_a_will_counts_its_expiry_from_its_publication() -> None:
    driver = NodeDriver()
    sees, client = watcher(driver), driver.connect("me")
    linger(client, will=driver.message("wills.me", b"gone"), will_expiry_ms=5 * SECOND)
    driver.tick(60 * SECOND)
    client.leave()
    assert [got.message.expiration_ms for got in sees.receive()] == [driver.now_ms + 5 * SECOND]


@pytest.mark.parametrize(("clear", "delay", "published"), [(False, 5, 0), (True, 5, 1), (False, 0, 1), (True, 0, 1)])
def test_a_will_of_a_connection_that_is_taken_over(clear: bool, delay: int, published: int) -> None:
    driver = NodeDriver()
    sees, client = watcher(driver), driver.connect("me")
    will = driver.message("wills.me", b"gone")
    linger(client, lifetime_ms=60 * SECOND, will=will, will_delay_ms=delay * SECOND)
    again = driver.connect("me")
    linger(again, lifetime_ms=60 * SECOND, clear=clear)
    client.leave()
    driver.tick(30 * SECOND)
    assert len(bodies(sees)) == published


def test_a_will_taken_back_or_in_time_is_not_published() -> None:
    driver = NodeDriver()
    sees, client = watcher(driver), driver.connect("me")
    linger(client, lifetime_ms=60 * SECOND, will=driver.message("wills.me", b"gone"), will_delay_ms=10 * SECOND)
    client.leave()
    driver.tick(5 * SECOND)
    again = driver.connect("me")
    linger(again, lifetime_ms=60 * SECOND, will=driver.message("wills.me", b"second"))
    driver.tick(30 * SECOND)
    linger(again)
    again.leave()
    driver.tick(30 * SECOND)
    assert bodies(sees) == []


def test_what_cannot_be_kept_is_refused() -> None:
    driver = NodeDriver()
    client = driver.connect("me")
    for place in range(16):
        keep(client, f"mqtt/{place}", b"x")
    too_many, too_large = keep(client, "mqtt/one", b"x"), keep(client, "mqtt/1", bytes((1 << 20) + 1))
    nameless = answer(client, Linger(99, "a/b", 1))
    assert [one.error.code for one in (too_many, too_large, nameless) if isinstance(one, Failed)] == [
        "E_RECORDS",
        "E_RECORD_SIZE",
        "E_LINGER_NAME",
    ]
