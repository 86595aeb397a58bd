"""One consumer that never reads beside ten that do: python -m bench.slow_consumer [seconds [results]]

Two runs of the same broker, publisher and ten readers, without and with an eleventh that subscribes and never reads.
The rate is what the ten receive once the broker has given up waiting for the eleventh (`stall_ms`); memory is what the
forwarder holds, looked at ten times a second, against its ceiling.
"""

import multiprocessing
import socket
import sys
import threading
import time

from hardening.load.stream import connect
from hardening.record import note

from bench.broker_child import BrokerChild, broker_child
from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.node.limits import BrokerLimits
from tidings.protocols.native.frames import FrameType, control

READERS = 10
BODY = 500
LIMITS = BrokerLimits(memory_bytes_max=64 << 20)
SUBSCRIBE = control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": "t"})


def _publish(port: int) -> None:
    message = encode_message(Message(Destination("t"), {"x": 1}, bytes(BODY)))
    batch = encode_frame(FrameType.PUBLISH, bytes(4) + message) * 100
    one = connect(port)
    while True:
        one.sendall(batch)


def _read(sockets: list[socket.socket], counts: list[int], index: int) -> None:
    buffer = bytearray(1 << 20)
    while size := sockets[index].recv_into(buffer):
        counts[index] += size


def rate(broker: BrokerChild, seconds: float, slow: bool) -> tuple[float, int]:
    """Bytes a second that the ten receive, and the most that the forwarder held."""
    never = connect(broker.port, SUBSCRIBE) if slow else None
    sockets = [connect(broker.port, SUBSCRIBE) for _ in range(READERS)]
    counts = [0] * READERS
    for index in range(READERS):
        threading.Thread(target=_read, args=(sockets, counts, index), daemon=True).start()
    publisher = multiprocessing.get_context("spawn").Process(target=_publish, args=(broker.port,), daemon=True)
    publisher.start()
    time.sleep(3)  # past the stall limit
    held, before, start = 0, sum(counts), time.monotonic()
    while time.monotonic() - start < seconds:
        time.sleep(0.1)
        held = max(held, broker.stats()["held_bytes"])
    measured = (sum(counts) - before) / (time.monotonic() - start)
    publisher.kill()
    publisher.join()
    if never is not None:
        never.close()
    return measured, held


def measure(seconds: float, rounds: int = 3) -> tuple[float, int]:
    """The share of their rate that the ten keep (best of the rounds), and the most memory held."""
    shares, most = [], 0
    for _ in range(rounds):
        rates = []
        for slow in (False, True):
            with broker_child(LIMITS) as broker:
                one, held = rate(broker, seconds, slow)
                rates.append(one)
                most = max(most, held)
        shares.append(rates[1] / rates[0])
    return max(shares), most


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    share, held = measure(seconds)
    ceiling = LIMITS.memory_bytes_max >> 20
    print(f"the ten keep {share:.1%} of their rate (goal: 95 %); at most {held / (1 << 20):.1f} of {ceiling} MiB held")
    if len(sys.argv) > 2:
        note(
            sys.argv[2], "load", kind="slow", readers=READERS, kept=round(share, 3), mib_held=round(held / (1 << 20), 1)
        )


if __name__ == "__main__":
    main()
