"""The engine's steps: what one socket read brings is finished in the step that handles it."""

from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.kernel.forwarder import Flag
from tidings.model.codec import encode_frame
from tidings.node import inputs
from tidings.node.engine import REQUESTS_MAX
from tidings.node.requests import AckMode
from tidings.node.settings import NodeSettings, Pieces
from tidings.protocols.native.frames import FrameType, control, encode_ack, encode_publish

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


LONG = " OR ".join(f"n = {n}" for n in range(1500))  # more than a step takes of requests of usual length


def asked(driver: NodeDriver, client: DrivenClient, number: int, selector: str = "") -> None:
    """Feeds a SUBSCRIBE, which only a step carries out."""
    fields = {"receipt": 1_000 + number, "subscription": number, "destination": "t", "selector": selector}
    driver.plane.feed_bytes(client.number, control(FrameType.SUBSCRIBE, fields), driver.now_ms)


def carried_out(driver: NodeDriver, client: DrivenClient, number: int) -> bool:
    return number in driver.node.connections[client.number].subscriptions


def test_a_step_takes_one_long_request_and_puts_others_aside() -> None:
    driver = NodeDriver()
    clients = [driver.connect() for _ in range(4)]
    for client in clients:
        asked(driver, client, 1, LONG)
    for done in range(1, 5):
        driver.step(inputs.PlaneReady())
        assert [carried_out(driver, client, 1) for client in clients] == [True] * done + [False] * (4 - done)
        assert driver.engine.has_requests is (done < 4)


def test_short_requests_are_bounded_by_number_and_keep_the_order_of_each_client() -> None:
    driver = NodeDriver()
    clients = [driver.connect() for _ in range(REQUESTS_MAX + 5)]
    for client in clients:
        asked(driver, client, 1)
        asked(driver, client, 2)
    driver.step(inputs.PlaneReady())
    assert sum(carried_out(driver, client, 1) for client in clients) == REQUESTS_MAX
    driver.turn()
    assert all(carried_out(driver, client, 1) and carried_out(driver, client, 2) for client in clients)
    assert not driver.engine.has_requests


def test_of_a_client_that_has_left_a_short_request_counts_and_a_long_one_does_not() -> None:
    driver = NodeDriver()
    busy, short, long = driver.connect(), driver.connect("s"), driver.connect("l")
    asked(driver, busy, 1, LONG)
    for client, selector in ((short, ""), (long, LONG)):
        fields = {"receipt": 9, "subscription": 1, "destination": "t", "selector": selector, "durable": "d"}
        driver.plane.feed_bytes(client.number, control(FrameType.SUBSCRIBE, fields), driver.now_ms)
    driver.step(inputs.PlaneReady())
    assert driver.engine.has_requests
    for client in (long, short):
        driver.step(inputs.ClientLost(client.number))
    assert not driver.engine.has_requests
    [kept] = driver.engine.view.mailboxes
    assert "s" in kept
    assert "l" not in kept.split()


def test_publishers_wait_while_many_messages_are_on_their_way_to_disk() -> None:
    pieces = Pieces(journal_messages=3)
    driver = NodeDriver(settings=NodeSettings(pieces=pieces))
    reader, writer = driver.connect(), driver.connect()
    reader.subscribe(1, "queue:q")
    driver.hold_writes = True
    taken = 0
    while not driver.plane.resume(writer.number, driver.now_ms) & Flag.BLOCKED:
        taken += 1
        one_read(driver, writer, encode_publish(taken, driver.message("queue:q", b"x")))
    assert 3 <= taken <= 5
    while driver.writes:
        driver.write()
    assert writer.number in driver.plane.take_resumable()
    assert len(reader.bodies()) == taken
