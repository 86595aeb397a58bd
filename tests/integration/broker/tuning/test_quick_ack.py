"""TCP's acknowledgements are put off for those who do not wait for them."""

import asyncio
import socket

from hardening.support.raw_connection import RawConnection

from tidings.broker.tuning.quick_ack import PATIENCE_READS
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.protocols.native.frames import encode_publish
from tidings.testing.local_broker import local_broker, run


def test_a_connection_that_is_read_again_and_again_does_without() -> None:
    publication = encode_publish(0, encode_message(Message(Destination("t"), {})))

    async def check() -> None:
        async with local_broker() as here:
            publisher = await RawConnection.open(here.url)
            await publisher.greet()
            (connection,) = here.broker.clients.connections.values()
            plain = connection._socket
            assert plain is not None
            at_once = []
            for sent in range(1, PATIENCE_READS + 10):
                await publisher.send(publication)
                while here.broker.forwarder.received() < sent:
                    await asyncio.sleep(0)
                at_once.append(bool(plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)))
            assert PATIENCE_READS - 10 < at_once.index(False) < PATIENCE_READS  # the greeting was read too
            publisher.writer.close()

    run(check())
