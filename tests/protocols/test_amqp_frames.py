"""AMQP frame by frame against a real broker: what no client library would say, or lets one see."""

import socket
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from proton import Array, Data, Described, symbol, uint, ulong

from tidings.broker import users
from tidings.broker.access import Rule, Rules
from tidings.broker.limits import Limits
from tidings.broker.passwords import Cost
from tidings.broker.user_guard import UserGuard
from tidings.broker.users import Users
from tidings.model.destination import DestinationPattern
from tidings.protocols.amqp_sasl import AMQP_HEADER, INIT, OUTCOME, SASL_HEADER, amqp_frame, sasl_frame
from tidings.protocols.amqp_sections import Section, decode_first, decode_sections, encode
from tidings.testing.amqp_streams import (
    ACCEPT,
    ATTACH,
    BEGIN,
    COORDINATOR,
    DECLARE,
    DETACH,
    DISCHARGE,
    DISPOSITION,
    FLOW,
    MODIFIED,
    NOBODY,
    OPEN,
    REJECTED,
    RELEASED,
    SOURCE,
    TARGET,
    TRANSACTIONAL,
    TRANSFER,
    settled,
    transfer,
)
from tidings.testing.local_broker import BrokerThread

SECONDS = 30
MANY = uint(1 << 30)
DEAD_LETTERS = "queue://dead-letters"
REJECT, RELEASE = Described(REJECTED, []), Described(RELEASED, [])
MODIFY = Described(MODIFIED, [True])
Open = Callable[..., "Client"]


class Client:
    """One session of one connection. Handles are the caller's choice; those of the broker are counted alike."""

    def __init__(self, port: int, container: str = "", plain: bytes = b"") -> None:
        self._stream = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self._waiting: list[tuple[int, list[Any], bytes]] = []
        self._sent = 0
        if plain:
            self.say(SASL_HEADER, sasl_frame(INIT, [symbol("PLAIN"), plain]))
            assert self._read(8) == SASL_HEADER
            self.hear(OUTCOME)
        self.say(AMQP_HEADER, amqp_frame(OPEN, [container or uuid4().hex, "host"]))
        self.say(amqp_frame(BEGIN, [None, uint(0), MANY, MANY]))
        assert self._read(8) == AMQP_HEADER
        self.hear(BEGIN)

    def say(self, *frames: bytes) -> None:
        self._stream.sendall(b"".join(frames))

    def hear(self, wanted: int) -> tuple[list[Any], bytes]:
        """The fields of the next frame of this kind, as many as there can be, and what follows them."""
        while True:
            for i, (code, fields, payload) in enumerate(self._waiting):
                if code == wanted:
                    del self._waiting[i]
                    return fields, payload
            size = int.from_bytes(self._read(4), "big")
            content = self._read(size - 4)[4:]
            if content:
                value, used = decode_first(Data(), content)
                self._waiting.append((int(value.descriptor), [*value.value, *[None] * 14], content[used:]))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._stream.recv(size - len(data))
            assert part, "the broker has closed the connection"
            data += part
        return data

    def close(self) -> None:
        self._stream.close()

    # --- links ----------------------------------------------------------------------------------------------------

    def receive(
        self, handle: int, source: list[Any] | None, *, name: str = "", credit: int = 0, size_max: int = 0
    ) -> list[Any]:
        described = None if source is None else Described(SOURCE, source)
        link = [name or uuid4().hex, uint(handle), True, None, None, described, Described(TARGET, ["here"])]
        self.say(amqp_frame(ATTACH, [*link, None, None, None, ulong(size_max)]))
        if credit:
            self.say(amqp_frame(FLOW, [uint(0), MANY, uint(0), MANY, uint(handle), uint(0), uint(credit)]))
        return self.hear(ATTACH)[0]

    def publish(self, handle: int, target: Any) -> list[Any]:
        source = Described(SOURCE, ["here"])
        self.say(
            amqp_frame(ATTACH, [uuid4().hex, uint(handle), False, None, None, source, target, None, None, uint(0)])
        )
        return self.hear(ATTACH)[0]

    def detach(self, handle: int, *, closed: bool = True) -> list[Any]:
        self.say(amqp_frame(DETACH, [uint(handle), closed]))
        return self.hear(DETACH)[0]

    # --- messages -------------------------------------------------------------------------------------------------

    def send(
        self, handle: int, content: bytes, state: Any = None, *, presettled: bool = False, more: bool = False
    ) -> int:
        number, self._sent = self._sent, self._sent + 1
        fields = [uint(handle), uint(number), b"%d" % number, uint(0), presettled, more, None, state]
        self.say(transfer(fields, content))
        return number

    def outcome(self) -> Any:
        return self.hear(DISPOSITION)[0][4]

    def take(self) -> tuple[int, str]:
        """The number of the next delivery, and its text."""
        fields, content = self.hear(TRANSFER)
        return int(fields[1]), body(content)

    # --- transactions ---------------------------------------------------------------------------------------------

    def declare(self, handle: int = 9) -> bytes:
        self.publish(handle, Described(COORDINATOR, []))
        self.send(handle, encode(Section.VALUE, Described(DECLARE, [])))
        declared: bytes = self.outcome().value[0]
        return declared

    def discharge(self, transaction: bytes, *, fails: bool = False, handle: int = 9) -> Any:
        number = self.send(handle, encode(Section.VALUE, Described(DISCHARGE, [transaction, fails])))
        while True:
            fields = self.hear(DISPOSITION)[0]
            if fields[0] and fields[1] == number:
                return fields[4]


