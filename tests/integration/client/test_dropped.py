"""A subscriber is told what a policy has dropped: how many, why, and by which subscription it is missing."""

import asyncio

import pytest

import tidings
from tidings import sync
from tidings.protocols.native.frames import FrameType, control
from tidings.protocols.native.session import NativeSession
from tidings.testing.local_broker import BrokerThread, local_broker, run_plain


def test_a_notice_is_counted_and_told() -> None:
    async def scenario() -> None:
        heard: list[tidings.TidingsError] = []
        async with local_broker() as (_, url), tidings.connect(url, on_error=heard.append) as client:
            ticks = await client.subscribe("ticks.>", policy="drop-oldest")
            other = await client.subscribe("other")
            link, session = client._line.link, NativeSession()
            assert link is not None
            link.data_received(
                session.dropped(ticks.number, 17, "oldest") + session.dropped(ticks.number, 1, "stalled")
            )
            link.data_received(session.dropped(99, 5, "oldest"))  # of one that is closed
            link.data_received(session.dropped(ticks.number, 3, "some reason of later versions"))
            assert (ticks.dropped, other.dropped) == (21, 0)
            assert list(client.errors) == heard
            assert [error.code for error in heard] == ["E_DROPPED"] * 3
            texts = [str(error) for error in heard]
            assert "subscription 1 to ticks.>: 17 messages were dropped: " in texts[0]
            assert "drop-oldest" in texts[0]
            assert "1 message was dropped: " in texts[1]
            assert "stall_ms" in texts[1]
            assert "some reason of later versions" in texts[2]
            await client.publish("other", {"n": 1})
            assert await other.receive(5) is not None, "the connection goes on"

    run_plain(scenario())


@pytest.mark.parametrize("fields", [{"subscription": 1, "count": "x"}, {"subscription": 1, "count": 1, "reason": 2}])
def test_a_notice_that_is_none_ends_the_connection(fields: dict[str, int | str]) -> None:
    async def scenario() -> None:
        async with local_broker() as (_, url), tidings.connect(url) as client:
            ticks = await client.subscribe("t")
            link = client._line.link
            assert link is not None
            link.data_received(control(FrameType.DROPPED, {**fields}))
            while client.generation == 1:
                await asyncio.sleep(0)
            assert [error.code for error in client.errors] == ["E_FRAME_FIELD"]
            assert ticks.dropped == 0

    run_plain(scenario())


def test_the_blocking_client_counts_too() -> None:
    with BrokerThread() as broker, sync.connect(broker.url) as client:
        ticks = client.subscribe("t")
        link = client._async._line.link
        assert link is not None
        notice = NativeSession().dropped(1, 2, "newest")
        link._loop.call_soon_threadsafe(link.data_received, notice)
        client.types()  # answered later than that
        assert ticks.dropped == 2
        assert [error.code for error in client.errors] == ["E_DROPPED"]
