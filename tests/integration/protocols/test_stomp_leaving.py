"""STOMP clients that leave, or are shown out: what they have not taken is others', and nobody is taken for them."""

from itertools import count
from typing import NoReturn

import pytest
from hardening.support.stomp import RawStomp
from hardening.support.stomp_broker import Place, with_broker

from tidings.delivery.store import MemoryStore
from tidings.errors import StoreError
from tidings.protocols.stomp.frames import StompVersion, encode

BODY = b"x" * 1000
FULL = StoreError("E_STORE_FULL", "no space left")
MANY = 4000  # more than the buffers between broker and client hold


async def fill(here: Place, queue: str) -> None:
    raw = await here.client()
    for number in range(MANY):
        await raw.send("SEND", {"destination": queue, "n": str(number)}, BODY)
    await raw.send("SEND", {"destination": queue, "n": str(MANY), "receipt": "all"}, BODY)
    await raw.expect("RECEIPT")


async def rest_of(raw: RawStomp) -> list[str]:
    """The messages that come before the last word, after which nothing comes."""
    got = []
    while (frame := await raw.frame()).command == "MESSAGE":
        got.append(frame.headers["n"])
    assert await raw.reader.read() == b""
    return got


@pytest.mark.parametrize(
    "farewell", [b"DISCONNECT\nreceipt:bye\n\n\0", b"WRONG\n\n\0", b"SEND\ndestination:nowhere\n\n\0", b"NO COMMAND\n"]
)
def test_who_leaves_amid_a_queue_leaves_the_rest_to_others(farewell: bytes) -> None:
    async def check(here: Place) -> None:
        await fill(here, "/queue/a")
        raw = await here.client()
        await raw.send("SUBSCRIBE", {"destination": "/queue/a", "id": "1"})
        taken = [(await raw.expect("MESSAGE")).headers["n"]]
        await raw.write(farewell)
        taken += await rest_of(raw)  # and its end of the connection stays open
        other = await here.client()
        await other.send("SUBSCRIBE", {"destination": "/queue/a", "id": "1"})
        while len(taken) <= MANY:
            taken.append((await other.expect("MESSAGE")).headers["n"])
        assert sorted(map(int, taken)) == list(range(MANY + 1))

    with_broker(check)


@pytest.mark.parametrize("receipt", ["receipt:bye\n", ""])
def test_a_durable_subscription_is_free_when_its_client_has_left(receipt: str) -> None:
    async def check(here: Place) -> None:
        headers = {"durable-subscription-name": "d"}
        raw = await here.client(client_id="me")
        await raw.subscribe("/topic/a", **headers)
        await raw.write(f"DISCONNECT\n{receipt}\n\0".encode())
        await raw.reader.read()
        again = await here.client(client_id="me")
        await again.subscribe("/topic/a", **headers)
        await again.send("SEND", {"destination": "/topic/a"}, b"kept")
        assert (await again.expect("MESSAGE")).body == b"kept"

    with_broker(check)


@pytest.mark.parametrize("last", ["bye", ""])
@pytest.mark.parametrize("many", [1, 50])
def test_receipts_come_before_the_end(many: int, last: str) -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        sends = [{"destination": "/queue/a", "persistent": "true", "receipt": str(one)} for one in range(many)]
        frames = [encode("SEND", headers, StompVersion.V12) for headers in sends]
        await raw.write(b"".join([*frames, encode("DISCONNECT", {"receipt": last} if last else {}, StompVersion.V12)]))
        told = [(await raw.expect("RECEIPT")).headers["receipt-id"] for _ in range(many + bool(last))]
        assert told == [*map(str, range(many)), *([last] if last else [])]
        assert await raw.reader.read() == b""

    with_broker(check)


@pytest.mark.parametrize("version", [StompVersion.V11, StompVersion.V12])
def test_an_acknowledgement_of_an_earlier_connection_acknowledges_nothing(version: StompVersion) -> None:
    async def check(here: Place) -> None:
        acks = []
        for queue in ("/queue/a", "/queue/b"):
            raw = await here.client(version)
            await raw.subscribe(queue, ack="client")
            await raw.send("SEND", {"destination": queue})
            got = (await raw.expect("MESSAGE")).headers
            acks.append({"id": got["ack"]} if version is StompVersion.V12 else {"message-id": got["message-id"]})
        await raw.send("ACK", acks[0] | {"subscription": "1"})
        assert (await raw.error()).headers["code"] == "E_STOMP_ACK"
        other = await here.client()
        await other.subscribe("/queue/b")
        assert (await other.expect("MESSAGE")).headers["redelivered"] == "true"

    with_broker(check)


