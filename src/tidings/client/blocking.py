"""Runtime of the blocking client: one event loop on a thread of its own serves all blocking clients of the process.

The classes of the blocking client, `tidings.client.sync`, are generated from the asynchronous ones. A process that is
forked makes clients of its own: those of its parent are closed there (E_FORKED).
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar
from weakref import WeakSet

from tidings.client.client import Client
from tidings.client.connection.own_echoes import thread_of_caller
from tidings.client.delivery import Delivery
from tidings.client.subscription import Subscription
from tidings.errors import UsageError

T = TypeVar("T")
BlockingDelivery = TypeVar("BlockingDelivery", bound=Delivery)


class EventLoopThread:
    """The event loop of all blocking clients, started when a process makes its first one."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.clients: WeakSet[Client] = WeakSet()

    @property
    def here(self) -> bool:
        """True on the loop's own thread."""
        return threading.current_thread() is self._thread

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="tidings-client", daemon=True)
                self._thread.start()
            return self._loop

    def forked(self) -> None:
        """In the child: the thread and the connections belong to the parent."""
        clients = list(self.clients)
        self._begin()
        for client in clients:
            client.forked()


_loop = EventLoopThread()
os.register_at_fork(after_in_child=_loop.forked)


def result_of(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop and return its result."""
    if _loop.here:
        work.close()
        reason = (
            "a blocking call on the clients' own thread, as from on_error, would deadlock: call from another thread"
        )
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


def iterate(values: AsyncIterator[T]) -> Iterator[T]:
    """A blocking iterator over an asynchronous one."""

    async def following() -> tuple[T] | None:
        try:
            return (await anext(values),)
        except StopAsyncIteration:
            return None

    while (got := result_of(following())) is not None:
        yield got[0]


def open_client(make: Callable[[], Client]) -> Client:
    """Create a client on the loop's thread and connect it."""

    async def opened() -> Client:
        client = make()
        await client
        return client

    client = result_of(opened())
    _loop.clients.add(client)
    return client


class _Receiving:
    """One call for the next message, which may be interrupted at any moment: then its message is put back.
    All methods but `__init__` run on the loop's thread."""

    def __init__(self, subscription: Subscription, timeout: float | None) -> None:
        self._subscription, self._timeout = subscription, timeout
        self._got: Delivery | None = None
        self._interrupted = False

    async def work(self) -> Delivery | None:
        self._got = await self._subscription.receive(self._timeout)
        if self._interrupted:
            self.interrupted()
        return self._got

    def interrupted(self) -> None:
        self._interrupted = True
        got, self._got = self._got, None
        if got is not None:
            self._subscription.put_back(got)


def receive(subscription: Subscription, timeout: float | None, kind: type[BlockingDelivery]) -> BlockingDelivery | None:
    """The next message of a subscription, as a blocking delivery."""
    receiving = _Receiving(subscription, timeout)
    try:
        got = result_of(receiving.work())
        return None if got is None else kind(subscription, got.message, got.attempt, got.tag, got.generation)
    except BaseException:
        _loop.get().call_soon_threadsafe(receiving.interrupted)
        raise


def blocking(got: Delivery, kind: type[BlockingDelivery]) -> BlockingDelivery:
    """A delivery as a blocking one."""
    return kind(got._subscription, got.message, got.attempt, got.tag, got.generation)
