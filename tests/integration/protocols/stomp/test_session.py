"""What STOMP's specification says, frame by frame, on real sockets; and what a client must not be able to do."""

import asyncio
from random import Random

import pytest
from hardening.support.stomp import RawStomp
from hardening.support.stomp_broker import Place, place, with_broker

from tidings.broker.config.tables import AccessTable
from tidings.broker.security.access import AccessRules
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users, add
from tidings.node.limits import BrokerLimits
from tidings.protocols.stomp.frames import StompVersion, encode
from tidings.testing.local_broker import run

CHEAP = Cost(n=2, r=1, p=1)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [("", "1.0"), ("1.0", "1.0"), ("1.0,1.1", "1.1"), ("1.2,1.1,2.0", "1.2"), (" 1.1 , 1.0", "1.1")],
)
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_versions(command: str, offered: str, chosen: str) -> None:
    async def check(here: Place) -> None:
        raw = await here.raw(StompVersion.V10)
        await raw.send(command, {"accept-version": offered} if offered else {})
        connected = await raw.expect("CONNECTED")
        assert connected.headers["version"] == chosen
        assert ("heart-beat" in connected.headers) == (chosen != "1.0")

    with_broker(check)


def test_lenient_1_0() -> None:
    """Spaces around headers, CRLF, line ends between frames, no id, destinations instead of ids."""

    async def check(here: Place) -> None:
        raw = await here.raw(StompVersion.V10)
        await raw.write(b"\n\r\nCONNECT\r\nlogin: me \r\npasscode: x\r\n\r\n\0\n\n")
        await raw.expect("CONNECTED")
        await raw.write(b"SUBSCRIBE\ndestination: /topic/a\nreceipt: one \n\n\0")
        assert (await raw.expect("RECEIPT")).headers["receipt-id"] == "one"
        await raw.write(b"SEND\ndestination: /topic/a\nkey: two words \n\nbody\0")
        message = await raw.expect("MESSAGE")
        assert (message.headers["key"], message.body) == ("two words", b"body")
        assert "subscription" not in message.headers
        await raw.write(b"UNSUBSCRIBE\ndestination:/topic/a\nreceipt:gone\n\n\0")
        await raw.expect("RECEIPT")

    with_broker(check)


def test_in_1_0_nobody_is_waited_for_who_was_promised_no_heart_beats() -> None:
    async def check(here: Place) -> None:
        for version, beats in ((StompVersion.V10, (0, 0)), (StompVersion.V11, (200, 5_000))):
            raw = await here.client(version, heart_beat="1,5000")
            (connection,) = here.broker.clients.connections.values()
            assert (connection.heartbeat_ms, connection.beat_ms) == beats
            await raw.send("DISCONNECT", {})
            assert await raw.reader.read() == b""
            while here.broker.clients.connections:
                await asyncio.sleep(0.01)

    with_broker(check, limits=BrokerLimits(heartbeat_ms=30_000))


def test_in_1_0_a_destination_ends_a_subscription_with_an_id_too() -> None:
    async def check(here: Place) -> None:
        raw = await here.client(StompVersion.V10)
        await raw.subscribe("/topic/a", id="first")
        await raw.subscribe("/topic/b", id="other")
        await raw.subscribe("/topic/a", id="second")
        await raw.send("UNSUBSCRIBE", {"destination": "/topic/a", "receipt": "gone"})
        await raw.expect("RECEIPT")
        for topic in "ab":
            await raw.send("SEND", {"destination": f"/topic/{topic}"})
        got = [(await raw.expect("MESSAGE")).headers["subscription"] for _ in range(2)]
        assert got == ["second", "other"]

    with_broker(check)


