"""A Tidings broker as a process of its own, with default settings: prints its port, serves until told to end."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from tidings.broker.config_tracking import TrackingTable
from tidings.broker.garbage import search_seldom
from tidings.broker.server import Broker, Listener
from tidings.broker.session import Session
from tidings.broker.sqlite_store import SqliteStore
from tidings.broker.tracking_thread import TrackingOptions
from tidings.node.settings import Settings
from tidings.protocols.native import NativeSession
from tidings.protocols.stomp import StompSession

SESSIONS: dict[str, Callable[[], Session]] = {"native": NativeSession, "stomp": StompSession}


async def serve(data: Path, protocol: str, tracking: TrackingOptions | None) -> None:
    broker = Broker(Settings(), SqliteStore(data / "store.db"), tracking=tracking)
    await broker.start([])
    search_seldom()
    port = await broker.listen(Listener(SESSIONS[protocol], port=0))
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    await end.wait()
    await broker.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="directory of its store")
    parser.add_argument("--protocol", choices=SESSIONS, default="native")
    parser.add_argument("--tracking", default="", help="a table [tracking] of a configuration, as JSON; empty: none")
    arguments = parser.parse_args()
    table = TrackingTable(**json.loads(arguments.tracking)) if arguments.tracking else None
    options = None if table is None else table.options(arguments.data)
    uvloop.run(serve(arguments.data, arguments.protocol, options))
