"""stomp.py, a client that others wrote, against the broker: all it offers, in the three versions and over WebSocket."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stomp
from stomp.utils import Frame

from tidings.testing.local_broker import BrokerThread

SECONDS = 60.0  # on a machine that has much else to do
VERSIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Notes everything, and lets the test wait for it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self._changed = threading.Condition()

    def _note(self, what: str, frame: Any) -> None:
        with self._changed:
            self.seen.append((what, frame))
            self._changed.notify_all()

    def on_message(self, frame: Frame) -> None:
        self._note("message", frame)

    def on_receipt(self, frame: Frame) -> None:
        self._note("receipt", frame.headers["receipt-id"])

    def on_error(self, frame: Frame) -> None:
        self._note("error", frame)

    def on_connected(self, frame: Frame) -> None:
        self._note("connected", frame)

    def on_disconnected(self) -> None:
        self._note("disconnected", None)

    def on_heartbeat(self) -> None:
        self._note("heartbeat", None)

    def on_heartbeat_timeout(self) -> None:
        self._note("timeout", None)

    def all(self, what: str) -> list[Any]:
        return [frame for kind, frame in list(self.seen) if kind == what]

    def wait(self, what: str, count: int = 1) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.all(what)) >= count, SECONDS), (what, self.seen)
        return self.all(what)

    def wait_receipt(self, receipt: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: receipt in self.all("receipt"), SECONDS), (receipt, self.seen)

    def bodies(self, count: int) -> list[Any]:
        return [frame.body for frame in self.wait("message", count)]


class Client:
    def __init__(self, connection: Any, **options: Any) -> None:
        self.connection = connection
        self.listener = Listener()
        connection.set_listener("test", self.listener)
        connection.connect(wait=True, **options)

    def subscribe(self, destination: str, id: str = "1", **options: Any) -> None:
        headers = {"receipt": f"subscribed-{id}", **options.pop("headers", {})}
        self.connection.subscribe(destination, id=id, headers=headers, **options)
        self.listener.wait_receipt(f"subscribed-{id}")


Connect = Callable[..., Client]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture(params=[*VERSIONS, "websocket"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(broker: BrokerThread) -> Iterator[Connect]:
    made: list[Any] = []

    def one(version: str = "1.2", *, connecting: dict[str, Any] | None = None, **options: Any) -> Client:
        if version == "websocket":
            connection = stomp.WSConnection([("127.0.0.1", broker.websocket_port)], **options)
        else:
            connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)], **options)
        made.append(connection)
        return Client(connection, **(connecting or {}))

    yield one
    for connection in made:
        if connection.is_connected():
            connection.disconnect()


def name_of(request: pytest.FixtureRequest) -> str:
    return "".join(character if character.isalnum() else "-" for character in request.node.name)


def test_messages_and_receipts(connect: Connect, version: str, request: pytest.FixtureRequest) -> None:
    client, topic = connect(version), f"/topic/{name_of(request)}"
    client.subscribe(topic)
    client.connection.send(topic, "grüße", headers={"price": "30", "receipt": "sent"}, content_type="text/plain")
    client.listener.wait_receipt("sent")
    [frame] = client.listener.wait("message")
    assert (frame.body, frame.headers["price"], frame.headers["content-type"]) == ("grüße", "30", "text/plain")
    assert frame.headers["destination"] == topic
    assert frame.headers["subscription"] == "1"
    assert frame.headers["message-id"].startswith("ID:")


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [("price > 20", ["b"]), ("price = '20'", ["a"]), ("price = 20", ["a"]), ("NOT price > 20", ["a", "c"])],
)
def test_selectors(connect: Connect, selector: str, wanted: list[str], request: pytest.FixtureRequest) -> None:
    client, topic = connect(), f"/topic/{name_of(request)}"
    client.subscribe(topic, headers={"selector": selector})
    for body, price in (("a", "20"), ("b", "20.5"), ("c", "dear")):
        client.connection.send(topic, body, headers={"price": price})
    client.connection.send(topic, "none", headers={"receipt": "all"})
    client.listener.wait_receipt("all")
    assert client.listener.bodies(len(wanted)) == wanted


def test_a_wrong_selector_is_refused(connect: Connect, version: str) -> None:
    client = connect(version)
    client.connection.subscribe("/topic/a", id="1", headers={"selector": "price >", "receipt": "r"})
    [error] = client.listener.wait("error")
    assert error.headers["receipt-id"] == "r"
    assert "E_SELECTOR_SYNTAX" in error.headers["message"]
    client.listener.wait("disconnected")


def test_bodies_with_nul(connect: Connect, version: str, request: pytest.FixtureRequest) -> None:
    client, queue = connect(version, auto_decode=False), f"/queue/{name_of(request)}"
    client.subscribe(queue)
    body = b"\0a\0\0\n\n" + (b"" if version == "websocket" else b"\xff")  # there it sends all as text
    client.connection.send(queue, body)
    assert client.listener.bodies(1) == [body]


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_acknowledgements(connect: Connect, version: str, mode: str, request: pytest.FixtureRequest) -> None:
    """Cumulative or each for itself: what is not acknowledged comes again, to another."""
    first, queue = connect(version), f"/queue/{name_of(request)}"
    first.subscribe(queue, ack=mode)
    for number in range(3):
        first.connection.send(queue, str(number))
    messages = first.listener.wait("message", 3)
    acknowledge(first, version, messages[1])
    first.connection.disconnect(receipt="bye")
    first.listener.wait_receipt("bye")
    second = connect(version)
    second.subscribe(queue)
    wanted = ["2"] if mode == "client" else ["0", "2"]
    assert second.listener.bodies(len(wanted)) == wanted
    assert all(frame.headers["redelivered"] == "true" for frame in second.listener.all("message"))


def acknowledge(client: Client, version: str, frame: Frame, what: str = "ack", **headers: Any) -> None:
    call = getattr(client.connection, what)
    options = {"receipt": "acknowledged", **headers}
    if version == "1.0":
        call(frame.headers["message-id"], **options)
    elif version == "1.1":
        call(frame.headers["message-id"], frame.headers["subscription"], **options)
    else:
        call(frame.headers["ack"], **options)
    client.listener.wait_receipt("acknowledged")


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_nack(connect: Connect, version: str, request: pytest.FixtureRequest) -> None:
    client, queue = connect(version), f"/queue/{name_of(request)}"
    client.subscribe(queue, ack="client-individual")
    client.connection.send(queue, "again")
    [frame] = client.listener.wait("message")
    acknowledge(client, version, frame, "nack")
    again = client.listener.wait("message", 2)[1]
    assert (again.body, again.headers["redelivered"]) == ("again", "true")


def test_transactions(connect: Connect, version: str, request: pytest.FixtureRequest) -> None:
    client, queue = connect(version), f"/queue/{name_of(request)}"
    client.subscribe(queue)
    for word, end in (("dropped", "abort"), ("kept", "commit")):
        transaction = client.connection.begin()
        client.connection.send(queue, word, transaction=transaction)
        getattr(client.connection, end)(transaction, headers={"receipt": end})
        client.listener.wait_receipt(end)
    assert client.listener.bodies(1) == ["kept"]


def test_acknowledgements_in_a_transaction(connect: Connect, request: pytest.FixtureRequest) -> None:
    client, queue = connect(), f"/queue/{name_of(request)}"
    client.subscribe(queue, ack="client-individual")
    client.connection.send(queue, "x")
    [frame] = client.listener.wait("message")
    transaction = client.connection.begin()
    acknowledge(client, "1.2", frame, transaction=transaction)
    client.connection.abort(transaction)
    again = client.listener.wait("message", 2)[1]
    assert again.headers["redelivered"] == "true"
    for what in ("ack", "nack"):  # by the id before: nothing happens
        acknowledge(client, "1.2", frame, what, receipt=f"{what} too late")
        client.listener.wait_receipt(f"{what} too late")
    assert len(client.listener.all("message")) == 2
    client.connection.disconnect(receipt="bye")
    client.listener.wait_receipt("bye")
    other = connect()
    other.subscribe(queue)
    assert other.listener.bodies(1) == ["x"]


def test_an_id_that_no_message_had_is_not_acknowledged(connect: Connect, request: pytest.FixtureRequest) -> None:
    client, queue = connect(), f"/queue/{name_of(request)}"
    client.subscribe(queue, ack="client-individual")
    client.connection.send(queue, "x")
    [frame] = client.listener.wait("message")
    subscription, _, tag = frame.headers["ack"].rpartition("-")
    client.connection.ack(f"{subscription}-{int(tag) + 1}", receipt="r")
    assert client.listener.wait("error")[0].headers["receipt-id"] == "r"


def test_unsubscribe(connect: Connect, version: str, request: pytest.FixtureRequest) -> None:
    client, topic = connect(version), f"/topic/{name_of(request)}"
    client.subscribe(topic, id="1")
    client.subscribe(topic, id="2")
    client.connection.unsubscribe(id="1", headers={"receipt": "ended"})
    client.listener.wait_receipt("ended")
    client.connection.send(topic, "once", headers={"receipt": "sent"})
    client.listener.wait_receipt("sent")
    assert [frame.headers["subscription"] for frame in client.listener.wait("message")] == ["2"]


def test_durable_subscriptions(connect: Connect, version: str, request: pytest.FixtureRequest) -> None:
    name, topic = name_of(request), f"/topic/{name_of(request)}"
    durable = {"durable-subscription-name": name}
    options = {"connecting": {"headers": {"client-id": name}}}
    first = connect(version, **options)
    first.subscribe(topic, headers=durable)
    first.connection.disconnect(receipt="bye")
    first.listener.wait_receipt("bye")
    publisher = connect(version)
    publisher.connection.send(topic, "meanwhile", headers={"persistent": "true", "receipt": "stored"})
    publisher.listener.wait_receipt("stored")
    second = connect(version, **options)
    second.subscribe(topic, headers=durable)
    assert second.listener.bodies(1) == ["meanwhile"]
    second.connection.send_frame("UNSUBSCRIBE", {"id": "1", **durable, "receipt": "deleted"})
    second.listener.wait_receipt("deleted")
    publisher.connection.send(topic, "nobody", headers={"persistent": "true", "receipt": "again"})
    publisher.listener.wait_receipt("again")
    second.subscribe(topic, headers=durable)
    second.connection.send(topic, "new")
    assert second.listener.bodies(2) == ["meanwhile", "new"]


def test_shared_subscriptions(connect: Connect, request: pytest.FixtureRequest) -> None:
    topic, shared = f"/topic/{name_of(request)}", {"shared-subscription-name": name_of(request)}
    clients = [connect(), connect()]
    for client in clients:
        client.subscribe(topic, headers=shared)
    for number in range(10):
        clients[0].connection.send(topic, str(number), headers={"receipt": str(number)})
    clients[0].listener.wait_receipt("9")
    wait_until(lambda: sum(len(client.listener.all("message")) for client in clients) == 10)
    bodies = sorted(frame.body for client in clients for frame in client.listener.all("message"))
    assert bodies == [str(number) for number in range(10)]


def wait_until(condition: Callable[[], bool]) -> None:
    moment = threading.Event()
    for _ in range(int(SECONDS * 100)):
        if condition():
            return
        moment.wait(0.01)
    raise AssertionError("it did not come true")


def test_request_and_reply(connect: Connect, version: str, request: pytest.FixtureRequest) -> None:
    asker, server, queue = connect(version), connect(version), f"/queue/{name_of(request)}"
    server.subscribe(queue)
    asker.subscribe("/temp-queue/answers")
    asker.connection.send(queue, "question", headers={"reply-to": "/temp-queue/answers", "correlation-id": "7"})
    [asked] = server.listener.wait("message")
    answer = {"correlation-id": asked.headers["correlation-id"]}
    server.connection.send(asked.headers["reply-to"], "answer", headers=answer)
    [answered] = asker.listener.wait("message")
    assert (answered.body, answered.headers["correlation-id"]) == ("answer", "7")


@pytest.mark.parametrize("version", ["1.1", "1.2", "websocket"])
def test_heart_beats_both_ways(connect: Connect, version: str) -> None:
    client = connect(version, heartbeats=(1000, 1000), heart_beat_receive_scale=30)  # a busy machine may be late
    client.listener.wait("heartbeat", 2)
    assert client.connection.is_connected()
    assert not client.listener.all("timeout")


def test_a_client_of_another_version_is_told(broker: BrokerThread) -> None:
    connection = stomp.Connection12([("127.0.0.1", broker.stomp_port)])
    listener = Listener()
    connection.set_listener("test", listener)
    connection.transport.start()
    connection.send_frame("CONNECT", {"accept-version": "3.0", "host": "x"})
    [error] = listener.wait("error")
    assert error.headers["version"] == "1.0,1.1,1.2"
    listener.wait("disconnected")
