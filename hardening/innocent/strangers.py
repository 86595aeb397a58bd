"""Attacks by strangers: connections, logins, garbage, and what the gateways of other protocols make of many frames."""

import os
import selectors
import socket
import threading
import time
from contextlib import suppress

from hardening.innocent.wire import Target
from tidings.broker.security.passwords import PASSWORD_BYTES_MAX
from tidings.protocols.native.frames import FrameType, control

HELD = 2_000  # connections of one address
NETWORKS = 60


def _open(target: Target, count: int, protocol: str = "native", first: bytes = b"") -> list[socket.socket]:
    opened = []
    for number in range(count):
        source = f"127.0.{number % NETWORKS + 1}.1"
        with suppress(OSError):
            one = socket.create_connection(("127.0.0.1", target.ports[protocol]), 30, (source, 0))
            if first:
                one.sendall(first)
            opened.append(one)
    return opened


def connections(target: Target) -> None:
    """Opened as fast as possible, held, and closed all at once."""
    while not target.over:
        for one in _open(target, HELD):
            one.close()


def logged_in_connections(target: Target) -> None:
    """The same after login: what a broker knows of a client has to go, too."""
    hello = control(FrameType.HELLO, {"version": 1, "heartbeat_ms": 600_000})
    subscribe = control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": "t"})
    while not target.over:
        for one in _open(target, HELD, first=hello + subscribe):
            one.close()


def silent(target: Target) -> None:
    """Connections that all run out of time for their login together."""
    while not target.over:
        opened = _open(target, HELD)
        end = time.monotonic() + 4
        while time.monotonic() < end and not target.over:
            time.sleep(0.1)
        for one in opened:
            one.close()


def _wrong(target: Target, number: int, password: str, user: str = "attacker") -> None:
    """One after the other from one address, whatever the answer is."""
    while not target.over:
        with suppress(OSError):
            one_wrong_login(target, number, password, user)


def one_wrong_login(target: Target, number: int, password: str = "wrong", user: str = "attacker") -> None:
    """From a network of this number; returns when it is refused."""
    hello = control(FrameType.HELLO, {"version": 1, "user": user, "password": password})
    with socket.create_connection(("127.0.0.1", target.ports["native"]), 30, (f"127.0.{number + 1}.1", 0)) as one:
        one.sendall(hello)
        while one.recv(4096):
            pass


def _threads(count: int, work: object, *arguments: object) -> None:
    threads = [threading.Thread(target=work, args=(*arguments, number)) for number in range(count)]  # type: ignore[arg-type]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def wrong_logins(target: Target) -> None:
    """60 networks, each with one wrong login at a time."""
    _threads(NETWORKS, lambda number: _wrong(target, number, "wrong"))


def wrong_logins_of_one(target: Target) -> None:
    """One address that goes on although it must wait."""
    _threads(8, lambda _: _wrong(target, 0, "wrong"))


def long_passwords(target: Target) -> None:
    _threads(20, lambda number: _wrong(target, number, "p" * PASSWORD_BYTES_MAX))


def garbage(target: Target, protocol: str = "native") -> None:
    """Bytes that are no frame, on new connections; the answer is read."""
    while not target.over:
        with suppress(OSError):
            one_garbage(target, protocol)


def one_garbage(target: Target, protocol: str = "native") -> None:
    with socket.create_connection(("127.0.0.1", target.ports[protocol]), 30) as one:
        one.sendall(os.urandom(64))
        one.settimeout(1)
        while one.recv(4096):
            pass


def garbage_stomp(target: Target) -> None:
    garbage(target, "stomp")


def garbage_mqtt(target: Target) -> None:
    garbage(target, "mqtt")


def garbage_amqp(target: Target) -> None:
    garbage(target, "amqp")


def _mqtt_string(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _mqtt_packet(kind: int, body: bytes) -> bytes:
    length, size = bytearray(), len(body)
    while True:
        size, low = divmod(size, 128)
        length.append(low | (128 if size else 0))
        if not size:
            return bytes((kind,)) + bytes(length) + body


def _mqtt(target: Target) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", target.ports["mqtt"]), 30)
    one.sendall(_mqtt_packet(0x10, _mqtt_string("MQTT") + b"\x04\x02\x00\x00" + _mqtt_string("")))
    assert one.recv(4) == b"\x20\x02\x00\x00"
    return one


def _pour(target: Target, one: socket.socket, block: bytes) -> None:
    """Without end; what the broker says is read and thrown away."""
    one.setblocking(False)
    ready, left = selectors.DefaultSelector(), memoryview(block)
    ready.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
    while not target.over:
        for _, events in ready.select(0.1):
            if events & selectors.EVENT_READ and not one.recv(1 << 20):
                return
            if events & selectors.EVENT_WRITE:
                with suppress(BlockingIOError):
                    left = left[one.send(left) :] or memoryview(block)


def mqtt_packets(target: Target) -> None:
    """As many small publications, confirmed, as fit into a read."""
    packet = _mqtt_packet(0x32, _mqtt_string("q/a") + b"\x00\x01x")
    _pour(target, _mqtt(target), packet * 20_000)


def mqtt_pings(target: Target) -> None:
    _pour(target, _mqtt(target), b"\xc0\x00" * 100_000)


def mqtt_subscriptions(target: Target) -> None:
    """Packets of thousands of filters."""
    filters = b"".join(_mqtt_string(f"t/{n}/#") + b"\x01" for n in range(5_000))
    topics = b"".join(_mqtt_string(f"t/{n}/#") for n in range(5_000))
    _pour(target, _mqtt(target), _mqtt_packet(0x82, b"\x00\x01" + filters) + _mqtt_packet(0xA2, b"\x00\x02" + topics))


def amqp_transfers(target: Target) -> None:
    """A producer with as many small messages as fit into a read."""
    from proton import Message
    from proton.utils import BlockingConnection

    connection = BlockingConnection(f"127.0.0.1:{target.ports['amqp']}", timeout=60)
    sender = connection.create_sender("topic://t")
    while not target.over:
        for _ in range(200):
            sender.link.send(Message(body="x", properties={"n": 1}))
        with suppress(Exception):
            connection.wait(lambda: sender.link.queued == 0, timeout=5)
    connection.close()


def pings(target: Target) -> None:
    """Small control frames, as many as fit into a read."""
    one = socket.create_connection(("127.0.0.1", target.ports["native"]), 30)
    one.sendall(control(FrameType.HELLO, {"version": 1, "heartbeat_ms": 600_000}))
    one.recv(4096)
    _pour(target, one, control(FrameType.PING, {})[:4] * 0 + bytes((0, 0, 0, 0, FrameType.PING, 0, 0, 0)) * 50_000)
