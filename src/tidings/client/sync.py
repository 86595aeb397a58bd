"""The same client, blocking: for scripts, threads and the interactive prompt.

    with tidings.sync.connect("tidings://127.0.0.1:7300") as client:
        ticks = client.subscribe("ticks.>", selector="price > 20")
        client.publish("ticks.xyz", {"stock": "XYZ", "price": 50})
        for message in ticks: ...

One event loop on a thread of its own serves all blocking clients of the process. A process that is forked has to make
clients of its own: those of its parent are closed there (E_FORKED).
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

from tidings.client.advertisements import Advertisement as AsyncAdvertisement
from tidings.client.client import Client as AsyncClient
from tidings.client.connection.answers import Receipt as AsyncReceipt
from tidings.client.connection.own_echoes import thread_of_caller
from tidings.client.delivery import Delivery as AsyncDelivery
from tidings.client.factory import connect as connect_async
from tidings.client.queue import Browsed
from tidings.client.queue import Queue as AsyncQueue
from tidings.client.retained import Retained as AsyncRetained
from tidings.client.retained import RetainedPage
from tidings.client.subscription import Subscription as AsyncSubscription
from tidings.client.transaction import Transaction as AsyncTransaction
from tidings.errors import TidingsError, UsageError
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.event_type import EventType
from tidings.model.message_id import MessageId
from tidings.tracking.query.path import Path

T = TypeVar("T")
Pattern: TypeAlias = str | Destination | DestinationPattern


class _Loop:
    """The event loop of all blocking clients, made when the first of them needs it: in each process anew."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.clients: WeakSet[AsyncClient] = WeakSet()

    @property
    def here(self) -> bool:
        """Whether this is its thread."""
        return threading.current_thread() is self._thread

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="tidings-client", daemon=True)
                self._thread.start()
            return self._loop

    def forked(self) -> None:
        """In the child: the thread is the parent's, and so are the connections."""
        clients = list(self.clients)
        self._begin()
        for client in clients:
            client.forked()


_loop = _Loop()
os.register_at_fork(after_in_child=_loop.forked)


def _wait(work: Coroutine[Any, Any, T]) -> T:
    if _loop.here:
        work.close()
        reason = "a blocking call on the clients' own thread, as from on_error, would wait for itself: use another one"
        raise UsageError("E_BLOCKING_CALL", reason)
    future = None
    token = thread_of_caller.set(threading.get_ident())
    try:
        future = asyncio.run_coroutine_threadsafe(work, _loop.get())
        return future.result()
    except BaseException:
        if future is not None:
            future.cancel()
        raise
    finally:
        thread_of_caller.reset(token)


class Receipt(AsyncReceipt):
    """A publication's id, and whether it is safe yet."""

    __slots__ = ()

    def confirmed(self) -> "Receipt":  # type: ignore[override]
        """Return when the broker has accepted it (persistent: has it on disk); raise if it refused."""
        _wait(super().confirmed())
        return self


def _receipt(publishing: Coroutine[Any, Any, AsyncReceipt]) -> Receipt:
    got = _wait(publishing)
    return Receipt(got.message_id, got.confirmation)


class Delivery(AsyncDelivery):
    """One delivery of one message."""

    __slots__ = ()

    def ack(self, *, cumulative: bool = False) -> None:  # type: ignore[override]
        """Done with it (`cumulative`: and with all before it)."""
        _wait(super().ack(cumulative=cumulative))

    def retry(self) -> None:  # type: ignore[override]
        """Not done: it shall be delivered again."""
        _wait(super().retry())

    def reject(self) -> None:  # type: ignore[override]
        """It cannot be processed: to the dead letters."""
        _wait(super().reject())


class _Receiving:
    """One call for the next message, which may be interrupted in any moment: then nobody has seen what came of it.
    All but `__init__` is for the clients' own thread."""

    def __init__(self, subscription: AsyncSubscription, timeout: float | None) -> None:
        self._subscription, self._timeout = subscription, timeout
        self._got: AsyncDelivery | None = None
        self._interrupted = False

    async def work(self) -> AsyncDelivery | None:
        self._got = await self._subscription.receive(self._timeout)
        if self._interrupted:
            self.interrupted()
        return self._got

    def interrupted(self) -> None:
        self._interrupted = True
        got, self._got = self._got, None
        if got is not None:
            self._subscription.put_back(got)


