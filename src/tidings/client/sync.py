"""The blocking client: for scripts, threads and the interactive prompt.

    with tidings.sync.connect("tidings://127.0.0.1:7300") as client:
        ticks = client.subscribe("ticks.>", selector="price > 20")
        client.publish("ticks.xyz", {"stock": "XYZ", "price": 50})
        for message in ticks: ...

Generated from the asynchronous client by docs/pages/blocking_client.py; do not edit. One event loop on a thread of its
own serves all blocking clients of the process. In a forked process those of its parent are closed (E_FORKED).
"""

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tidings.client.advertisements import Advertisement as AsyncAdvertisement
from tidings.client.blocking import blocking, iterate, open_client, receive, result_of
from tidings.client.bodies import Body
from tidings.client.client import WINDOW
from tidings.client.client import Client as AsyncClient
from tidings.client.connection.answers import Receipt as AsyncReceipt
from tidings.client.delivery import Delivery as AsyncDelivery
from tidings.client.factory import connect as connect_async
from tidings.client.queue import Browsed
from tidings.client.queue import Queue as AsyncQueue
from tidings.client.retained import PAGE, RetainedPage
from tidings.client.retained import RetainedSubscription as AsyncRetainedSubscription
from tidings.client.subscription import Subscription as AsyncSubscription
from tidings.client.transaction import Transaction as AsyncTransaction
from tidings.errors import TidingsError
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.event_type import EventType
from tidings.model.message import PRIORITY_DEFAULT, Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.tracking.query.key_codec import FoundMessages
from tidings.tracking.query.path import Path, WhyNot


class Receipt(AsyncReceipt):
    """The id of a publication, and its confirmation by the broker."""

    __slots__ = ()

    def confirmed(self) -> "Receipt":  # type: ignore[override]
        """Return when the broker has accepted it (persistent: has it on disk); raise if it refused."""
        result_of(super().confirmed())
        return self


class Delivery(AsyncDelivery):
    """One delivery of one message."""

    __slots__ = ()

    def ack(self, *, cumulative: bool = False) -> None:  # type: ignore[override]
        """Acknowledge it (`cumulative`: and all before it). It is not delivered again."""
        result_of(super().ack(cumulative=cumulative))

    def reject(self) -> None:  # type: ignore[override]
        """Move it to the dead letters: it cannot be processed."""
        result_of(super().reject())

    def retry(self) -> None:  # type: ignore[override]
        """Return it for redelivery to this or another consumer."""
        result_of(super().retry())


