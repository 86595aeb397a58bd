"""The engine's steps: what one socket read brings is finished in the step that handles it."""

from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.model.codec import encode_frame
from tidings.node import inputs
from tidings.node.requests import AckMode
from tidings.protocols.native.frames import FrameType, encode_ack, encode_publish

PING = encode_frame(FrameType.PING, b"")


def one_read(driver: NodeDriver, client: DrivenClient, data: bytes) -> None:
    driver.plane.feed_bytes(client.number, data, driver.now_ms)
    driver.step(inputs.PlaneReady())


def test_a_publication_is_written_at_once_though_a_ping_came_with_it() -> None:
    """A frame that asks the node for nothing takes no turn of it; the turn for what came before is still due."""
    driver = NodeDriver()
    client = driver.connect()
    client.subscribe(1, "queue:q", ack=AckMode.CLIENT)
    one_read(driver, client, encode_publish(7, driver.message("queue:q", b"x")) + PING)
    assert client.accepted == {7}
    assert client.bodies() == [b"x"]


def test_an_acknowledgement_makes_room_at_once_though_a_ping_came_with_it() -> None:
    driver = NodeDriver()
    client = driver.connect()
    client.subscribe(1, "t", ack=AckMode.CLIENT, durable="d", credit=1, window=True)
    for body in (b"1", b"2"):
        client.publish(driver.message("t", body))
    [first] = client.receive()
    one_read(driver, client, encode_ack(1, [first.tag]) + PING)
    assert client.bodies() == [b"2"]
