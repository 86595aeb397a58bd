"""Memory of an idle connection in the broker, by protocol; the goal is at most 20 KiB.

    python -m bench.idle_connections [connections [results]]

Each client logs in, subscribes once and is silent. Memory is the growth of the broker's resident set; what the
operating system keeps for a socket is not in it.
"""

import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from hardening.record import note

from bench.broker_child import allow_many_files, broker_child, native_listener
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.packets import V4, Connect, SubscribePacket, TopicRequest
from tidings.protocols.mqtt.session import MqttNativeSession, MqttSession
from tidings.protocols.native.frames import FrameType, control
from tidings.protocols.native.peer import Fields
from tidings.protocols.stomp.session import StompSession

WARM = 200


@dataclass(frozen=True, slots=True)
class IdleProtocol:
    listener: Callable[[], ListenerSettings]
    opening: Callable[[int], bytes]  # of the client of this number: login and subscription
    answered: bytes  # with it the answer to the subscription ends


def stomp_listener() -> ListenerSettings:
    return ListenerSettings(StompSession)


def mqtt_listener() -> ListenerSettings:
    return ListenerSettings(MqttNativeSession, make_gateway=partial(MqttSession, MqttClients()))


def native_opening(number: int) -> bytes:
    wanted: Fields = {"receipt": 1, "subscription": 1, "destination": f"idle.{number}"}
    return control(FrameType.HELLO, {"version": 1, "heartbeat_ms": 30_000}) + control(FrameType.SUBSCRIBE, wanted)


def stomp_opening(number: int) -> bytes:
    subscribe = f"SUBSCRIBE\nid:1\nreceipt:1\ndestination:/topic/idle.{number}\n\n\0"
    return f"CONNECT\naccept-version:1.2\nhost:h\n\n\0{subscribe}".encode()


def mqtt_opening(number: int) -> bytes:
    subscribe = SubscribePacket(1, (TopicRequest(f"idle/{number}"),))
    return encode(Connect(V4, f"idle-{number}", True), V4) + encode(subscribe, V4)


PROTOCOLS = {
    "native": IdleProtocol(native_listener, native_opening, b"receipt"),
    "stomp": IdleProtocol(stomp_listener, stomp_opening, b"receipt-id:1\n\n\0"),
    "mqtt": IdleProtocol(mqtt_listener, mqtt_opening, b"\x90\x03\x00\x01\x00"),
}


def open_idle(port: int, protocol: IdleProtocol, first: int, count: int) -> list[socket.socket]:
    """Connections that are logged in and subscribed."""
    sockets = []
    for start in range(first, first + count, 100):
        numbers = range(start, min(start + 100, first + count))
        fresh = [socket.create_connection(("127.0.0.1", port)) for _ in numbers]
        for one, number in zip(fresh, numbers, strict=True):
            one.sendall(protocol.opening(number))
        for one in fresh:
            answer = b""
            while protocol.answered not in answer:
                answer += one.recv(4096)
        sockets += fresh
    return sockets


def measure(count: int, protocol: IdleProtocol) -> float:
    """KiB a connection."""
    allow_many_files()
    with broker_child(listener=protocol.listener) as broker:
        warm = open_idle(broker.port, protocol, 0, WARM)
        time.sleep(1)
        before = broker.resident_kib()
        idle = open_idle(broker.port, protocol, WARM, count)
        time.sleep(1)
        after = broker.resident_kib()
        for one in warm + idle:
            one.close()
    return (after - before) / count


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    count = min(wanted, allow_many_files() - WARM - 100)
    for name, protocol in PROTOCOLS.items():
        kib = measure(count, protocol)
        print(f"{count} idle connections, {name}: {kib:.1f} KiB each (goal: at most 20)")
        if len(sys.argv) > 2:
            note(sys.argv[2], "load", kind="idle", protocol=name, connections=count, kib_each=round(kib, 1))


if __name__ == "__main__":
    main()