class Subscription:
    """An iterator over deliveries."""

    def __init__(self, subscription: AsyncSubscription) -> None:
        self._subscription = subscription

    def receive(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None when the subscription is closed, or when `timeout` seconds have passed."""
        receiving = _Receiving(self._subscription, timeout)
        try:
            got = _wait(receiving.work())
            if got is None:
                return None
            return Delivery(self._subscription, got.message, got.attempt, got.tag, got.generation)
        except BaseException:
            _loop.get().call_soon_threadsafe(receiving.interrupted)
            raise

    @property
    def dropped(self) -> int:
        """Messages that the broker has dropped because this subscription did not keep up."""
        return self._subscription.dropped

    def __iter__(self) -> Iterator[Delivery]:
        while (delivery := self.receive()) is not None:
            yield delivery

    def close(self) -> None:
        """End the subscription. A durable one goes on collecting at the broker."""
        _wait(self._subscription.close())

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transaction:
    """A transacted session: `commit` ends one transaction and begins the next."""

    def __init__(self, transaction: AsyncTransaction) -> None:
        self._transaction = transaction

    def publish(self, destination: str | Destination, *arguments: Any, **fields: Any) -> Receipt:
        """As `Client.publish`; nobody sees the message before `commit`."""
        return _receipt(self._transaction.publish(destination, *arguments, **fields))

    def subscribe(self, destination: Pattern = "", **options: Any) -> Subscription:
        """As `Client.subscribe`; acknowledgements count only with `commit`."""
        return Subscription(_wait(self._transaction.subscribe(destination, **options)))

    def commit(self, key: str = "", number: int = 0) -> bool:
        """All of it happens now, or an error says that nothing did; with a key, once (False: it had before)."""
        return _wait(self._transaction.commit(key, number))

    def rollback(self) -> None:
        """Nothing of it happened; acknowledged messages are delivered again."""
        _wait(self._transaction.rollback())

    def __enter__(self) -> "Transaction":
        _wait(self._transaction.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        _wait(self._transaction.__aexit__(kind, *rest))


class Retained:
    """See `tidings.client.retained.Retained`."""

    def __init__(self, retained: AsyncRetained) -> None:
        self._retained = retained

    def read(self, after: int = 0, **options: Any) -> RetainedPage:
        """The next messages above an offset."""
        return _wait(self._retained.read(after, **options))

    def range(self) -> tuple[int, int]:
        """The last offset of a message that is gone (0: none is), and the last there is."""
        return _wait(self._retained.range())

    def release(self, up_to: int) -> None:
        """Messages up to this offset are not needed any more."""
        _wait(self._retained.release(up_to))

    def forget(self) -> None:
        """Retain nothing more, and forget what there is."""
        _wait(self._retained.forget())


class Queue:
    """A queue to look into and tidy up; see `tidings.client.queue`."""

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue

    def browse(self, *, selector: str = "", page: int = 0) -> Iterator[Browsed]:
        """What waits, in the order in which it would be delivered."""
        found = self._queue.browse(selector=selector, page=page)

        async def following() -> Browsed | None:
            return await anext(found, None)

        while (one := _wait(following())) is not None:
            yield one

    def purge(self, *, tags: Iterable[int] | None = None) -> int:
        """Delete all that waits, or only the messages with these tags; returns how many."""
        return _wait(self._queue.purge(tags=tags))

    def move(self, target: str | Destination, *, tags: Iterable[int] | None = None) -> int:
        """Move all that waits, or only the messages with these tags, to another queue; returns how many."""
        return _wait(self._queue.move(target, tags=tags))


class Advertisement:
    """See `tidings.client.advertisements.Advertisement`."""

    def __init__(self, advertisement: AsyncAdvertisement) -> None:
        self._advertisement = advertisement

    @property
    def used(self) -> bool:
        """Whether the broker's routing scheme uses it."""
        return self._advertisement.used

    def withdraw(self) -> None:
        _wait(self._advertisement.withdraw())


class Client:
    """See `tidings.client.client.Client`; here every call blocks."""

    def __init__(self, url: str, **options: Any) -> None:
        async def make() -> AsyncClient:
            return await connect_async(url, **options)  # type: ignore[no-any-return]

        self._client = _wait(make())
        _loop.clients.add(self._client)

    def publish(self, destination: str | Destination, *arguments: Any, **fields: Any) -> Receipt:
        """Send a message; a persistent one is on the broker's disk when this returns.

        `wait=False` returns at once: `receipt.confirmed()` blocks until it is.
        """
        return _receipt(self._client.publish(destination, *arguments, **fields))

    def subscribe(self, destination: Pattern = "", **options: Any) -> Subscription:
        """Subscribe to a topic pattern, consume a queue, or name an event `type`; active when this returns."""
        return Subscription(_wait(self._client.subscribe(destination, **options)))

    @property
    def errors(self) -> list[TidingsError]:
        """The latest errors that no call could raise; `on_error` is called with them on the clients' own thread."""
        return list(self._client.errors)

    def forget(self, durable: str, *, shared: bool = False, owner: str | None = None) -> None:
        """Delete a durable subscription of this client id (or one that is everybody's), and what waits for it. Who may
        manage everything may delete another's: `owner` is its client id, with its user's name before it: alice/id."""
        _wait(self._client.forget(durable, shared=shared, owner=owner))

    def queue(self, name: str | Destination) -> Queue:
        return Queue(self._client.queue(name))

    def advertise(self, destination: Pattern, selector: str | None = None) -> Advertisement:
        """Say that messages to this topic pattern will be published, as far as they match the selector."""
        return Advertisement(_wait(self._client.advertise(destination, selector)))

    def trace(self, message: MessageId | str, *, everywhere: bool = False) -> Path:
        """Where a message went."""
        return _wait(self._client.trace(message, everywhere=everywhere))

    def add_type(self, event_type: str | EventType, *arguments: Any, **options: Any) -> None:
        """Make an event type known: name, attributes, parent."""
        _wait(self._client.add_type(event_type, *arguments, **options))

    def remove_type(self, name: str) -> None:
        """Forget a type that has no subtypes and that nobody uses."""
        _wait(self._client.remove_type(name))

    def types(self) -> list[EventType]:
        """Those that this broker knows of."""
        return _wait(self._client.types())

    def get_type(self, name: str) -> list[EventType]:
        """A type, after its ancestors."""
        return _wait(self._client.get_type(name))

    def advertise_type(self, name: str) -> None:
        """Say that this client publishes events of a type, which it must before it does."""
        _wait(self._client.advertise_type(name))

    def unadvertise_type(self, name: str) -> None:
        _wait(self._client.unadvertise_type(name))

    def publish_event(self, name: str, *arguments: Any, **options: Any) -> Receipt:
        """Send an event of an advertised type; an error says what does not fit the type."""
        return _receipt(self._client.publish_event(name, *arguments, **options))

    def inspect(self, part: str = "overview", **options: Any) -> dict[str, Any]:
        """How the broker is."""
        return _wait(self._client.inspect(part, **options))

    def retain(self, name: str, destination: Pattern, **options: Any) -> "Retained":
        """Have the broker keep what is published there from now on, to be read again from any offset."""
        return Retained(_wait(self._client.retain(name, destination, **options)))

    def retained(self, name: str) -> "Retained":
        """One that was made before."""
        return Retained(self._client.retained(name))

    def transaction(self) -> Transaction:
        return Transaction(self._client.transaction())

    def close(self, timeout: float | None = None) -> None:
        """Wait until all that was published has reached the broker, and persistent messages its disk; then close.

        After `timeout` seconds (`close_seconds` of `connect` unless given: 10) it closes all the same and raises
        E_UNSENT, which says how many publications may not have reached the broker. Leaving the `with` block does the
        same; after an exception E_UNSENT is in `errors` instead, and after KeyboardInterrupt nothing is waited for.
        """
        _wait(self._client.close(timeout))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        _wait(self._client.__aexit__(kind, *rest))


def connect(url: str = "tidings://127.0.0.1:7300", **options: Any) -> Client:
    """A connected client; the options of `tidings.connect`."""
    return Client(url, **options)
