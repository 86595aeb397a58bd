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

from tidings.broker.config.tracking import TrackingTable
from tidings.broker.config.tuning import TuningTable
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.server import Broker
from tidings.broker.tracking_thread import TrackingOptions
from tidings.broker.tuning.gc_tuning import collect_seldom
from tidings.kernel.client_input import Pace
from tidings.kernel.heap import keep_large_blocks
from tidings.lab.servers import READS_FILE
from tidings.node.protocol_session import ProtocolSession
from tidings.node.settings import NodeSettings
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.session import StompSession
from tidings.store.sqlite.store import SqliteStore


class Stamps:
    """Notes the time of every read before anything else is done."""

    def __init__(self, received: Callable[[], int]) -> None:
        self.found: list[tuple[int, int]] = []
        self._received = received

    def note(self) -> None:
        self.found.append((time.perf_counter_ns(), self._received()))

    def write(self, file: Path, pace: Pace) -> None:
        """From now on; what was noted so far is written."""
        pace.on_read = self.note
        np.save(file, np.array(self.found, dtype=np.int64).reshape(-1, 2))
        self.found.clear()
        _say("written")


SESSIONS: dict[str, Callable[[], ProtocolSession]] = {"native": NativeSession, "stomp": StompSession}


async def serve(data: Path, protocol: str, tracking: TrackingOptions | None, tuning: TuningTable) -> None:
    keep_large_blocks()
    broker = Broker(NodeSettings(), SqliteStore(data / "store.db"), tracking=tracking, tuning=tuning)
    await broker.start([])
    if tuning.rare_garbage_collection:
        collect_seldom()
    port = await broker.listen(ListenerSettings(SESSIONS[protocol], port=0))
    end, loop, stamps = asyncio.Event(), asyncio.get_running_loop(), Stamps(broker.forwarder.received)
    loop.add_signal_handler(signal.SIGUSR1, lambda: _say(json.dumps(broker.forwarder.stats())))
    loop.add_signal_handler(signal.SIGUSR2, lambda: stamps.write(data / READS_FILE, broker.read_moderation.pace))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    _say(str(port))  # whoever reads it may send signals at once
    await end.wait()
    await broker.stop()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="directory of its store")
    parser.add_argument("--protocol", choices=SESSIONS, default="native")
    parser.add_argument("--tracking", default="", help="a table [tracking] of a configuration, as JSON; empty: none")
    parser.add_argument("--tuning", default="{}", help="a table [tuning] of a configuration, as JSON")
    arguments = parser.parse_args()
    table = TrackingTable(**json.loads(arguments.tracking)) if arguments.tracking else None
    options = None if table is None else table.options(arguments.data)
    tuning = TuningTable(**json.loads(arguments.tuning))
    uvloop.run(serve(arguments.data, arguments.protocol, options, tuning))