def body(content: bytes) -> str:
    return str(decode_sections(content)[-1].value)


def text(said: str) -> bytes:
    return encode(Section.VALUE, said)


def to(address: str, said: str) -> bytes:
    return encode(Section.PROPERTIES, [None, None, address]) + text(said)


def within(transaction: bytes, outcome: Any = None) -> Described:
    return Described(TRANSACTIONAL, [transaction] if outcome is None else [transaction, outcome])


def selecting(selector: str) -> dict[Any, Any]:
    return {symbol("s"): Described(symbol("apache.org:selector-filter:string"), selector)}


def source(address: str, *, selector: str = "", kept: bool = False, capabilities: Any = None) -> list[Any]:
    lasting = [uint(2), symbol("never")] if kept else [None, None]
    filters = selecting(selector) if selector else None
    return [address, *lasting, None, None, None, None, filters, None, None, capabilities]


def dead_letters_of(queue: str) -> list[Any]:
    return source(DEAD_LETTERS, selector=f"JMSXOriginalDestination = '{queue.replace('//', '')}'")


def refused_with(outcome: Any) -> str:
    assert outcome.descriptor == REJECTED, outcome
    return str(outcome.value[0].value[0])


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[Open]:
    opened: list[Client] = []

    def make(container: str = "") -> Client:
        opened.append(Client(broker.amqp_port, container))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def queue_with(client: Open, *said: str) -> str:
    queue = f"queue://q.{uuid4().hex}"
    put(client, queue, *said)
    return queue


def put(client: Open, address: str, *said: str) -> None:
    sender = client()
    sender.publish(0, Described(TARGET, [address]))
    for one in said:
        sender.send(0, text(one))
        assert sender.outcome().descriptor == ACCEPT.descriptor


# --- transactions -----------------------------------------------------------------------------------------------------