def test_escapes_and_repeated_headers() -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.subscribe("/topic/a", id="a:b\\c")
        await raw.write(b"SEND\r\ndestination:/topic/a\nx:1\nx:2\r\nk\\c1:a\\nb\\\\\\r\n\nhi\0")
        message = await raw.expect("MESSAGE")
        assert message.headers["subscription"] == "a:b\\c"
        assert (message.headers["x"], message.headers["k:1"]) == ("1", "a\nb\\\r")

    with_broker(check)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"SUBSCRIBE\nid:1\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"SUBSCRIBE\ndestination:/topic/a\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"SUBSCRIBE\nid:1\ndestination:a\nreceipt:r\n\n\0", "E_STOMP_DESTINATION"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/a..b\nreceipt:r\n\n\0", "E_DESTINATION_EMPTY"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/a\nack:often\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/a\nselector:a = \nreceipt:r\n\n\0", "E_SELECTOR_SYNTAX"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/a\nprefetch-count:x\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/a\nslow-policy:x\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"SUBSCRIBE\nid:1\ndestination:/queue/a.*\nreceipt:r\n\n\0", "E_QUEUE_WILDCARD"),
        (b"UNSUBSCRIBE\nid:1\nreceipt:r\n\n\0", "E_SUBSCRIPTION_UNKNOWN"),
        (b"UNSUBSCRIBE\ndurable-subscription-name:x\nreceipt:r\n\n\0", "E_DURABLE_UNKNOWN"),
        (b"ACK\nid:1-1\nreceipt:r\n\n\0", "E_STOMP_ACK"),
        (b"ACK\nid:x\nreceipt:r\n\n\0", "E_STOMP_ACK"),
        (b"ACK\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"BEGIN\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"COMMIT\ntransaction:t\nreceipt:r\n\n\0", "E_STOMP_TRANSACTION"),
        (b"ABORT\ntransaction:t\nreceipt:r\n\n\0", "E_STOMP_TRANSACTION"),
        (b"SEND\ndestination:/topic/a\ntransaction:t\nreceipt:r\n\n\0", "E_STOMP_TRANSACTION"),
        (b"SEND\ndestination:/topic/a.>\nreceipt:r\n\n\0", "E_STOMP_DESTINATION"),
        (b"SEND\ndestination:/topic/a\nJMSType:x\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"CONNECT\nreceipt:r\n\n\0", "E_STOMP_COMMAND"),
        (b"HELLO\nreceipt:r\n\n\0", "E_STOMP_COMMAND"),
        (b"BEGIN\ntransaction:t\nreceipt:r\n\nbody\0", "E_STOMP_FRAME"),
        (b"BEGIN\ntransaction:\\x\nreceipt:r\n\n\0", "E_STOMP_ESCAPE"),
        (b"BEGIN\nreceipt:r\ntransaction:\xff\n\n\0", "E_STOMP_UTF8"),
        (b"SEND\nreceipt:r\ncontent-length:x\n\n\0", "E_STOMP_HEADER"),
        (b"SEND\nreceipt:r\ncontent-length:1\n\nabc\0", "E_STOMP_FRAME"),
        (b"SEND\nreceipt:r\nno colon\n\n\0", "E_STOMP_FRAME"),
        (b"SEND\nreceipt:r\n:no name\n\n\0", "E_STOMP_FRAME"),
        (b"SEND\nno colon\nreceipt:r\n\n\0", "E_STOMP_FRAME"),
        (b"SUBSCRIBE\n:no name\nno colon\nreceipt:r\n\n\0", "E_STOMP_FRAME"),
        (b"SEND\n" + b"a:\n" * 1001 + b"receipt:r\n\n\0", "E_STOMP_LIMIT"),
        (b"send\nreceipt:r\n\n\0", "E_STOMP_FRAME"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/a\nno-local:yes\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"SUBSCRIBE\nid:1\ndestination:/queue/a\nexclusive:yes\nreceipt:r\n\n\0", "E_STOMP_HEADER"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/a\nexclusive:true\nreceipt:r\n\n\0", "E_EXCLUSIVE"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/a\nno-local:true\nack:client\nreceipt:r\n\n\0", "E_NO_LOCAL"),
        (b"SUBSCRIBE\nid:1\ndestination:/queue/a\nno-local:true\nreceipt:r\n\n\0", "E_NO_LOCAL"),
    ],
)
def test_errors_say_what_was_wrong(frame: bytes, code: str) -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.write(frame + b"SEND\ndestination:/topic/after\n\n\0")
        error = await raw.error()
        assert error.headers["code"] == code
        assert code in error.headers["message"]
        assert error.headers["receipt-id"] == "r"

    with_broker(check)


def test_the_receipt_of_the_next_frame_is_not_echoed() -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.write(b"SEND\nno colon\0SEND\nreceipt:r\n\n\0")
        assert "receipt-id" not in (await raw.error()).headers

    with_broker(check)


def test_a_receipt_that_is_no_text_is_echoed_as_well_as_can_be() -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.write(b"SEND\ndestination:/topic/a.>\nreceipt:r\xe8x\n\n\0")
        error = await raw.error()
        assert error.headers["receipt-id"] == "r\ufffdx"

    with_broker(check)


