"""AMQP frame by frame against a real broker: what no client library would say, or lets one see."""

import socket
from typing import Any
from uuid import uuid4

import pytest
from hardening.fuzz.amqp_streams import (
    ACCEPT,
    CLOSE,
    DETACH,
    FLOW,
    TARGET,
    settled,
    transfer,
)
from hardening.support.amqp_client import (
    DEAD_LETTERS,
    MANY,
    SECONDS,
    Client,
    Open,
    put,
    queue_with,
    source,
    text,
)

from tidings.protocols.amqp.sasl import AMQP_HEADER, INIT, OUTCOME, SASL_HEADER, amqp_frame, sasl_frame
from tidings.protocols.amqp.sections import MessageSection, encode
from tidings.protocols.amqp.wire.types import Described, symbol, symbols, ubyte, uint, ulong
from tidings.testing.local_broker import BrokerThread

# --- receiving --------------------------------------------------------------------------------------------------------


def test_what_is_too_large_for_a_link_is_left_for_others(client: Open) -> None:
    queue = queue_with(client, "x" * 1000, "small")
    narrow, wide = client(), client()
    narrow.receive(0, source(queue), credit=1, size_max=500)
    assert narrow.take()[1] == "small"
    wide.receive(0, source(queue), credit=1)
    assert wide.take()[1] == "x" * 1000


def test_a_dead_letter_that_is_too_large_for_a_link_stays(client: Open) -> None:
    mark = uuid4().hex
    sender, narrow, wide = client(), client(), client()
    sender.publish(0, Described(TARGET, [DEAD_LETTERS]))
    for said in ("x" * 1000, "small"):
        sender.send(0, encode(MessageSection.APPLICATION_PROPERTIES, {"mark": mark}) + text(said))
    dead = source(DEAD_LETTERS, selector=f"mark = '{mark}'")
    narrow.receive(0, dead, credit=1, size_max=500)
    assert narrow.take()[1] == "small"
    wide.receive(0, dead, credit=1)
    assert wide.take()[1] == "x" * 1000