def test_a_commit_that_fails_undoes_every_outcome(client: Open) -> None:
    queue = queue_with(client, "accepted", "rejected", "released")
    worker = client()
    transaction = worker.declare()
    worker.publish(1, Described(TARGET, []))
    worker.receive(2, source(queue), credit=3)
    for outcome in (ACCEPT, REJECT, RELEASE):
        worker.say(settled(worker.take()[0], None, within(transaction, outcome)))
    worker.send(1, to("queue://tmp.9.9.9", "nobody's"), within(transaction))
    assert refused_with(worker.discharge(transaction)) == "amqp:transaction:rollback"
    other, graveyard = client(), client()
    other.receive(0, source(queue), credit=3)
    assert [other.take()[1] for _ in range(3)] == ["accepted", "rejected", "released"]
    graveyard.receive(0, dead_letters_of(queue), credit=10)
    for number in range(3):
        other.say(settled(number, None, ACCEPT if number else REJECT))
    assert graveyard.take()[1] == "accepted", "the only one that was rejected in earnest"


@pytest.mark.parametrize(("outcome", "found"), [(REJECT, "dead"), (MODIFY, "again"), (RELEASE, "again"), (ACCEPT, "")])
def test_an_outcome_of_a_transaction_outlives_its_link(client: Open, outcome: Described, found: str) -> None:
    queue = queue_with(client, "m")
    worker = client()
    transaction = worker.declare()
    worker.receive(1, source(queue), credit=1)
    worker.say(settled(worker.take()[0], None, within(transaction, outcome)))
    worker.detach(1)
    other = client()
    other.receive(0, source(queue), credit=10)
    put(client, queue, "behind it")
    assert other.take()[1] == "behind it", "it is not others' before the commit"
    assert worker.discharge(transaction).descriptor == ACCEPT.descriptor
    if found == "again":
        assert other.take()[1] == "m"
    elif found == "dead":
        other.receive(1, dead_letters_of(queue), credit=1)
        assert other.take()[1] == "m"
    else:
        put(client, queue, "last")
        assert other.take()[1] == "last"


@pytest.mark.parametrize("ends", [False, True])
def test_a_delivery_that_its_receiver_keeps_is_settled_with_the_commit(client: Open, *, ends: bool) -> None:
    queue = queue_with(client, "m")
    worker = client()
    transaction = worker.declare()
    worker.receive(1, source(queue), credit=9)
    number = worker.take()[0]
    worker.say(settled(number, None, within(transaction, REJECT), done=False))
    if ends:
        worker.detach(1)
    worker.send(9, encode(Section.VALUE, Described(DISCHARGE, [transaction, False])))
    heard = [worker.hear(DISPOSITION)[0] for _ in range(2)]
    assert heard[-1][4].descriptor == ACCEPT.descriptor, "the discharge"
    assert heard[0][:4] == [False, uint(number), None, True]
    assert ends or heard[0][4].descriptor == REJECTED
    worker.receive(2, dead_letters_of(queue), credit=1)
    assert worker.take()[1] == "m"


def test_after_a_rollback_the_receiver_still_has_the_deliveries_that_it_keeps(client: Open) -> None:
    queue = queue_with(client, "m", "n")
    worker = client()
    transaction = worker.declare()
    worker.receive(1, source(queue), credit=9)
    first, second = worker.take()[0], worker.take()[0]
    worker.say(settled(first, second, within(transaction, ACCEPT), done=False))
    assert worker.discharge(transaction, fails=True).descriptor == ACCEPT.descriptor
    worker.say(settled(first, None, ACCEPT, done=False))
    assert worker.hear(DISPOSITION)[0][:4] == [False, uint(first), None, True]
    put(client, queue, "behind them")
    assert worker.take()[1] == "behind them", "nothing was sent again"
    worker.say(settled(second, None, RELEASE))
    assert worker.take()[1] == "n"