def test_what_comes_before_the_log_in_is_refused() -> None:
    async def check(here: Place) -> None:
        for first in (b"SEND\ndestination:/topic/a\n\n\0", b"NOTHING / KNOWN\r\n\r\n", b"\x17\x03\x01" * 20):
            raw = await here.raw()
            await raw.write(first)
            assert (await raw.error()).headers["code"].startswith("E_STOMP")
        raw = await here.raw(StompVersion.V10)
        await raw.write(b"CONNECT\nheart-beat:often\n\n\0")
        assert (await raw.error()).headers["code"] == "E_STOMP_HEADER"

    with_broker(check)


def test_who_takes_too_long_to_log_in_is_cut_off_and_nobody_else_notices() -> None:
    async def check(here: Place) -> None:
        other = await here.client()
        await other.subscribe("/topic/a")
        slow = [await here.raw() for _ in range(20)]
        for raw in slow:
            await raw.write(b"CONNECT\naccept-version:1.2\nx:")
        for number in range(3):
            await other.send("SEND", {"destination": "/topic/a", "n": str(number)})
            assert (await other.expect("MESSAGE")).headers["n"] == str(number)
        for raw in slow:
            assert (await raw.error()).headers["code"] == "E_LOGIN_TIMEOUT"

    with_broker(check, limits=BrokerLimits(login_seconds=1.0))


def test_a_stranger_cannot_fill_the_memory() -> None:
    async def check(here: Place) -> None:
        raw = await here.raw()
        await raw.write(b"CONNECT\ncontent-length:100000000\n\n" + b"x" * 100_000)
        assert (await raw.error()).headers["code"] == "E_STOMP_LIMIT"
        raw = await here.raw()
        await raw.write(b"CONNECT\nx:" + b"x" * 200_000)
        assert (await raw.error()).headers["code"] == "E_STOMP_LIMIT"

    with_broker(check)


def test_cumulative_and_single_acknowledgements_with_a_window() -> None:
    async def check(here: Place) -> None:
        raw = await here.client(StompVersion.V11)
        await raw.subscribe("/queue/a", ack="client", **{"prefetch-count": "2"})
        for number in range(6):
            await raw.send("SEND", {"destination": "/queue/a", "n": str(number)})
        got = [await raw.expect("MESSAGE") for _ in range(2)]
        ids = {"message-id": got[1].headers["message-id"], "subscription": "1"}
        await raw.send("ACK", ids)
        got = [await raw.expect("MESSAGE") for _ in range(2)]
        assert [message.headers["n"] for message in got] == ["2", "3"]
        await raw.send("ACK", ids | {"subscription": "other"})
        assert (await raw.error()).headers["code"] == "E_STOMP_ACK"

    with_broker(check)


async def _two_queues(here: Place, version: StompVersion) -> tuple[RawStomp, dict[str, list[dict[str, str]]]]:
    """A client with two messages of each of two queues: one acknowledged one by one, one up to a message."""
    raw = await here.client(version)
    await raw.subscribe("/queue/a", ack="client-individual", **{"prefetch-count": "2"})
    await raw.subscribe("/queue/b", id="2", ack="client", **{"prefetch-count": "2"})
    for number in range(8):
        await raw.send("SEND", {"destination": f"/queue/{'ab'[number % 2]}", "n": str(number)})
    got: dict[str, list[dict[str, str]]] = {"1": [], "2": []}
    for _ in range(4):
        headers = (await raw.expect("MESSAGE")).headers
        names = {"message-id": headers["message-id"], "subscription": headers["subscription"]}
        got[headers["subscription"]].append(names if version is StompVersion.V11 else {"id": headers["ack"]})
    return raw, got


@pytest.mark.parametrize("version", [StompVersion.V11, StompVersion.V12])
def test_acknowledgements_that_come_together(version: StompVersion) -> None:
    async def check(here: Place) -> None:
        raw, got = await _two_queues(here, version)
        acks = [encode("ACK", one, version) for one in (got["1"][1], got["2"][1])]
        await raw.write(b"\n".join([*acks, acks[0], b""]) + acks[1])  # some twice, which does nothing
        again = [(await raw.expect("MESSAGE")).headers for _ in range(3)]
        assert sorted((one["subscription"], one["n"]) for one in again) == [("1", "4"), ("2", "5"), ("2", "7")]
        await raw.send("ACK", got["1"][0])
        assert (await raw.expect("MESSAGE")).headers["n"] == "6"

    with_broker(check)


