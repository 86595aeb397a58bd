"""What strangers hear at the port for links."""

import asyncio
from pathlib import Path

from hardening.support.links import BrokerNetwork, eventually

from tidings.model.codec import encode_frame
from tidings.overlay.link.greeting import Greeting
from tidings.protocols.native.frames import FrameSplitter
from tidings.routing.control.codec import encode


def test_before_the_proof_a_stranger_hears_only_a_challenge(tmp_path: Path) -> None:
    """Neither who is here, nor a proof by which it could try secrets at home."""

    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            reader, writer = await asyncio.open_connection("127.0.0.1", network.link_ports[1])
            writer.write(encode_frame(0x42, bytes(32)))
            writer.write(encode_frame(0x40, encode(Greeting("test", 9, 1, 1))))
            writer.write(encode_frame(0x43, bytes(32)))
            heard = b""
            while data := await reader.read(1 << 16):
                heard += data
            writer.close()
            types = [frame.type for frame in FrameSplitter(1 << 20).feed(heard)]
            assert types == [0x42, 0x40], "a challenge, and the refusal of the wrong proof"
            assert b"E_LINK_SECRET" in heard
            await eventually(lambda: network.linked(1, 2))

    asyncio.run(check())