class Subscription:
    """An iterator over the deliveries of one subscription."""

    def __init__(self, asynchronous: AsyncSubscription) -> None:
        self._async = asynchronous

    @property
    def dropped(self) -> int:
        """Messages that the broker has dropped because this subscription did not keep up."""
        return self._async.dropped

    @property
    def closed(self) -> bool:
        return self._async.closed

    @property
    def destination(self) -> str:
        return self._async.destination

    def close(self) -> None:
        """End the subscription. A durable one goes on collecting at the broker."""
        result_of(self._async.close())

    def receive(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None when the subscription is closed, or when `timeout` seconds have passed."""
        return receive(self._async, timeout, Delivery)

    def __iter__(self) -> Iterator[Delivery]:
        while (delivery := self.receive()) is not None:
            yield delivery

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transaction:
    """A transacted session: after `commit` the next thing that is part of it begins the next transaction."""

    def __init__(self, asynchronous: AsyncTransaction) -> None:
        self._async = asynchronous

    @property
    def open(self) -> bool:
        return self._async.open

    @property
    def last_commit(self) -> tuple[int, str]:
        """Number and digest of the last commit with a key."""
        return self._async.last_commit

    def begin(self) -> None:
        """Begin a transaction; E_TRANSACTION_OPEN if one is open."""
        result_of(self._async.begin())

    def commit(self, key: str = "", number: int = 0, digest: str = "") -> bool:
        """Commit, or raise an error if nothing was committed (E_COMMIT_UNKNOWN: outcome unknown).

        The asynchronous `commit` says more.
        """
        return result_of(self._async.commit(key, number, digest))

    def publish(
        self,
        destination: str | Destination,
        properties: Mapping[str, Value] | None = None,
        body: Body = b"",
        **fields: Any,
    ) -> "Receipt":
        """As `Client.publish`; the message is visible after `commit`, which fails if the broker refuses it."""
        got = result_of(self._async.publish(destination, properties, body, **fields))
        return Receipt(got.message_id, got.confirmation)

    def publish_encoded(self, messages: Sequence[bytes]) -> None:
        """Publish messages that `tidings.kernel.codec.encode_message` has made; they get their ids here.

        The asynchronous `publish_encoded` says more.
        """
        result_of(self._async.publish_encoded(messages))

    def rollback(self) -> None:
        """Undo the transaction; acknowledged messages are delivered again."""
        result_of(self._async.rollback())

    def subscribe(self, destination: str | Destination | DestinationPattern = "", **options: Any) -> "Subscription":
        """As `Client.subscribe`; acknowledgements count only with `commit`."""
        return Subscription(result_of(self._async.subscribe(destination, **options)))

    def __enter__(self) -> "Transaction":
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        result_of(self._async.__aexit__(kind, *rest))


class RetainedSubscription:
    """Messages that the broker keeps for readers, by name."""

    def __init__(self, asynchronous: AsyncRetainedSubscription) -> None:
        self._async = asynchronous

    @property
    def name(self) -> str:
        return self._async.name

    def forget(self) -> None:
        """Stop retaining and delete the retained messages."""
        result_of(self._async.forget())

    def range(self) -> tuple[int, int]:
        """The last offset of a deleted message (0: none), and the last offset."""
        return result_of(self._async.range())

    def read(
        self,
        after: int = 0,
        *,
        up_to: int = 0,
        selector: str = "",
        messages: int = PAGE,
        bytes_max: int = 0,
        strict: bool = False,
    ) -> RetainedPage:
        """The next messages above an offset, up to another if given; `strict`: an error if some are deleted already."""
        return result_of(
            self._async.read(
                after, up_to=up_to, selector=selector, messages=messages, bytes_max=bytes_max, strict=strict
            )
        )

    def read_all(self, after: int = 0, *, up_to: int = 0, selector: str = "") -> Iterator[tuple[int, Message]]:
        """All messages up to an offset; without one, up to the last at the time of the call."""
        return iterate(self._async.read_all(after, up_to=up_to, selector=selector))

    def release(self, up_to: int) -> None:
        """Allow the broker to delete messages up to this offset."""
        result_of(self._async.release(up_to))


class Queue:
    """A queue to browse and manage, by name."""

    def __init__(self, asynchronous: AsyncQueue) -> None:
        self._async = asynchronous

    @property
    def name(self) -> str:
        return self._async.name

    def browse(self, *, selector: str = "", page: int = 0) -> Iterator[Browsed]:
        """The waiting messages in delivery order, fetched page by page during the iteration."""
        return iterate(self._async.browse(selector=selector, page=page))

    def create(self) -> bool:
        """Create the queue, empty; False if it exists."""
        return result_of(self._async.create())

    def delete(self, *, force: bool = False) -> int:
        """Delete the queue, which must have no consumers and no messages; with `force` these too. Returns the count of
        deleted messages.
        """
        return result_of(self._async.delete(force=force))

    def move(self, target: str | Destination, *, tags: Iterable[int] | None = None) -> int:
        """Move all waiting messages, or only those with these tags, to the end of another queue; returns the count."""
        return result_of(self._async.move(target, tags=tags))

    def purge(self, *, tags: Iterable[int] | None = None) -> int:
        """Delete all waiting messages, or only those with these tags; returns the count."""
        return result_of(self._async.purge(tags=tags))


class Advertisement:
    """An announcement that messages to a topic pattern will be published."""

    def __init__(self, asynchronous: AsyncAdvertisement) -> None:
        self._async = asynchronous

    @property
    def destination(self) -> str:
        return self._async.destination

    @property
    def selector(self) -> str:
        return self._async.selector

    @property
    def used(self) -> bool:
        """The broker's routing scheme uses it."""
        return self._async.used

    def withdraw(self) -> None:
        """Withdraw the advertisement."""
        result_of(self._async.withdraw())


class Client:
    """The blocking client; created by `connect`."""

    def __init__(self, asynchronous: AsyncClient) -> None:
        self._async = asynchronous

    @property
    def errors(self) -> list[TidingsError]:
        """The latest asynchronous errors, at most 100."""
        return list(self._async.errors)

    def add_type(
        self, event_type: str | EventType, attributes: Mapping[str, str] | None = None, *, parent: str | None = None
    ) -> None:
        """Make an event type known: its own attributes (bool, int, float, string, bytes, time) beside its parent's.

        The asynchronous `add_type` says more.
        """
        result_of(self._async.add_type(event_type, attributes, parent=parent))

    def advertise(
        self, destination: str | Destination | DestinationPattern, selector: str | None = None
    ) -> "Advertisement":
        """Say that messages to this topic pattern will be published, as far as they match the selector."""
        return Advertisement(result_of(self._async.advertise(destination, selector)))

    def advertise_type(self, name: str) -> None:
        """Say that this client publishes events of a type, which it must before it does."""
        result_of(self._async.advertise_type(name))

    def close(self, timeout: float | None = None) -> None:
        """Wait until all that was published has reached the broker, and persistent messages its disk; then close.

        The asynchronous `close` says more.
        """
        result_of(self._async.close(timeout))

    def end_connection(self, number: int) -> None:
        """End a client's connection, numbered as by `inspect("connections")`. Needs the right to manage `>`."""
        result_of(self._async.end_connection(number))

    def find_messages(
        self, key: str, value: Value, *, since: datetime | None = None, until: datetime | None = None, count: int = 100
    ) -> FoundMessages:
        """The messages in which an attribute has this value, oldest first: the newest `count` (at most 1000).

        The asynchronous `find_messages` says more.
        """
        return result_of(self._async.find_messages(key, value, since=since, until=until, count=count))

    def forget(self, durable: str, *, shared: bool = False, owner: str | None = None) -> None:
        """Delete a durable subscription of this client id (or a shared one of all clients) and its waiting messages.

        The asynchronous `forget` says more.
        """
        result_of(self._async.forget(durable, shared=shared, owner=owner))

    def get_type(self, name: str) -> list[EventType]:
        """A type after its ancestors, the root first; in a network, other brokers are asked."""
        return result_of(self._async.get_type(name))

    def inspect(
        self, part: str = "overview", *, offset: int = 0, count: int = 0, containing: str = ""
    ) -> dict[str, Any]:
        """The state of the broker; of a list (`part`) the items from `offset` that contain a text. See docs/wire.md."""
        return result_of(self._async.inspect(part, offset=offset, count=count, containing=containing))

    def move(self, url: str, *, overlap: float = 1.0) -> None:
        """Go to another broker of the network; plain subscriptions lose and repeat nothing on the way.

        The asynchronous `move` says more.
        """
        result_of(self._async.move(url, overlap=overlap))

    def publish(
        self,
        destination: str | Destination,
        properties: Mapping[str, Value] | None = None,
        body: Body = b"",
        *,
        persistent: bool = False,
        priority: int = PRIORITY_DEFAULT,
        expires_in: float | None = None,
        correlation_id: str | None = None,
        reply_to: str | Destination | None = None,
        type: str | None = None,
        deliver_in: float | None = None,
        wait: bool | None = None,
    ) -> "Receipt":
        """Send a message. A persistent one is on the broker's disk when this returns.

        The asynchronous `publish` says more.
        """
        got = result_of(
            self._async.publish(
                destination,
                properties,
                body,
                persistent=persistent,
                priority=priority,
                expires_in=expires_in,
                correlation_id=correlation_id,
                reply_to=reply_to,
                type=type,
                deliver_in=deliver_in,
                wait=wait,
            )
        )
        return Receipt(got.message_id, got.confirmation)

    def publish_event(
        self, name: str, properties: Mapping[str, Value | datetime] | None = None, body: Body = b"", **options: Any
    ) -> "Receipt":
        """Send an event of an advertised type; options as in `publish`. An error says what does not fit the type.

        The asynchronous `publish_event` says more.
        """
        got = result_of(self._async.publish_event(name, properties, body, **options))
        return Receipt(got.message_id, got.confirmation)

    def queue(self, name: str | Destination) -> "Queue":
        """A queue to browse and manage; see `tidings.client.queue`."""
        return Queue(self._async.queue(name))

    def remove_type(self, name: str) -> None:
        """Forget a type. It must have no subtypes, no subscribers and nobody who advertises it."""
        result_of(self._async.remove_type(name))

    def reply(
        self, delivery: Delivery, properties: Mapping[str, Value] | None = None, body: Body = b"", **options: Any
    ) -> "Receipt":
        """Answer a request that was delivered; the options are those of `publish`."""
        got = result_of(self._async.reply(delivery, properties, body, **options))
        return Receipt(got.message_id, got.confirmation)

    def request(
        self,
        destination: str,
        properties: Mapping[str, Value] | None = None,
        body: Body = b"",
        *,
        timeout: float = 30.0,
        **options: Any,
    ) -> "Delivery":
        """Send a message and return the first reply to it; E_NO_REPLY if none comes within `timeout` seconds.

        The asynchronous `request` says more.
        """
        return blocking(
            result_of(self._async.request(destination, properties, body, timeout=timeout, **options)), Delivery
        )

    def retain(
        self,
        name: str,
        destination: str | Destination | DestinationPattern,
        *,
        selector: str = "",
        age_seconds: float = 0,
        bytes_max: int = 0,
        keep_limits: bool = False,
    ) -> "RetainedSubscription":
        """Have the broker keep what is published there from now on, to be read again from any offset.

        The asynchronous `retain` says more.
        """
        return RetainedSubscription(
            result_of(
                self._async.retain(
                    name,
                    destination,
                    selector=selector,
                    age_seconds=age_seconds,
                    bytes_max=bytes_max,
                    keep_limits=keep_limits,
                )
            )
        )

    def retained(self, name: str) -> "RetainedSubscription":
        """An existing one, by name."""
        return RetainedSubscription(self._async.retained(name))

    def send_encoded(self, messages: Sequence[bytes], session: int) -> int:
        """Send some of these messages, for a transaction; see `Transaction.publish_encoded`."""
        return result_of(self._async.send_encoded(messages, session))

    def subscribe(
        self,
        destination: str | Destination | DestinationPattern = "",
        *,
        type: str = "",
        selector: str = "",
        ack: str = "auto",
        durable: str | bool = "",
        shared: str = "",
        policy: str = "push-back",
        no_local: bool = False,
        exclusive: bool = False,
        wait: str = "broker",
        window: int = WINDOW,
    ) -> "Subscription":
        """Subscribe to a topic pattern (`ticks.>`), consume a queue (`queue:orders`), or name an event `type`.

        The asynchronous `subscribe` says more.
        """
        return Subscription(
            result_of(
                self._async.subscribe(
                    destination,
                    type=type,
                    selector=selector,
                    ack=ack,
                    durable=durable,
                    shared=shared,
                    policy=policy,
                    no_local=no_local,
                    exclusive=exclusive,
                    wait=wait,
                    window=window,
                )
            )
        )

    def trace(self, message: MessageId | str, *, everywhere: bool = False, why: str | WhyNot = "") -> Path:
        """The path of a message: the brokers it passed and its recipients, as far as recorded.

        The asynchronous `trace` says more.
        """
        return result_of(self._async.trace(message, everywhere=everywhere, why=why))

    def transaction(self) -> "Transaction":
        """A transacted session; see `tidings.client.transaction`."""
        return Transaction(self._async.transaction())

    def types(self) -> list[EventType]:
        """The types known to this broker, parents first; in a network, possibly not all."""
        return result_of(self._async.types())

    def unadvertise_type(self, name: str) -> None:
        """Withdraw the advertisement of an event type."""
        result_of(self._async.unadvertise_type(name))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        result_of(self._async.__aexit__(kind, *rest))


def connect(
    url: str = "tidings://127.0.0.1:7300",
    *,
    user: str = "",
    password: str = "",
    client_id: str = "",
    tls: ssl.SSLContext | None = None,
    reconnect: bool = True,
    give_up_seconds: float = 60.0,
    heartbeat_ms: int = 10000,
    close_seconds: float = 10.0,
    on_error: Callable[[TidingsError], None] | None = None,
) -> Client:
    """A connected client; the arguments of `tidings.connect`. Use it with `with`, or call `close`."""
    return Client(
        open_client(
            lambda: connect_async(
                url,
                user=user,
                password=password,
                client_id=client_id,
                tls=tls,
                reconnect=reconnect,
                give_up_seconds=give_up_seconds,
                heartbeat_ms=heartbeat_ms,
                close_seconds=close_seconds,
                on_error=on_error,
            )
        )
    )