@pytest.mark.parametrize("wrong", [b"ACK\nid:1-0\n\n\0", b"ACK\nid:9-1\n\n\0", b"ACK\nid:1-1-\n\n\0", b"ACK\nid\n\n\0"])
def test_acknowledgements_before_a_wrong_one_count(wrong: bytes) -> None:
    async def check(here: Place) -> None:
        raw, got = await _two_queues(here, StompVersion.V12)
        acks = b"".join(encode("ACK", one, StompVersion.V12) for one in got["2"])
        await raw.write(acks + encode("ACK", got["1"][0], StompVersion.V12) + wrong)
        assert (await raw.error()).headers["code"] in ("E_STOMP_ACK", "E_STOMP_FRAME")
        left = {}
        for queue, count in (("a", 3), ("b", 2)):
            other = await here.client()
            await other.subscribe(f"/queue/{queue}", ack="client")
            left[queue] = [(await other.expect("MESSAGE")).headers["n"] for _ in range(count)]
        assert left == {"a": ["2", "4", "6"], "b": ["5", "7"]}

    with_broker(check)


def test_a_queue_is_emptied_without_acknowledgements() -> None:
    """More than a window, to a consumer that acknowledges nothing."""

    async def check(here: Place) -> None:
        raw = await here.client()
        for number in range(2500):
            await raw.send("SEND", {"destination": "/queue/a", "n": str(number)})
        await raw.send("SEND", {"destination": "/queue/a", "n": "2500", "receipt": "all"})
        await raw.expect("RECEIPT")
        reader = await here.client()
        await reader.send("SUBSCRIBE", {"destination": "/queue/a", "id": "1"})
        got = [(await reader.expect("MESSAGE")).headers["n"] for _ in range(2501)]
        assert got == [str(number) for number in range(2501)]

    with_broker(check)


def test_a_rejected_message_becomes_a_dead_letter() -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.subscribe("/queue/a", ack="client-individual")
        await raw.send("SEND", {"destination": "/queue/a"}, b"bad")
        message = await raw.expect("MESSAGE")
        await raw.subscribe("/queue/dead-letters", id="2")
        await raw.send("NACK", {"id": message.headers["ack"], "requeue": "false"})
        dead = await raw.expect("MESSAGE")
        assert (dead.headers["subscription"], dead.body) == ("2", b"bad")

    with_broker(check)


@pytest.mark.parametrize("end", ["COMMIT", "ABORT"])
def test_what_is_given_back_in_a_transaction_comes_again_at_its_end(end: str) -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.subscribe("/queue/a", ack="client-individual")
        await raw.send("SEND", {"destination": "/queue/a"}, b"again")
        message = await raw.expect("MESSAGE")
        await raw.send("BEGIN", {"transaction": "t"})
        await raw.send("NACK", {"id": message.headers["ack"], "transaction": "t", "receipt": "back"})
        await raw.expect("RECEIPT")
        await raw.send(end, {"transaction": "t"})
        assert (await raw.expect("MESSAGE")).headers["redelivered"] == "true"

    with_broker(check)


@pytest.mark.parametrize(("end", "buried"), [("COMMIT", True), ("ABORT", False)])
def test_a_message_that_is_rejected_in_a_transaction_is_dead_with_its_commit(end: str, *, buried: bool) -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.subscribe("/queue/a", ack="client-individual")
        await raw.subscribe("/queue/dead-letters", id="dead")
        await raw.send("SEND", {"destination": "/queue/a"}, b"bad")
        message = await raw.expect("MESSAGE")
        await raw.send("BEGIN", {"transaction": "t"})
        await raw.send("NACK", {"id": message.headers["ack"], "transaction": "t", "requeue": "false", "receipt": "no"})
        await raw.expect("RECEIPT")
        await raw.send(end, {"transaction": "t"})
        assert (await raw.expect("MESSAGE")).headers["subscription"] == ("dead" if buried else "1")

    with_broker(check)


def test_a_temporary_queue_goes_with_its_connection() -> None:
    async def check(here: Place) -> None:
        raw = await here.client()
        await raw.subscribe("/temp-queue/x")
        names = set(here.broker.engine.node.mailbox_service.mailboxes.by_name)
        (queue,) = [name.removeprefix("queue:") for name in names if name.startswith("queue:tmp.")]
        other = await here.client()
        await other.send("SUBSCRIBE", {"destination": f"/queue/{queue}", "id": "1"})
        assert "E_FORBIDDEN" in (await other.expect("ERROR")).headers["message"]
        await raw.send("DISCONNECT", {"receipt": "bye"})
        await raw.expect("RECEIPT")
        assert await raw.reader.read() == b""
        raw.close()
        while any(name.startswith("queue:tmp.") for name in here.broker.engine.node.mailbox_service.mailboxes.by_name):
            await asyncio.sleep(0.01)

    with_broker(check)