def test_a_commit_that_fails_takes_back_deliveries_that_the_receiver_keeps(client: Open) -> None:
    queue = queue_with(client, "m")
    worker = client()
    transaction = worker.declare()
    worker.publish(1, Described(TARGET, []))
    worker.receive(2, source(queue), credit=9)
    number = worker.take()[0]
    worker.say(settled(number, None, within(transaction, ACCEPT), done=False))
    worker.send(1, to("queue://tmp.9.9.9", "nobody's"), within(transaction))
    worker.send(9, encode(Section.VALUE, Described(DISCHARGE, [transaction, False])))
    own = next(fields for fields in iter(lambda: worker.hear(DISPOSITION)[0], None) if not fields[0])
    assert own[:5] == [False, uint(number), None, True, None], "settled, without an outcome"
    assert worker.take()[1] == "m"


def test_what_is_said_last_of_a_delivery_counts(client: Open) -> None:
    queue = queue_with(client, "m")
    worker = client()
    transaction = worker.declare()
    worker.receive(1, source(queue), credit=9)
    number = worker.take()[0]
    worker.say(settled(number, None, within(transaction, ACCEPT), done=False))
    worker.say(settled(number, None, REJECT))
    worker.receive(2, dead_letters_of(queue), credit=1)
    assert worker.take()[1] == "m"
    assert worker.discharge(transaction).descriptor == ACCEPT.descriptor


def test_a_message_refused_here_spoils_its_transaction(client: Open) -> None:
    queue = queue_with(client)
    worker = client()
    transaction = worker.declare()
    worker.publish(1, Described(TARGET, [queue]))
    worker.send(1, text("first"), within(transaction), presettled=True)
    worker.send(1, b"\x00Sw\xff\xff", within(transaction), presettled=True)
    assert refused_with(worker.discharge(transaction)) == "amqp:transaction:rollback"
    put(client, queue, "only")
    worker.receive(2, source(queue), credit=2)
    assert worker.take()[1] == "only"


def test_a_message_refused_by_the_broker_spoils_its_transaction() -> None:
    alice = users.add(Users({}), "alice", "secret", frozenset(), Cost(n=2, r=1, p=1))
    rules = Rules((Rule("alice", DestinationPattern.parse("queue:hers"), frozenset({"publish"})),))
    with BrokerThread(guard=UserGuard(alice, rules, Limits())) as broker:
        worker = Client(broker.amqp_port, plain=b"\0alice\0secret")
        transaction = worker.declare()
        worker.publish(1, Described(TARGET, []))
        worker.send(1, to("queue://hers", "first"), within(transaction), presettled=True)
        worker.send(1, to("queue://theirs", "second"), within(transaction), presettled=True)
        assert refused_with(worker.discharge(transaction)) == "amqp:transaction:rollback"
        worker.close()


def test_a_discharge_amid_a_message_rolls_back(client: Open) -> None:
    queue = queue_with(client)
    worker = client()
    transaction = worker.declare()
    worker.publish(1, Described(TARGET, [queue]))
    content = text("whole")
    number = worker.send(1, content[:3], within(transaction), more=True)
    assert refused_with(worker.discharge(transaction)) == "amqp:transaction:rollback"
    worker.say(transfer([uint(1), uint(number), None, None, None, False], content[3:]))
    assert refused_with(worker.outcome()) == "amqp:transaction:unknown-id"


def test_a_transaction_of_more_than_this_broker_is_refused(client: Open) -> None:
    worker = client()
    worker.declare()
    worker.send(9, encode(Section.VALUE, Described(DECLARE, [b"of all"])))
    assert refused_with(worker.outcome()) == "amqp:not-implemented"


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
        sender.send(0, encode(Section.APPLICATION_PROPERTIES, {"mark": mark}) + text(said))
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
    many = Array(NOBODY, Data.SYMBOL, *map(symbol, {"shared", known}))
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
    content = encode(Section.DATA, bytes(most - 8))
    assert len(content) == most
    number = sender.send(0, content[:60_000], more=True)
    for start in range(60_000, most, 60_000):
        part = content[start : start + 60_000]
        sender.say(transfer([uint(0), uint(number), None, None, None, start + 60_000 < most], part))
    assert sender.outcome().descriptor == ACCEPT.descriptor
