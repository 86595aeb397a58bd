"""A broker in a process of its own, in memory, for measurements of the process as a whole."""

import asyncio
import importlib
import importlib.util
import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.server import Broker
from tidings.delivery.store import MemoryStore
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.native.session import NativeSession


def allow_many_files() -> int:
    """As many open files as the system lets us have; returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def native_listener() -> ListenerSettings:
    return ListenerSettings(NativeSession, port=0)


def _serve(
    ready: Connection, limits: BrokerLimits, settings: NodeSettings, listener: Callable[[], ListenerSettings]
) -> None:
    allow_many_files()

    async def main() -> None:
        broker = Broker(settings, MemoryStore(), limits=limits)
        await broker.start([])
        ready.send(await broker.listen(listener()))
        while True:
            await asyncio.to_thread(ready.recv)
            ready.send({"held_bytes": broker.forwarder.held_bytes(), **broker.forwarder.stats()})

    fast = importlib.util.find_spec("uvloop") is not None  # as the broker's own process runs it
    (importlib.import_module("uvloop").run if fast else asyncio.run)(main())


class BrokerChild:
    def __init__(self, process: Any, pipe: Connection) -> None:
        self.pid: int = process.pid
        self._pipe = pipe
        self.port: int = pipe.recv()

    @property
    def url(self) -> str:
        return f"tidings://127.0.0.1:{self.port}"

    def stats(self) -> dict[str, int]:
        self._pipe.send(None)
        return dict(self._pipe.recv())

    def resident_kib(self) -> int:
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@contextmanager
def broker_child(
    limits: BrokerLimits | None = None,
    settings: NodeSettings | None = None,
    listener: Callable[[], ListenerSettings] = native_listener,
) -> Iterator[BrokerChild]:
    """`listener` is a function of a module: it is called in the other process."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    arguments = (theirs, limits or BrokerLimits(), settings or NodeSettings(), listener)
    process = context.Process(target=_serve, args=arguments, daemon=True)
    process.start()
    try:
        yield BrokerChild(process, mine)
    finally:
        process.kill()
        process.join()