def test_wildcards_and_no_local() -> None:
    async def check(here: Place) -> None:
        raw, other = await here.client(), await here.client()
        await raw.subscribe("/topic/a.*.c", id="1", **{"no-local": "true"})
        await raw.subscribe("/topic/a.>", id="2")
        await raw.send("SEND", {"destination": "/topic/a.b.c", "n": "own"})
        assert (await raw.expect("MESSAGE")).headers["subscription"] == "2"
        await other.send("SEND", {"destination": "/topic/a.b.c", "n": "other"})
        both = {(await raw.expect("MESSAGE")).headers["subscription"] for _ in range(2)}
        assert both == {"1", "2"}

    with_broker(check)


@pytest.mark.parametrize("header", ["exclusive", "activemq.exclusive"])
def test_an_exclusive_consumer_is_served_alone(header: str) -> None:
    async def check(here: Place) -> None:
        plain, exclusive = await here.client(), await here.client()
        await plain.subscribe("/queue/one", id="plain")
        await exclusive.subscribe("/queue/one", id="exclusive", **{header: "true"})
        for _ in range(3):
            await plain.send("SEND", {"destination": "/queue/one"})
            assert (await exclusive.expect("MESSAGE")).headers["subscription"] == "exclusive"

    with_broker(check)


def test_users_and_rules() -> None:
    rules = AccessRules.of(
        (
            AccessTable(user="ann", operations=("publish", "subscribe"), destination="open.>"),
            AccessTable(user="ann", operations=("subscribe",), destination="part.>", selector="region = 'EU'"),
        )
    )

    async def main() -> None:
        guard = UserGuard(add(Users({}), "ann", "a long secret", frozenset(), CHEAP), rules, BrokerLimits())
        async with place(guard=guard) as here:
            raw = await here.raw()
            await raw.send("CONNECT", {"accept-version": "1.2", "login": "ann", "passcode": "wrong"})
            assert (await raw.error()).headers["code"] == "E_LOGIN"
            raw = await here.client(login="ann", passcode="a long secret")
            await raw.subscribe("/topic/open.>")
            await raw.send("SEND", {"destination": "/topic/open.a", "receipt": "yes"})
            assert {(await raw.frame()).command for _ in range(2)} == {"MESSAGE", "RECEIPT"}
            await raw.send("SEND", {"destination": "/topic/closed", "receipt": "no"})
            error = await raw.error()
            assert (error.headers["code"], error.headers["receipt-id"]) == ("E_FORBIDDEN", "no")
            raw = await here.client(login="ann", passcode="a long secret")
            await raw.send("SUBSCRIBE", {"destination": "/topic/closed", "id": "1", "receipt": "no"})
            assert (await raw.error()).headers["code"] == "E_FORBIDDEN"

    run(main())


def test_random_bytes_disturb_nobody() -> None:
    """A sample of what `make fuzz` does to the parser, here on sockets: pieces of frames, broken somehow."""
    pieces = [
        b"SEND\n",
        b"destination:/topic/a\n",
        b"\n",
        b"\0",
        b"CONNECT\naccept-version:1.2\n\n\0",
        b"ACK\nid:1-1\n\n\0",
    ]
    pieces += [
        b"content-length:5\n",
        b"\r\n",
        b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\n\n\0",
        b"\\",
        b":",
        b"\xff",
    ]

    async def check(here: Place) -> None:
        rng = Random(7)
        other = await here.client()
        await other.subscribe("/topic/watched")
        for number in range(300):
            raw = await here.raw()
            if rng.random() < 0.7:
                await raw.connect()
            data = b"".join(rng.choice(pieces) for _ in range(rng.randrange(1, 12)))
            spoilt = bytearray(data)
            for _ in range(rng.randrange(3)):
                spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
            raw.writer.write(bytes(spoilt))
            raw.close()
            if number % 50 == 0:
                await other.send("SEND", {"destination": "/topic/watched", "n": str(number)})
                assert (await other.expect("MESSAGE")).headers["n"] == str(number)
        while len(here.broker.clients.connections) > 1:
            await asyncio.sleep(0.01)
        assert here.broker.forwarder.held_bytes() < 1000

    with_broker(check)
