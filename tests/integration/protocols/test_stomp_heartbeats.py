"""Heartbeats of STOMP on real sockets: what is agreed, what happens to who is silent, how the broker's come."""

import time

import pytest
from hardening.support.stomp_broker import Place, with_broker

from tidings.protocols.stomp.frames import StompVersion


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [("0,0", "1000,30000"), ("500,0", "1000,500"), ("10,0", "1000,200"), ("60000,0", "1000,30000")],
)
def test_heartbeats_are_asked_for_as_often_as_they_are_offered(offered: str, agreed: str) -> None:
    async def check(here: Place) -> None:
        raw = await here.raw(StompVersion.V12)
        await raw.send("CONNECT", {"accept-version": "1.2", "host": "x", "heart-beat": offered})
        assert (await raw.expect("CONNECTED")).headers["heart-beat"] == agreed

    with_broker(check)


def test_a_client_that_promised_heartbeats_and_is_silent_is_disconnected() -> None:
    async def check(here: Place) -> None:
        silent, other = await here.raw(StompVersion.V12), await here.raw(StompVersion.V12)
        for raw, offered in ((silent, "500,0"), (other, "0,0")):
            await raw.send("CONNECT", {"accept-version": "1.2", "host": "x", "heart-beat": offered})
            await raw.expect("CONNECTED")
        assert not (await silent.reader.read()).strip()
        await other.subscribe("/topic/a")

    with_broker(check)


def test_heartbeats_of_the_broker_come_one_at_a_time() -> None:
    """stomp.py takes several line ends in one read for the beginning of a frame, and hears no heartbeat any more."""

    async def check(here: Place) -> None:
        raw, began = await here.raw(StompVersion.V12), time.monotonic()
        await raw.send("CONNECT", {"accept-version": "1.2", "host": "x", "heart-beat": "2000,1000"})
        await raw.expect("CONNECTED")
        beats = (await raw.reader.read()).count(b"\n")  # silent all the time, so it is disconnected in the end
        assert 2 <= beats <= (time.monotonic() - began) / 0.5 + 1

    with_broker(check)
