"""What clients say, right or wrong, leaves nothing behind in the broker once they are gone."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hardening.fuzz.sockets import Run
from hardening.support.links import eventually
from hardening.support.raw_connection import RawConnection

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.server import Broker
from tidings.broker.tracking_thread import TrackingOptions
from tidings.errors import TidingsError
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control
from tidings.protocols.stomp.session import StompSession
from tidings.segments import history_store
from tidings.testing.local_broker import local_broker, run
from tidings.tracking.recording import attachments
from tidings.tracking.recording.recorder import TrackingSettings

AT_A_TIME = 8
REMEMBERED = 40
TAIL_BYTES = 512  # stored histories stay in memory until they fill a segment: here a few entries do
CACHES = {
    "Pattern",
    "Destination",
    "DestinationPattern",
    "TextTest",
    "Key",
}  # the last so many, which others then take the place of


@asynccontextmanager
async def fuzzed(folder: Path) -> AsyncIterator[tuple[Broker, tuple[int, int]]]:
    """A broker that has been sent so much that whatever is made once is there."""
    tracking = TrackingOptions(TrackingSettings(attachments_max=REMEMBERED), folder)
    async with local_broker(tracking=tracking) as local:
        ports = local.port, await local.broker.listen(ListenerSettings(StompSession, port=0))
        await send(local.broker, ports, 0, 200)
        yield local.broker, ports


async def send(broker: Broker, ports: tuple[int, int], first: int, count: int) -> None:
    streams = Run(ports, 1, first, first + count, float("inf"))
    await asyncio.gather(*(streams.send() for _ in range(AT_A_TIME)))
    await eventually(lambda: not broker.clients.connections)


def ours(objects: list[object]) -> Counter[str]:
    kinds = (type(one) for one in objects)
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("tidings"))


def grown(before: Counter[str]) -> int:
    more = ours(gc.get_objects()) - before
    return sum(count for kind, count in more.items() if kind not in CACHES)


def test_streams_leave_no_object_behind_and_no_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_store, "SEGMENT_BYTES", TAIL_BYTES)
    monkeypatch.setattr(attachments, "PUBLISHERS_PAST_MAX", REMEMBERED)

    async def work() -> None:
        async with fuzzed(tmp_path) as (broker, ports):
            gc.collect()
            there = gc.get_objects()
            before, known = ours(there), set(map(id, there))  # of what earlier tests have left some may go only now
            del there
            gc.disable()
            await send(broker, ports, 200, 200)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found, gc.garbage[:] = [one for one in gc.garbage if id(one) not in known], []
            gc.set_debug(0)
            gc.enable()
            assert ours(found) == Counter(), "only a search for circles would have freed these"
            await eventually(lambda: grown(before) < 20)  # once the tracking thread has written what it was given
            assert len(broker.engine.node.tracking.recorder.attachments) <= 2 * (REMEMBERED * 9 // 8) + 1

    run(work())


def test_a_refused_request_is_freed_with_its_answer() -> None:
    """The error in the answer must not keep the stack it came by, with the request in it."""

    async def work() -> None:
        async with local_broker() as local:
            client = await RawConnection.open(local.url)
            await client.greet()
            gc.collect()
            earlier = {id(one) for one in gc.get_objects() if isinstance(one, TidingsError)}  # of other tests
            gc.disable()
            try:
                about: dict[str, Value] = {
                    "subscription": 1,
                    "destination": "a",
                    "selector": "x" * 50_000,
                    "policy": "no such policy",
                }
                for receipt in range(1, 9):
                    await client.send(control(FrameType.SUBSCRIBE, {"receipt": receipt, **about}))
                    assert (await client.frame()).type == FrameType.ERROR
                errors = [one for one in gc.get_objects() if isinstance(one, TidingsError)]
                kept = [one for one in errors if id(one) not in earlier]
                assert len(kept) <= 1, "errors of requests that were answered"
            finally:
                gc.enable()
                client.writer.close()

    run(work())