def test_what_was_never_delivered_is_not_acknowledged() -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.subscribe("/queue/a", ack="client")
        await raw.send("SEND", {"destination": "/queue/a"})
        number, tag = (await raw.expect("MESSAGE")).headers["ack"].split("-")
        await raw.send("ACK", {"id": f"{number}-{int(tag) + 1}"})
        assert (await raw.error()).headers["code"] == "E_ACK_UNKNOWN"

    with_broker(check)


def test_temporary_queues_have_names_of_their_own_and_late_answers_are_dropped() -> None:
    async def check(here: Place) -> None:
        service, names = await here.client(), []
        await service.subscribe("/queue/service")
        for _ in range(2):
            asking = await here.client()
            await asking.subscribe("/temp-queue/x")
            await asking.send("SEND", {"destination": "/queue/service", "reply-to": "/temp-queue/x"})
            names.append((await service.expect("MESSAGE")).headers["reply-to"])
            await asking.send("DISCONNECT", {})
            await asking.reader.read()
        assert len(set(names)) == 2
        await service.send("SEND", {"destination": names[0]})
        await service.send("SEND", {"destination": names[1], "receipt": "late"})
        assert (await service.expect("RECEIPT")).headers["receipt-id"] == "late"
        await service.send("BEGIN", {"transaction": "t"})
        await service.send("SEND", {"destination": names[0], "transaction": "t"})
        await service.send("SEND", {"destination": "/queue/audit", "transaction": "t"})
        await service.send("COMMIT", {"transaction": "t", "receipt": "late in a transaction"})
        assert (await service.expect("RECEIPT")).headers["receipt-id"] == "late in a transaction"
        assert len(here.broker.engine.node.mailbox_service.mailboxes.by_name["queue:audit"].backlog) == 1

    with_broker(check)


@pytest.mark.parametrize("stored", [False, True])
def test_a_commit_that_fails_counts_as_one_delivery(stored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is stored, or because it cannot be."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise FULL

    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.subscribe("/queue/a", ack="client-individual")
        await raw.subscribe("/queue/a", "2", ack="client-individual")
        await raw.send("SEND", {"destination": "/queue/a", "persistent": "true"})
        id = (await raw.expect("MESSAGE")).headers["ack"]
        mailboxes = here.broker.engine.node.mailbox_service.mailboxes
        queue = mailboxes.by_name["queue:a"]
        await raw.send("BEGIN", {"transaction": "t"})
        await raw.send("ACK", {"id": id, "transaction": "t"})
        await raw.send("SEND", {"destination": "/queue/b", "transaction": "t", "persistent": "true", "receipt": "1"})
        await raw.expect("RECEIPT")
        monkeypatch.setattr(MemoryStore if stored else mailboxes, "append" if stored else "for_message", refuse)
        await raw.send("COMMIT", {"transaction": "t"})
        assert (await raw.error()).headers["code"] == FULL.code
        (place,) = queue.backlog.scan()
        assert queue.deliveries(place.seq) == 1

    with_broker(check)


def test_a_durable_subscription_that_was_shared_can_be_deleted() -> None:
    async def check(here: Place) -> None:
        headers = {"durable-subscription-name": "d", "shared-subscription-name": "d"}
        raw, receipts = await here.client(), count(1)
        for unsubscribe in ({"id": "1", "durable-subscription-name": "d"}, headers):
            await raw.subscribe("/topic/a", **headers)
            if "id" not in unsubscribe:
                await raw.send("UNSUBSCRIBE", {"id": "1"})
            await raw.send("UNSUBSCRIBE", unsubscribe | {"receipt": str(next(receipts))})
            await raw.expect("RECEIPT")
            assert not here.broker.engine.node.mailbox_service.mailboxes.by_name

    with_broker(check)


def test_no_name_of_an_earlier_start_is_used_again() -> None:
    sessions = []

    async def check(here: Place) -> None:
        raw = await here.raw()
        sessions.append((await raw.connect()).headers["session"])

    for _ in range(2):
        with_broker(check)
    assert len(set(sessions)) == 2


@pytest.mark.parametrize("other", ["auto", "client-individual"])
def test_what_a_consumer_had_does_not_go_to_the_others_of_a_connection_that_leaves(other: str) -> None:
    """One that acknowledges nothing would lose the message, and each that does would count as one more delivery."""

    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.subscribe("/queue/a", ack="client-individual")
        await raw.send("SEND", {"destination": "/queue/a", "persistent": "true"}, b"precious")
        await raw.expect("MESSAGE")
        for id in range(2, 10):
            await raw.subscribe("/queue/a", str(id), ack=other)
        await raw.send("DISCONNECT", {"receipt": "bye"})
        await raw.expect("RECEIPT")
        (mailbox,) = here.broker.engine.node.mailbox_service.mailboxes.by_name.values()
        assert [mailbox.deliveries(place.seq) for place in mailbox.backlog.scan()] == [1]

    with_broker(check)
