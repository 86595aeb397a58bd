"""A Tidings broker as a process of its own, with default settings: prints its port, serves until told to end.

At SIGUSR1 it prints its counters as one line of JSON. At SIGUSR2 it writes down when it began each read since the last
SIGUSR2, and how many messages it had received by then, as an array in its directory, and says so.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import uvloop

from tidings.broker.config_tracking import TrackingTable
from tidings.broker.garbage import search_seldom
from tidings.broker.naps import Naps
from tidings.broker.server import Broker, Listener
from tidings.broker.session import Session
from tidings.broker.sqlite_store import SqliteStore
from tidings.broker.tracking_thread import TrackingOptions
from tidings.lab.servers import READS_FILE
from tidings.node.settings import Settings
from tidings.protocols.native import NativeSession
from tidings.protocols.stomp import StompSession


class Stamps(Naps):
    """Notes the time of every read, which connections count here before they do anything else."""

    def __init__(self, received: Callable[[], int]) -> None:
        self.found: list[tuple[int, int]] = []
        self._count = 0
        super().__init__(received)

    @property
    def reads(self) -> int:
        return self._count

    @reads.setter
    def reads(self, count: int) -> None:
        self._count = count
        if count:
            self.found.append((time.perf_counter_ns(), self._received()))

    def write(self, file: Path) -> None:
        np.save(file, np.array(self.found, dtype=np.int64).reshape(-1, 2))
        self.found.clear()
        _say("written")


SESSIONS: dict[str, Callable[[], Session]] = {"native": NativeSession, "stomp": StompSession}


async def serve(data: Path, protocol: str, tracking: TrackingOptions | None) -> None:
    broker = Broker(Settings(), SqliteStore(data / "store.db"), tracking=tracking)
    await broker.start([])
    search_seldom()
    port = await broker.listen(Listener(SESSIONS[protocol], port=0))
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, lambda: _say(json.dumps(broker.forwarder.stats())))
    loop.add_signal_handler(signal.SIGUSR2, lambda: _stamps_of(broker).write(data / READS_FILE))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    _say(str(port))  # whoever reads it may send signals at once
    await end.wait()
    await broker.stop()


def _stamps_of(broker: Broker) -> Stamps:
    if not isinstance(broker.naps, Stamps):
        broker.naps = Stamps(broker.forwarder.received)
    return broker.naps


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="directory of its store")
    parser.add_argument("--protocol", choices=SESSIONS, default="native")
    parser.add_argument("--tracking", default="", help="a table [tracking] of a configuration, as JSON; empty: none")
    arguments = parser.parse_args()
    table = TrackingTable(**json.loads(arguments.tracking)) if arguments.tracking else None
    options = None if table is None else table.options(arguments.data)
    uvloop.run(serve(arguments.data, arguments.protocol, options))
