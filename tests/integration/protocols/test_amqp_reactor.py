"""Proton's reactor against a real broker: its examples' shapes, and transactions."""

from typing import Any
from uuid import uuid4

from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, DurableSubscription, Selector

from tidings.testing.local_broker import BrokerThread

COUNT = 200
SECONDS = 60.0


class Timed(MessagingHandler):
    """A test that takes too long has failed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.late = False
        self.errors: list[str] = []

    def watch(self, event: Any) -> None:
        self.timer = event.reactor.schedule(SECONDS, self)

    def on_timer_task(self, event: Any) -> None:
        self.late = True
        event.reactor.stop()

    def on_error(self, event: Any) -> None:
        self.errors.append(str(event))

    def done(self, event: Any) -> None:
        self.timer.cancel()
        event.connection.close()


class Send(Timed):
    """simple_send: confirms all, then closes."""

    def __init__(self, url: str, count: int) -> None:
        super().__init__()
        self.url, self.count = url, count
        self.sent = self.confirmed = 0

    def on_start(self, event: Any) -> None:
        self.watch(event)
        event.container.create_sender(self.url)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < self.count:
            self.sent += 1
            event.sender.send(Message(id=self.sent, body={"sequence": self.sent}, properties={"n": self.sent}))

    def on_accepted(self, event: Any) -> None:
        self.confirmed += 1
        if self.confirmed == self.count:
            self.done(event)


class Receive(Timed):
    """simple_recv, selected_recv, durable subscriber."""

    def __init__(self, url: str, count: int, options: Any = None) -> None:
        super().__init__()
        self.url, self.count, self.options = url, count, options
        self.got: list[Any] = []

    def on_start(self, event: Any) -> None:
        self.watch(event)
        connection = event.container.connect(self.url.split("/")[0])
        event.container.create_receiver(connection, self.url.split("/", 1)[1], options=self.options)

    def on_message(self, event: Any) -> None:
        self.got.append((event.message.id, event.message.body))
        if len(self.got) == self.count:
            event.receiver.close()
            self.done(event)


def run(handler: Timed) -> None:
    Container(handler).run()
    assert not handler.late, vars(handler)
    assert handler.errors == []


def test_simple_send_and_simple_receive(broker: BrokerThread) -> None:
    url = f"{broker.amqp}/examples.{uuid4().hex}"
    send, receive = Send(url, COUNT), Receive(url, COUNT)
    run(send)
    run(receive)
    assert receive.got == [(i, {"sequence": i}) for i in range(1, COUNT + 1)]


def test_selected_receive(broker: BrokerThread) -> None:
    url = f"{broker.amqp}/examples.{uuid4().hex}"
    run(Send(url, 20))
    receive = Receive(url, 5, Selector("n > 15"))
    run(receive)
    assert [one for one, _ in receive.got] == [16, 17, 18, 19, 20]


class Respond(Timed):
    """client and server of the request/reply example in one reactor."""

    def __init__(self, url: str, requests: list[str]) -> None:
        super().__init__()
        self.host, self.address = url.split("/", 1)
        self.requests = requests
        self.replies: list[tuple[int, str]] = []

    def on_start(self, event: Any) -> None:
        self.watch(event)
        self.connection = event.container.connect(self.host)
        self.server = event.container.create_receiver(self.connection, self.address)
        self.relay = event.container.create_sender(self.connection, None)
        self.sender = event.container.create_sender(self.connection, self.address)
        self.receiver = event.container.create_receiver(self.connection, None, dynamic=True)

    def next_request(self) -> None:
        reply_to = self.receiver.remote_source.address
        self.sender.send(
            Message(reply_to=reply_to, correlation_id=len(self.replies), body=self.requests[len(self.replies)])
        )

    def on_link_opened(self, event: Any) -> None:
        if event.receiver == self.receiver:
            self.next_request()

    def on_message(self, event: Any) -> None:
        message = event.message
        if event.receiver == self.server:
            reply = Message(address=message.reply_to, body=message.body.upper(), correlation_id=message.correlation_id)
            self.relay.send(reply)
            return
        self.replies.append((message.correlation_id, message.body))
        if len(self.replies) < len(self.requests):
            self.next_request()
        else:
            self.done(event)


def test_request_and_reply(broker: BrokerThread) -> None:
    respond = Respond(f"{broker.amqp}/service.{uuid4().hex}", ["twas brillig", "and the slithy toves"])
    run(respond)
    assert respond.replies == [(0, "TWAS BRILLIG"), (1, "AND THE SLITHY TOVES")]


def test_a_durable_subscriber_of_the_reactor(broker: BrokerThread) -> None:
    topic, container = f"topic://t.{uuid4().hex}", uuid4().hex

    class Subscribe(Timed):
        def on_start(self, event: Any) -> None:
            self.watch(event)
            event.container.container_id = container
            connection = event.container.connect(broker.amqp)
            event.container.create_receiver(connection, topic, name="sub", options=DurableSubscription())

        def on_link_opened(self, event: Any) -> None:
            event.receiver.detach()
            self.done(event)

    class Collect(Receive):
        def on_start(self, event: Any) -> None:
            self.watch(event)
            event.container.container_id = container
            connection = event.container.connect(broker.amqp)
            event.container.create_receiver(connection, topic, name="sub", options=DurableSubscription())

    run(Subscribe())
    run(Send(f"{broker.amqp}/{topic}", 10))
    collect = Collect("", 10)
    run(collect)
    assert [one for one, _ in collect.got] == list(range(1, 11))


class Transact(Timed, TransactionHandler):
    """Sends in batches, each a transaction; every other one is aborted."""

    def __init__(self, host: str, address: str, batches: int, size: int) -> None:
        super().__init__(auto_accept=False)
        self.host, self.address, self.batches, self.size = host, address, batches, size
        self.batch = self.sent = 0
        self.outcomes: list[str] = []
        self.transaction: Any = None

    def on_start(self, event: Any) -> None:
        self.watch(event)
        self.container = event.container
        self.conn = event.container.connect(self.host)
        self.sender = event.container.create_sender(self.conn, self.address)
        self.container.declare_transaction(self.conn, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction, self.sent = event.transaction, 0
        self.send()

    def on_sendable(self, event: Any) -> None:
        self.send()

    def send(self) -> None:
        while self.transaction and self.sender.credit and self.sent < self.size:
            self.sent += 1
            self.transaction.send(self.sender, Message(body=f"{self.batch}.{self.sent}", durable=True))
            if self.sent == self.size:
                transaction, self.transaction = self.transaction, None
                if self.batch % 2:
                    transaction.abort()
                else:
                    transaction.commit()

    def over(self, event: Any, outcome: str) -> None:
        self.outcomes.append(outcome)
        self.batch += 1
        if self.batch == self.batches:
            self.timer.cancel()
            self.conn.close()
        else:
            self.container.declare_transaction(self.conn, handler=self)

    def on_transaction_committed(self, event: Any) -> None:
        self.over(event, "committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self.over(event, "aborted")


def test_what_is_sent_in_a_transaction_is_seen_when_it_commits(broker: BrokerThread) -> None:
    address = f"tx.{uuid4().hex}"
    transact = Transact(broker.amqp, address, 4, 3)
    run(transact)
    assert transact.outcomes == ["committed", "aborted", "committed", "aborted"]
    receive = Receive(f"{broker.amqp}/{address}", 6)
    run(receive)
    assert [body for _, body in receive.got] == ["0.1", "0.2", "0.3", "2.1", "2.2", "2.3"]


class TransactReceive(Timed, TransactionHandler):
    """Accepts three messages in a transaction, and ends it as it is told."""

    def __init__(self, host: str, address: str, *, commits: bool) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.host, self.address, self.commits = host, address, commits
        self.got: list[Any] = []
        self.counts: list[int] = []

    def on_start(self, event: Any) -> None:
        self.watch(event)
        self.conn = event.container.connect(self.host)
        self.receiver = event.container.create_receiver(self.conn, self.address)
        event.container.declare_transaction(self.conn, handler=self, settle_before_discharge=True)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.receiver.flow(3)

    def on_message(self, event: Any) -> None:
        self.got.append(event.message.body)
        self.counts.append(event.message.delivery_count)
        self.transaction.accept(event.delivery)
        if len(self.got) == 3:
            if self.commits:
                self.transaction.commit()
            else:
                self.transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self.timer.cancel()
        self.conn.close()

    on_transaction_aborted = on_transaction_committed


def test_what_is_accepted_in_a_transaction_is_done_when_it_commits(broker: BrokerThread) -> None:
    address = f"tx.{uuid4().hex}"
    run(Send(f"{broker.amqp}/{address}", 4))
    aborted = TransactReceive(broker.amqp, address, commits=False)
    run(aborted)
    again = TransactReceive(broker.amqp, address, commits=True)
    run(again)
    assert again.got == aborted.got == [{"sequence": i} for i in (1, 2, 3)]
    assert (aborted.counts, again.counts) == ([0, 0, 0], [1, 1, 1])
    rest = Receive(f"{broker.amqp}/{address}", 1)
    run(rest)
    assert rest.got == [(4, {"sequence": 4})]
