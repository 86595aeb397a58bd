"""Proton's blocking client against a real broker."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from proton import Delivery, Described, Link, Message, symbol
from proton.reactor import AtLeastOnce, AtMostOnce, Container, Copy, DurableSubscription, Filter, LinkOption, Selector
from proton.utils import BlockingConnection, LinkDetached, SendException

from tidings.testing.local_broker import BrokerThread

SECONDS = 30
Connect = Callable[..., Any]  # Proton's annotations of what it returns are of little help


@pytest.fixture
def connect(broker: BrokerThread) -> Iterator[Connect]:
    opened: list[Any] = []

    def make(container: str | None = None) -> Any:
        options: dict[str, Any] = {} if container is None else {"container_id": container}
        opened.append(_connect(broker, **options))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


def _connect(broker: BrokerThread, container_id: str = "", **options: Any) -> BlockingConnection:
    container = Container()
    if container_id:
        container.container_id = container_id
    return BlockingConnection(broker.amqp, timeout=SECONDS, container=container, **options)


def name(kind: str = "queue") -> str:
    return f"{kind}://{kind[0]}.{uuid4().hex}"


def receive(receiver: Any) -> Any:
    message = receiver.receive(timeout=SECONDS)
    receiver.accept()
    return message


class Tuned(LinkOption):
    """A link with its source changed by hand."""

    def __init__(self, tune: Callable[[Link], None]) -> None:
        self._tune = tune

    def apply(self, link: Link) -> None:
        self._tune(link)


def said(receiver: Any) -> None:
    """Wait until the broker has handled all that was said before."""
    receiver.connection.create_sender(name()).close()


def detach(receiver: Any) -> None:
    receiver.link.detach()
    said(receiver)


def nothing_there(receiver: Any) -> bool:
    """Whether a drain ends without a message."""
    link = receiver.link
    link.drain(1)
    receiver.connection.wait(lambda: link.credit == 0 or receiver.fetcher.has_message, timeout=SECONDS)
    return not receiver.fetcher.has_message


def test_a_plain_address_is_a_queue_and_keeps_its_messages_in_order(connect: Connect) -> None:
    address = f"examples.{uuid4().hex}"
    sender = connect().create_sender(address)
    for i in range(10):
        sender.send(Message(body=f"number {i}", durable=True))
    receiver = connect().create_receiver(f"queue://{address}", credit=10)
    assert [receive(receiver).body for _ in range(10)] == [f"number {i}" for i in range(10)]


@pytest.mark.parametrize("form", ["/topic/{}", "topic://{}", "topic:{}"])
def test_all_forms_of_a_topic_name_the_same(connect: Connect, form: str) -> None:
    topic = uuid4().hex
    receiver = connect().create_receiver(form.format(topic), credit=1)
    connect().create_sender(f"topic://{topic}").send(Message(body="news"))
    assert receive(receiver).body == "news"


def test_a_capability_says_what_a_plain_address_is(connect: Connect) -> None:
    def tune(link: Link) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_symbol(symbol("topic"))

    topic = uuid4().hex
    receivers = [connect().create_receiver(topic, credit=1, options=Tuned(tune)) for _ in range(2)]
    connect().create_sender(topic, options=Tuned(tune)).send(Message(body="to all"))
    assert [receive(one).body for one in receivers] == ["to all", "to all"]


def test_a_selector_receives_what_it_selects(connect: Connect) -> None:
    topic = name("topic")
    receiver = connect().create_receiver(topic, credit=10, options=Selector("colour = 'green' AND JMSPriority > 4"))
    sender = connect().create_sender(topic)
    for colour, priority in (("green", 4), ("red", 9), ("green", 7)):
        sender.send(Message(body=f"{colour} {priority}", priority=priority, properties={"colour": colour}))
    assert receive(receiver).body == "green 7"
    assert nothing_there(receiver)


class SqlFilter(Filter):
    """As users of RabbitMQ 4 write it."""

    def __init__(self, expression: str) -> None:
        super().__init__({symbol("sql"): Described(symbol("amqp:sql-filter"), expression)})


@pytest.mark.parametrize(
    "expression",
    [
        "properties.subject = 's'",
        "header.priority > 4 AND p.correlation_id = 'c'",
        "application_properties.n = 1",
        "n < 2",
    ],
)
def test_a_sql_filter_names_fields_by_their_section(connect: Connect, expression: str) -> None:
    topic = name("topic")
    receiver = connect().create_receiver(topic, credit=10, options=SqlFilter(expression))
    sender = connect().create_sender(topic)
    sender.send(Message(body="no", properties={"n": 2}))
    sender.send(Message(body="yes", subject="s", correlation_id="c", priority=7, properties={"n": 1}))
    assert receive(receiver).body == "yes"


def test_a_sql_filter_on_a_field_that_cannot_be_filtered_is_refused(connect: Connect) -> None:
    with pytest.raises(LinkDetached, match="a filter cannot name"):
        connect().create_receiver(name("topic"), options=SqlFilter("properties.to = 'x'"))


@pytest.mark.parametrize(
    "selector",
    ["JMSType = 's'", "JMSCorrelationID = 'c'", "JMSReplyTo = 'queue:r'", "JMSDeliveryMode = 'PERSISTENT'"],
)
def test_selectors_see_header_fields(connect: Connect, selector: str) -> None:
    topic = name("topic")
    receiver = connect().create_receiver(topic, credit=10, options=Selector(selector))
    sender = connect().create_sender(topic)
    sender.send(Message(body="no"))
    sender.send(Message(body="yes", subject="s", correlation_id="c", reply_to="queue://r", durable=True))
    assert receive(receiver).body == "yes"


def test_a_selector_of_a_queue_leaves_the_rest_for_others(connect: Connect) -> None:
    queue = name()
    sender = connect().create_sender(queue)
    for n in range(4):
        sender.send(Message(body=n, properties={"n": n}))
    picky = connect().create_receiver(queue, credit=4, options=Selector("n > 2"))
    assert receive(picky).body == 3
    rest = connect().create_receiver(queue, credit=4)
    assert [receive(rest).body for _ in range(3)] == [0, 1, 2]


def test_an_invalid_selector_refuses_the_link_and_says_where(connect: Connect) -> None:
    with pytest.raises(LinkDetached) as caught:
        connect().create_receiver(name("topic"), options=Selector("price > > 20"))
    condition = caught.value.link.remote_condition
    assert condition is not None
    assert condition.name == "amqp:invalid-field"
    assert isinstance(condition.info, dict)
    assert condition.info[symbol("position")] == 8


def test_of_two_selectors_both_hold(connect: Connect) -> None:
    topic = name("topic")
    kind = symbol("apache.org:selector-filter:string")
    both = Filter({symbol(one): Described(kind, text) for one, text in (("a", "a = 1 OR b = 2"), ("b", "b = 1"))})
    receiver = connect().create_receiver(topic, credit=10, options=both)
    sender = connect().create_sender(topic)
    for a, b in ((1, 2), (2, 1), (1, 1)):
        sender.send(Message(body=f"{a} {b}", properties={"a": a, "b": b}))
    assert receive(receiver).body == "1 1"
    assert nothing_there(receiver)
    halves = Filter({symbol(one): Described(kind, text) for one, text in (("a", "a = 1) OR (b = 1"), ("b", "b = 1"))})
    with pytest.raises(LinkDetached, match="amqp:invalid-field"):
        connect().create_receiver(topic, options=halves)


def test_a_filter_nobody_knows_is_not_in_the_answer(connect: Connect) -> None:
    filters = Filter({symbol("x"): Described(symbol("x"), "y")})
    receiver = connect().create_receiver(name("topic"), options=filters)
    receiver.link.remote_source.filter.rewind()
    assert receiver.link.remote_source.filter.next() is None
    receiver = connect().create_receiver(name("topic"), options=Selector("a = 1"))
    receiver.link.remote_source.filter.rewind()
    receiver.link.remote_source.filter.next()
    assert list(receiver.link.remote_source.filter.get_object()) == [symbol("selector")]


def test_a_durable_subscription_waits_for_its_owner_until_it_is_closed(connect: Connect) -> None:
    topic, container = name("topic"), uuid4().hex
    first = connect(container)
    first.create_receiver(topic, name="audit", options=DurableSubscription())
    first.conn.close()
    first.close()
    connect().create_sender(topic).send(Message(body="while away", durable=True))
    receiver = connect(container).create_receiver(topic, name="audit", credit=1, options=DurableSubscription())
    assert receive(receiver).body == "while away"
    detach(receiver)
    connect().create_sender(topic).send(Message(body="detached", durable=True))
    receiver = connect(container).create_receiver(topic, name="audit", credit=1, options=DurableSubscription())
    assert receive(receiver).body == "detached"
    receiver.close()
    connect().create_sender(topic).send(Message(body="closed", durable=True))
    receiver = connect(container).create_receiver(topic, name="audit", credit=1, options=DurableSubscription())
    assert nothing_there(receiver)


def test_a_link_without_a_source_closes_a_kept_subscription(connect: Connect) -> None:
    topic, container = name("topic"), uuid4().hex
    detach(connect(container).create_receiver(topic, name="audit", options=DurableSubscription()))
    connection = connect(container)
    connection.create_receiver(None, name="audit").close()
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        connection.create_receiver(None, name="audit")


def _shared(link: Link) -> None:
    link.source.capabilities.put_array(False, link.source.capabilities.SYMBOL)
    link.source.capabilities.enter()
    for one in ("topic", "shared", "global"):
        link.source.capabilities.put_symbol(symbol(one))
    link.source.capabilities.exit()


def test_a_shared_subscription_divides_its_messages(connect: Connect) -> None:
    topic, share = uuid4().hex, uuid4().hex
    receivers = [
        connect().create_receiver(topic, name=f"{share}|{i}", credit=10, options=Tuned(_shared)) for i in (1, 2)
    ]
    sender = connect().create_sender(f"topic://{topic}")
    for i in range(10):
        sender.send(Message(body=i))
    got = [[receive(one).body for _ in range(5)] for one in receivers]
    assert sorted(got[0] + got[1]) == list(range(10))


def test_what_is_not_settled_when_a_link_closes_comes_again_uncounted(connect: Connect) -> None:
    queue = name()
    connect().create_sender(queue).send(Message(body="once"))
    for _ in range(10):  # more often than a message is tried
        receiver = connect().create_receiver(queue, credit=1)
        message = receiver.receive(timeout=SECONDS)
        assert (message.body, message.delivery_count) == ("once", 0)
        receiver.close()


def test_outcomes_say_what_becomes_of_a_message(connect: Connect) -> None:
    queue = name()
    connect().create_sender(queue).send(Message(body="m"))
    receiver = connect().create_receiver(queue, credit=1)
    assert receiver.receive(timeout=SECONDS).delivery_count == 0
    receiver.release(delivered=False)
    assert receiver.receive(timeout=SECONDS).delivery_count == 0
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.failed = True
    delivery.update(Delivery.MODIFIED)
    delivery.settle()
    message = receiver.receive(timeout=SECONDS)
    assert (message.delivery_count, message.first_acquirer) == (1, False)
    dead = connect().create_receiver(
        "queue://dead-letters", credit=1, options=Selector(f"JMSXOriginalDestination = '{queue.replace('//', '')}'")
    )
    receiver.reject()
    said(receiver)
    letter = receive(dead)
    assert (letter.body, letter.properties["JMSXDeathCause"]) == ("m", "rejected by its consumer")


def test_what_is_undeliverable_here_goes_to_another_consumer(connect: Connect) -> None:
    queue = name()
    connect().create_sender(queue).send(Message(body="m"))
    receiver = connect().create_receiver(queue, credit=5)
    receiver.receive(timeout=SECONDS)
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.undeliverable = True
    delivery.local.failed = True
    delivery.update(Delivery.MODIFIED)
    delivery.settle()
    assert nothing_there(receiver)
    other = connect().create_receiver(queue, credit=1)
    assert other.receive(timeout=SECONDS).delivery_count == 1
    other.accept()


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("mode", [AtMostOnce(), AtLeastOnce()])
def test_both_modes_of_settlement_in_both_directions(connect: Connect, kind: str, mode: LinkOption) -> None:
    address = name(kind)
    connection = connect()  # what is settled already is not waited for: the receiver has to send it out
    receiver = connection.create_receiver(address, credit=10, options=mode)
    sender = connection.create_sender(address, options=mode)
    for i in range(5):
        sender.send(Message(body=i))
    assert [receiver.receive(timeout=SECONDS).body for _ in range(5)] == list(range(5))
    settled = isinstance(mode, AtMostOnce)
    assert (receiver.link.remote_snd_settle_mode == Link.SND_SETTLED) == settled
    for _ in range(0 if settled else 5):
        receiver.accept()
    receiver.close()
    if kind == "queue":
        assert nothing_there(connect().create_receiver(address))


def test_a_dynamic_source_is_a_reply_queue_that_ends_with_its_link(connect: Connect) -> None:
    requester, replier, service = connect(), connect(), name()
    server = replier.create_receiver(service, credit=1)
    replies = requester.create_receiver(None, dynamic=True, credit=1)
    address = replies.link.remote_source.address
    request = Message(body="2 + 2", reply_to=address, correlation_id=7)
    requester.create_sender(service).send(request)
    got = receive(server)
    assert (got.reply_to, got.correlation_id) == (address, 7)
    sender = replier.create_sender(got.reply_to)
    sender.send(Message(body="4", correlation_id=got.correlation_id))
    answer = receive(replies)
    assert (answer.body, answer.correlation_id) == ("4", 7)
    replies.close()
    with pytest.raises(SendException) as caught:
        sender.send(Message(body="late"))
    assert caught.value.state == Delivery.REJECTED


def test_a_sender_without_a_target_says_in_each_message_where_it_goes(connect: Connect) -> None:
    first, second = name(), name("topic")
    receivers = [connect().create_receiver(one, credit=1) for one in (first, second)]
    sender = connect().create_sender(None)
    sender.send(Message(address=first, body="1"))
    sender.send(Message(address=second, body="2"))
    assert [(one.address, one.body) for one in map(receive, receivers)] == [(first, "1"), (second, "2")]
    with pytest.raises(SendException):
        sender.send(Message(body="nowhere"))


def test_a_dynamic_target_is_a_queue_that_only_its_connection_may_read(connect: Connect) -> None:
    def tune(link: Link) -> None:
        link.target.dynamic = True

    owner, other = connect(), connect()
    address = owner.create_sender(None, options=Tuned(tune)).link.remote_target.address
    other.create_sender(address).send(Message(body="here"))
    with pytest.raises(LinkDetached, match="amqp:unauthorized-access"):
        other.create_receiver(address, credit=1)
    assert receive(owner.create_receiver(address, credit=1)).body == "here"


def test_a_drain_returns_credit_at_once(connect: Connect) -> None:
    queue = name()
    receiver = connect().create_receiver(queue)
    assert nothing_there(receiver)
    connect().create_sender(queue).send(Message(body="m"))
    receiver.link.drain(600)  # more than is passed on at a time
    receiver.connection.wait(lambda: receiver.link.credit == 0, timeout=SECONDS)
    assert receive(receiver).body == "m"


def test_more_than_one_slice_of_credit(connect: Connect) -> None:
    queue = name()
    sender = connect().create_sender(queue)
    for i in range(700):
        sender.send(Message(body=i), timeout=SECONDS)
    receiver = connect().create_receiver(queue, credit=1000)
    assert [receive(receiver).body for _ in range(700)] == list(range(700))


def test_a_large_message_in_many_frames(connect: Connect) -> None:
    queue, body = name(), bytes(range(256)) * 12_000  # three megabytes
    connect().create_sender(queue).send(Message(body=body, durable=True))
    received = receive(connect().create_receiver(queue, credit=1))
    assert bytes(received.body) == body


def test_a_message_above_the_limit_is_rejected(connect: Connect) -> None:
    connection = connect()
    sender = connection.create_sender(name())
    with pytest.raises(SendException) as caught:
        sender.send(Message(body=bytes(17 << 20)), timeout=SECONDS)
    assert caught.value.state == Delivery.REJECTED
    sender.send(Message(body="the link goes on"))


def test_a_name_that_cannot_be_is_refused(connect: Connect) -> None:
    connection = connect()
    for create in (connection.create_sender, connection.create_receiver):
        with pytest.raises(LinkDetached, match="invalid-field"):
            create("queue://a..b")
    with pytest.raises(LinkDetached, match="not-allowed"):
        connection.create_receiver("queue://a.*")


def test_a_wildcard_tells_where_each_message_went(connect: Connect) -> None:
    level = uuid4().hex
    receiver = connect().create_receiver(f"topic://{level}.*", credit=2)
    connect().create_sender(f"topic://{level}.eu").send(Message(body="m"))
    assert receive(receiver).instructions == {symbol("x-opt-destination"): f"topic://{level}.eu"}


def test_no_local_leaves_out_ones_own(connect: Connect) -> None:
    own, other, topic = connect(), connect(), name("topic")
    filters = Filter({symbol("no-local"): Described(symbol("apache.org:no-local-filter:list"), [])})
    receiver = own.create_receiver(topic, credit=5, options=filters)
    own.create_sender(topic).send(Message(body="own"))
    other.create_sender(topic).send(Message(body="other's"))
    assert receiver.receive(timeout=SECONDS).body == "other's"


def test_an_exclusive_consumer_is_served_alone(connect: Connect) -> None:
    def exclusive(link: Link) -> None:
        link.properties = {symbol("exclusive"): True}

    address = name()
    connect().create_receiver(address, credit=10)
    only = connect().create_receiver(address, credit=10, options=Tuned(exclusive))
    sender = connect().create_sender(address)
    for number in range(3):
        sender.send(Message(body=number))
        assert receive(only).body == number
    with pytest.raises(LinkDetached, match="E_EXCLUSIVE"):
        connect().create_receiver(name("topic"), options=[Tuned(exclusive), AtMostOnce()])


# --- browsing ---------------------------------------------------------------------------------------------------------


def filled(connect: Connect, count: int) -> str:
    address = name()
    sender = connect().create_sender(address)
    for i in range(count):
        sender.send(Message(body=f"m{i}", properties={"i": i}))
    return address


@pytest.mark.parametrize("mode", [AtLeastOnce, AtMostOnce])
def test_a_queue_is_browsed_without_being_consumed(connect: Connect, mode: type[LinkOption]) -> None:
    address = filled(connect, 300)  # more than a page
    browser = connect().create_receiver(address, credit=1000, options=[Copy(), mode()])
    shown = [browser.receive(timeout=SECONDS).body for _ in range(300)]
    assert shown == [f"m{i}" for i in range(300)]
    assert nothing_there(browser)
    browser.close()
    consumer = connect().create_receiver(address, credit=300)
    assert [receive(consumer).body for _ in range(300)] == shown


def test_what_is_said_of_a_copy_does_not_touch_the_message(connect: Connect) -> None:
    address = filled(connect, 3)
    browser = connect().create_receiver(address, credit=3, options=Copy())
    for settle in (browser.accept, browser.reject, browser.release):
        browser.receive(timeout=SECONDS)
        settle()
    said(browser)
    consumer = connect().create_receiver(address, credit=3)
    found = [receive(consumer) for _ in range(3)]
    assert [(one.body, one.delivery_count) for one in found] == [("m0", 0), ("m1", 0), ("m2", 0)]


def test_browsing_takes_selectors_and_credit(connect: Connect) -> None:
    address = filled(connect, 20)
    browser = connect().create_receiver(address, options=[Copy(), Selector("i >= 17")])
    browser.link.flow(2)
    browser.connection.wait(lambda: browser.link.credit == 0, timeout=SECONDS)
    said(browser)
    assert len(browser.fetcher.incoming) == 2, "there was credit for two"
    browser.link.flow(5)
    assert [browser.receive(timeout=SECONDS).body for _ in range(3)] == ["m17", "m18", "m19"]
    with pytest.raises(LinkDetached):
        connect().create_receiver(address, options=[Copy(), Selector("i >=")])


def test_a_browser_sees_what_comes_later(connect: Connect) -> None:
    address = name()
    browser = connect().create_receiver(address, credit=10, options=Copy())
    assert nothing_there(browser), "the queue is not even made"
    browser.link.flow(10)
    connect().create_sender(address).send(Message(body="late"))
    assert browser.receive(timeout=SECONDS).body == "late"
