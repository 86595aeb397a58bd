"""Memory of an idle connection in the broker; the goal is at most 20 KiB.

    python -m bench.idle_connections [connections [results]]

Each client logs in, subscribes once and is silent. Memory is the growth of the broker's resident set; what the
operating system keeps for a socket is not in it.
"""

import socket
import sys
import time

from hardening.record import note

from bench.broker_child import allow_many_files, broker_child
from tidings.protocols.native.frames import FrameType, control

HELLO = control(FrameType.HELLO, {"version": 1, "heartbeat_ms": 30_000})
WARM = 200


def subscribe(number: int) -> bytes:
    return control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": f"idle.{number}"})


def open_idle(port: int, count: int) -> list[socket.socket]:
    """Connections that are logged in and subscribed."""
    sockets = []
    for start in range(0, count, 100):
        fresh = [socket.create_connection(("127.0.0.1", port)) for _ in range(min(100, count - start))]
        for offset, one in enumerate(fresh):
            one.sendall(HELLO + subscribe(start + offset))
        for one in fresh:
            answer = b""
            while answer.count(b"receipt") < 1:
                answer += one.recv(4096)
        sockets += fresh
    return sockets


def measure(count: int) -> float:
    """KiB a connection."""
    allow_many_files()
    with broker_child() as broker:
        warm = open_idle(broker.port, WARM)
        time.sleep(1)
        before = broker.resident_kib()
        idle = open_idle(broker.port, count)
        time.sleep(1)
        after = broker.resident_kib()
        for one in warm + idle:
            one.close()
    return (after - before) / count


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    count = min(wanted, allow_many_files() - WARM - 100)
    kib = measure(count)
    print(f"{count} idle connections: {kib:.1f} KiB each (goal: at most 20)")
    if len(sys.argv) > 2:
        note(sys.argv[2], "load", kind="idle", connections=count, kib_each=round(kib, 1))


if __name__ == "__main__":
    main()