@pytest.mark.parametrize("credit", [(1 << 31) - 1, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("mode", ["move", "copy"])
def test_there_is_no_credit_too_large(client: Open, credit: int, mode: str) -> None:
    said = [str(number) for number in range(3)]
    worker = client()
    worker.receive(0, [queue_with(client, *said), *[None] * 5, symbol(mode)], credit=credit)
    assert [worker.take()[1] for _ in said] == said


def test_credit_that_is_taken_back_is_none(client: Open) -> None:
    """With what the broker has sent meanwhile, there is less than none left."""
    queue = queue_with(client, "first", "second")
    worker, other = client(), client()
    worker.receive(0, source(queue), credit=2)
    assert [worker.take()[1] for _ in range(2)] == ["first", "second"]
    worker.say(amqp_frame(FLOW, [uint(0), MANY, uint(0), MANY, uint(0), uint(0), uint(0)]))
    worker.say(settled(0, 1, ACCEPT))
    worker.receive(1, source(queue))  # whose answer says that all was heard
    put(client, queue, "third")
    other.receive(0, source(queue), credit=1)
    assert other.take()[1] == "third"


@pytest.mark.parametrize("wish", ["session-end", "connection-close", "link-detach", None])
def test_the_answer_says_how_long_a_terminus_lives(client: Open, wish: str | None) -> None:
    wished = [uint(2), symbol(wish) if wish else None, uint(60)]
    actual = [uint(0), symbol("link-detach"), uint(0)]
    one = client()
    assert one.receive(0, ["topic://a", *wished])[5].value[1:4] == actual
    assert one.receive(1, ["queue://a", *wished, None, None, symbol("copy")])[5].value[1:4] == actual
    assert one.publish(2, Described(TARGET, ["queue://a", *wished]))[6].value[1:4] == actual


def test_a_dynamic_node_ends_with_its_link(client: Open) -> None:
    lifetime = symbol("lifetime-policy")
    wished: list[Any] = [None, None, None, None, True, {lifetime: Described(ulong(0x2E), [])}]
    one = client()
    for terminus in (one.receive(0, wished)[5], one.publish(1, Described(TARGET, wished))[6]):
        assert terminus.value[1:4] == [uint(0), symbol("link-detach"), uint(0)]
        assert terminus.value[5] == {lifetime: Described(ulong(0x2B), [])}


def test_a_kept_subscription_is_kept_as_wished(client: Open) -> None:
    wished = [uint(1), symbol("never"), uint(60)]
    one = client()
    assert one.receive(0, ["topic://a", *wished])[5].value[1:4] == wished
    one.detach(0)


# --- kept subscriptions, and links without a source -------------------------------------------------------------------


def keep(client: Open, container: str, name: str, topic: str, capabilities: Any = None) -> Client:
    """Make such a subscription, and let it have a message."""
    owner = client(container)
    owner.receive(0, source(topic, kept=True, capabilities=capabilities), name=name)
    owner.detach(0, closed=False)
    put(client, topic, "kept")
    return owner


def still_there(client: Open, container: str, name: str, topic: str, capabilities: Any = None) -> bool:
    owner = client(container)
    owner.receive(0, source(topic, kept=True, capabilities=capabilities), name=name, credit=2)
    put(client, topic, "last")
    return owner.take()[1] == "kept"


def test_a_link_without_a_source_that_is_detached_deletes_nothing(client: Open) -> None:
    topic, container = f"topic://t.{uuid4().hex}", uuid4().hex
    owner = keep(client, container, "sub", topic)
    assert owner.receive(1, None, name="sub")[5] is not None
    assert owner.detach(1, closed=False)[2] is None
    assert still_there(client, container, "sub", topic)


def test_a_link_without_a_source_deletes_what_has_its_very_name(client: Open) -> None:
    topic, container = f"topic://t.{uuid4().hex}", uuid4().hex
    owner = keep(client, container, "a", topic)
    keep(client, container, "a|b", topic)
    owner.receive(1, None, name="a|b")
    assert owner.detach(1)[2] is None
    assert not still_there(client, container, "a|b", topic)
    assert still_there(client, container, "a", topic)


@pytest.mark.parametrize("known", ["shared", "global"])
def test_a_link_without_a_source_deletes_a_shared_subscription(client: Open, known: str) -> None:
    topic, container, name = f"topic://t.{uuid4().hex}", uuid4().hex, uuid4().hex
    many = symbols(*{"shared", known})
    owner = keep(client, container, f"{name}|1", topic, many)
    owner.receive(1, None, name=f"{name}|2")
    assert owner.detach(1)[2] is None
    assert not still_there(client, container, f"{name}|1", topic, many)


def test_a_link_without_a_source_learns_that_there_is_no_such_subscription(client: Open) -> None:
    nobody = client()
    assert nobody.receive(0, None, name="nobody's")[5] is None
    assert nobody.hear(DETACH)[0][2].value[0] == "amqp:not-found"


def test_a_subscription_in_use_is_not_deleted(client: Open) -> None:
    topic, container = f"topic://t.{uuid4().hex}", uuid4().hex
    client(container).receive(0, source(topic, kept=True), name="sub")
    other = client(container)
    other.receive(0, None, name="sub")
    assert other.detach(0)[2].value[0] == "amqp:resource-locked"


# --- sending ----------------------------------------------------------------------------------------------------------


def test_aborted_deliveries_give_their_credit_back(client: Open) -> None:
    sender = client()
    sender.publish(0, Described(TARGET, [f"queue://q.{uuid4().hex}"]))
    credit = int(sender.hear(FLOW)[0][6] or sender.hear(FLOW)[0][6])
    for _ in range(credit // 2):  # two transfers each are as many as the session's window allows
        number = sender.send(0, text("half")[:3], more=True)
        sender.say(transfer([uint(0), uint(number), None, None, None, False, None, None, None, True], b""))
    while True:
        fields, _ = sender.hear(FLOW)
        if fields[5] is not None and fields[5] + fields[6] > credit:
            break
    sender.send(0, text("whole"))
    assert sender.outcome().descriptor == ACCEPT.descriptor


def test_a_message_of_the_size_that_is_advertised_is_taken(client: Open) -> None:
    sender = client()
    most = int(sender.publish(0, Described(TARGET, [f"queue://q.{uuid4().hex}"]))[10])
    content = encode(MessageSection.DATA, bytes(most - 8))
    assert len(content) == most
    number = sender.send(0, content[:60_000], more=True)
    for start in range(60_000, most, 60_000):
        part = content[start : start + 60_000]
        sender.say(transfer([uint(0), uint(number), None, None, None, start + 60_000 < most], part))
    assert sender.outcome().descriptor == ACCEPT.descriptor


# --- what is none of AMQP's -------------------------------------------------------------------------------------------

GARBAGE = b"\x00\x00\x00\x0c\x02\x00\x00\x00" + b"\xff" * 4
NOT_A_LIST = b"\x00\x00\x00\x0e\x02\x00\x00\x00\x00\x53\x11\xc1\x01\x00"  # a begin that is a map
NOT_UTF8 = b"\x00\x00\x00\x11\x02\x00\x00\x00\x00\x53\x10\xc0\x04\x01\xa1\x01\xff"  # an open, its container


@pytest.mark.parametrize("frame", [amqp_frame(0x19, []), GARBAGE, NOT_A_LIST])
def test_a_frame_without_a_performative_ends_the_connection(client: Open, frame: bytes) -> None:
    """Proton would read no more, say nothing, and keep the connection. What came before counts."""
    queue = f"queue://q.{uuid4().hex}"
    stranger, reader = client(), client()
    stranger.publish(0, Described(TARGET, [queue]))
    stranger.say(transfer([uint(0), uint(0), b"1", None, True], text("before")) + frame)
    why = stranger.hear(CLOSE)[0][0].value
    assert (why[0], why[2]["code"]) == ("amqp:decode-error", "E_AMQP_DECODE")
    reader.receive(0, source(queue), credit=1)
    assert reader.take()[1] == "before"


@pytest.mark.parametrize("first", [GARBAGE, NOT_UTF8])
def test_who_opens_with_garbage_is_told_why_the_connection_ends(broker: BrokerThread, first: bytes) -> None:
    heard = _all_heard(broker, AMQP_HEADER + first)
    assert heard.startswith(AMQP_HEADER)
    assert heard.count(b"E_AMQP_DECODE: ") == 1


@pytest.mark.parametrize("waits", [True, False])
def test_who_speaks_something_else_after_the_log_in_is_told_so(broker: BrokerThread, *, waits: bool) -> None:
    said = SASL_HEADER + sasl_frame(INIT, [symbol("ANONYMOUS")]), b"AMQP\x00\x00\x09\x01"
    heard = _all_heard(broker, *said) if waits else _all_heard(broker, b"".join(said))
    assert heard.startswith(SASL_HEADER)
    assert heard.index(AMQP_HEADER) < heard.index(b"E_AMQP_HEADER: ")
    assert heard.count(b"E_AMQP_HEADER: ") == 1


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"whatever"])
def test_who_speaks_something_else_hears_what_is_spoken_here_and_no_more(broker: BrokerThread, header: bytes) -> None:
    """Part 2.2: a header of a protocol that is understood, and then the end of the connection."""
    assert _all_heard(broker, header) == SASL_HEADER


def _all_heard(broker: BrokerThread, first: bytes, then: bytes = b"") -> bytes:
    """All that the broker answers until it closes the connection; `then` is said when the log-in has succeeded."""
    heard = b""
    with socket.create_connection(("127.0.0.1", broker.amqp_port), timeout=SECONDS) as stream:
        stream.sendall(first)
        while then and not heard.endswith(sasl_frame(OUTCOME, [ubyte(0)])):
            heard += stream.recv(4096)
        stream.sendall(then)
        while part := stream.recv(4096):
            heard += part
    return heard
