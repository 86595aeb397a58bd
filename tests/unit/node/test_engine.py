"""The engine's steps: what one socket read brings is finished in the step that handles it."""

from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.kernel.forwarder import Flag
from tidings.model.codec import encode_frame
from tidings.model.values import Value
from tidings.node import inputs
from tidings.node.effects import NodeEffect
from tidings.node.engine import REQUESTS_MAX
from tidings.node.node import CHANGES_MAX
from tidings.node.requests import AckMode, Done, Failed
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
    fields: dict[str, Value] = {
        "receipt": 1_000 + number,
        "subscription": number,
        "destination": "t",
        "selector": selector,
    }
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


def put_aside(driver: NodeDriver) -> bool:
    return driver.engine.has_requests


def test_of_a_client_that_has_left_a_short_request_counts_and_a_long_one_does_not() -> None:
    driver = NodeDriver()
    busy, short, long = driver.connect(), driver.connect("s"), driver.connect("l")
    asked(driver, busy, 1, LONG)
    for client, selector in ((short, ""), (long, LONG)):
        fields: dict[str, Value] = {
            "receipt": 9,
            "subscription": 1,
            "destination": "t",
            "selector": selector,
            "durable": "d",
        }
        driver.plane.feed_bytes(client.number, control(FrameType.SUBSCRIBE, fields), driver.now_ms)
    driver.step(inputs.PlaneReady())
    assert put_aside(driver)
    for client in (long, short):
        driver.step(inputs.ClientLost(client.number))
    assert not put_aside(driver)
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


def test_subscriptions_that_come_at_once_share_a_turn_and_are_answered_in_order() -> None:
    driver = NodeDriver()
    client = driver.connect()
    turns = []
    turn = driver.node.turn

    def counted(now_ms: int) -> list[NodeEffect]:
        turns.append(now_ms)
        return turn(now_ms)

    driver.node.turn = counted  # type: ignore[method-assign]
    for number in range(1, REQUESTS_MAX):
        asked(driver, client, number, f"n = {number}")
    asked(driver, client, 1)  # refused: it exists
    one_read(driver, client, encode_publish(7, driver.message("t", b"x", {"n": 3}, persistent=False)))
    assert len(turns) <= 2
    receipts = [one.receipt for one in client.answers if isinstance(one, Done | Failed)]
    assert receipts == [*range(1_001, 1_000 + REQUESTS_MAX), 1_001]
    assert client.bodies() == [b"x"]


def test_the_end_of_a_connection_with_very_many_subscriptions_takes_several_turns() -> None:
    driver = NodeDriver()
    client, other = driver.connect(), driver.connect()
    for number in range(1, 3 * CHANGES_MAX):
        asked(driver, client, number)
        driver.turn()
    other.subscribe(1, "t")
    client.leave()
    assert not driver.node.has_changes
    driver.plane.feed_bytes(other.number, encode_publish(7, driver.message("t", b"x")), driver.now_ms)
    driver.turn()
    assert other.bodies() == [b"x"]


def test_changes_beyond_those_of_a_turn_wait_for_the_next_one() -> None:
    driver = NodeDriver()
    client = driver.connect()
    for number in range(1, 3 * CHANGES_MAX):
        asked(driver, client, number)
        driver.turn()
    driver.step(inputs.ClientLost(client.number))
    waiting = [driver.node.has_changes]
    while driver.engine.has_requests:
        driver.step(inputs.PlaneReady())
        waiting.append(driver.node.has_changes)
    assert waiting == [True, True, False]
