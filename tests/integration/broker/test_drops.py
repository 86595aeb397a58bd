"""With real sockets: what a broker drops for a subscriber and what that receives are all that was published."""

import asyncio
import re
import time

import pytest
from hardening.fuzz.amqp_streams import FLOW, TRANSFER
from hardening.support.amqp_client import MANY, Client, source

import tidings
from tidings import sync
from tidings.broker.http.metrics import Metrics
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.amqp.sasl import amqp_frame
from tidings.protocols.amqp.sections import MessageSection, decode_sections
from tidings.protocols.amqp.wire.types import symbol, uint
from tidings.testing.local_broker import BrokerThread, local_broker, run

COUNT, BODY = 400, bytes(2_000)
NARROW = NodeSettings(sink_bytes_max=40_000, stall_ms=200)
EAGER = BrokerLimits(stall_ms=200)


async def until_all(subscription: tidings.Subscription, count: int) -> int:
    """Reads until nothing more comes. Returns how many were received."""
    got = 0
    while got + subscription.dropped < count:
        got += await subscription.receive(1.5) is not None
    return got


@pytest.mark.parametrize("ack", ["auto", "client"])
@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest", "push-back"])
def test_received_and_dropped_are_all_that_was_published(ack: str, policy: str) -> None:
    async def scenario() -> None:
        async with (
            local_broker(limits=EAGER, settings=NARROW) as (broker, url),
            tidings.connect(url) as reader,
            tidings.connect(url) as writer,
        ):
            ticks = await reader.subscribe("t", ack=ack, policy=policy, window=5)
            for n in range(COUNT):
                await writer.publish("t", {"n": n}, BODY, wait=n == COUNT - 1)
            async with asyncio.timeout(20):
                got = await until_all(ticks, COUNT)
            assert 5 <= got < COUNT
            assert got + ticks.dropped == COUNT
            assert {error.code for error in reader.errors} == {"E_DROPPED"}
            reason = {"drop-oldest": "oldest", "drop-newest": "newest", "push-back": "stalled"}[policy]
            text = Metrics(broker.view).metrics().body
            counts = dict(re.findall(r'messages_dropped_total{reason="(\w+)"} (\d+)', text))
            assert int(counts[reason]) == ticks.dropped

    run(scenario())


def test_a_receiver_of_amqp_is_told_by_the_next_message() -> None:
    with BrokerThread(NARROW, limits=EAGER) as broker:
        receiver = Client(broker.amqp_port)
        receiver.receive(0, source("topic://t"), credit=1)
        with sync.connect(broker.url) as writer:
            for n in range(COUNT):
                writer.publish("t", {"n": n}, BODY, wait=n == COUNT - 1)
            published, got, dropped, reasons = COUNT, 0, 0, set[object]()
            while got + dropped < published:
                receiver.say(amqp_frame(FLOW, [uint(0), MANY, uint(0), MANY, uint(0), uint(got), uint(1)]))
                _, content = receiver.hear(TRANSFER)
                got += 1
                for section, value, _ in decode_sections(content):
                    if section is MessageSection.DELIVERY_ANNOTATIONS and symbol("x-opt-dropped") in value:
                        dropped += value[symbol("x-opt-dropped")]
                        reasons.add(value[symbol("x-opt-dropped-reason")])
                if not dropped:  # a message by which the receiver can be told
                    writer.publish("t", {"n": published}, b"", wait=True)
                    published += 1
                    time.sleep(0.05)
            assert reasons == {"stalled"}
        receiver.close()
