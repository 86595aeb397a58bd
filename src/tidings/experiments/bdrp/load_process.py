"""Runs the clients of one broker as a process, for experiments with real brokers.

Started as `python -m tidings.experiments.bdrp.load_process load.json`.

Each client subscribes to its share of the workload (scale_out.py). When all have, the file `ready` appears; the file
`go` then says when to begin, by the clock that all processes of a machine share. They publish together, as a Poisson
process whose rate follows a profile (rates that stay or rise evenly, one after the other), wait for what is still on
its way, and write what they sent and were given in each second, and how late they were themselves. Frames are made
beforehand, and what arrives is counted, not decoded: on a machine that runs all brokers too, clients must cost little.
"""

import asyncio
import json
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import cast

from tidings.errors import TidingsError
from tidings.experiments.bdrp.scale_out import SUBSCRIPTIONS, selector_of, workload
from tidings.kernel.codec import encode_message
from tidings.lab.load_protocols import LoadPlan, LoadProtocol, NativeLoad, StompLoad
from tidings.model.codec import encode_frame
from tidings.model.constraint import Op
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.protocols.native.frames import FrameType

QUIET_SECONDS, DRAIN_SECONDS = 2.0, 20.0
UNSENT_BYTES_MAX = 4 << 20  # of one client, before it waits for its broker
FRAME = struct.Struct("<IB3x")
ID_MS = slice(24, 30)  # of a PUBLISH frame: after frame header, receipt, the message's first four bytes, two numbers
TOPIC = "workload"
INT_MAX = 100  # of the workload


@dataclass(frozen=True, slots=True)
class Stretch:
    """A rate, of messages a second, that stays or changes evenly."""

    first: float
    last: float
    seconds: float

    def shared(self, parts: int) -> "Stretch":
        return Stretch(self.first / parts, self.last / parts, self.seconds)


@dataclass(frozen=True, slots=True)
class LoadDescription:
    host: str
    port: int
    wire: str  # native or stomp
    clients: list[int]
    seed: int
    profile: list[Stretch]  # of all clients of this process together
    folder: str
    name: str

    def path(self, what: str) -> Path:
        return Path(self.folder) / f"{self.name}.{what}"

    def save(self) -> Path:
        self.path("load.json").write_text(json.dumps(asdict(self)))
        return self.path("load.json")

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.profile)

    def times(self) -> Iterator[float]:
        """Seconds after the beginning at which a message is sent, the same ones for the same load."""
        rng = Random(f"{self.seed} {self.name}")
        begin = 0.0
        for one in self.profile:
            at = 0.0
            while True:
                at += rng.expovariate(one.first + (one.last - one.first) * min(1.0, at / one.seconds))
                if at >= one.seconds:
                    break
                yield begin + at
            begin += one.seconds


class LoadClient(asyncio.Protocol):
    """One connection; counts answers until `counting`, messages from then on."""

    def __init__(self, wire: LoadProtocol, delivered: Counter[int]) -> None:
        self.wire, self.delivered = wire, delivered
        self.answers = 0
        self.counting = self.failed = False
        self.start = 0.0
        self.last_at = 0.0
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self.counting:
            self._rest += data
            if isinstance(self.wire, StompLoad):
                self.failed = b"ERROR\n" in self._rest
                self.answers += data.count(b"\0")
            else:
                self.answers += sum(type in (FrameType.WELCOME, FrameType.OK) for type in self._types())
            return
        self.last_at = time.monotonic()
        if isinstance(self.wire, StompLoad):
            count = data.count(b"\0")
        else:
            self._rest += data
            count = sum(type == FrameType.DELIVER for type in self._types())
        self.delivered[int(self.last_at - self.start)] += count

    def _types(self) -> list[int]:
        """Of the whole frames that have come."""
        data, at, found = self._rest, 0, []
        while len(data) - at >= FRAME.size:
            size, type = FRAME.unpack_from(data, at)
            if at + FRAME.size + size > len(data):
                break
            found.append(type)
            at += FRAME.size + size
        self._rest = data[at:]
        return found


class LoadRun:
    def __init__(self, load: LoadDescription) -> None:
        self.load = load
        self.wire: LoadProtocol = StompLoad() if load.wire == "stomp" else NativeLoad()
        self.delivered: Counter[int] = Counter()
        self.late: dict[int, float] = {}  # by second: how late a message was sent, at most
        self.clients: list[LoadClient] = []

    async def run(self) -> None:
        load, loop = self.load, asyncio.get_running_loop()
        for client in load.clients:
            _, one = await loop.create_connection(lambda: LoadClient(self.wire, self.delivered), load.host, load.port)
            self.clients.append(one)
            await self._subscribe(one, client)
        times = list(load.times())
        frames = [self._frame(n, message) for n, message in enumerate(workload(load.seed).messages(0, len(times)))]
        load.path("ready").touch()
        start = await self._go()
        for one in self.clients:
            one.start, one.counting = start, True
        sent = await self._publish(start, times, frames)
        await self._drain()
        delivered = {str(second): count for second, count in self.delivered.items()}
        late = {str(second): round(by, 3) for second, by in self.late.items()}
        result = {"planned": len(times), "sent": sent, "delivered": delivered, "late": late}
        load.path("result.new").write_text(json.dumps(result))
        load.path("result.new").rename(load.path("result.json"))
        for one in self.clients:
            one.transport.abort()

    async def _subscribe(self, one: LoadClient, client: int) -> None:
        one.transport.write(self.wire.hello(f"client-{client}"))
        await self._answered(one, 1)
        predicates = workload(self.load.seed).predicates(client * SUBSCRIPTIONS, SUBSCRIPTIONS)
        for number, predicate in enumerate(predicates, 1):
            selector = text_selector(predicate) if self.load.wire == "stomp" else selector_of(predicate)
            one.transport.write(self.wire.subscribe(number, TOPIC, selector))
        await self._answered(one, 1 + SUBSCRIPTIONS)

    async def _answered(self, one: LoadClient, count: int) -> None:
        while one.answers < count:
            if one.failed or one.transport.is_closing():
                raise TidingsError("E_EXPERIMENT", "the broker refuses a client")
            await asyncio.sleep(0.005)

    def _frame(self, number: int, message: Message) -> bytes:
        if self.load.wire == "stomp":
            properties = tuple((name, str(value)) for name, value in message.properties.items())
            return self.wire.block(LoadPlan(TOPIC, message.body, properties=properties), 1)
        id = MessageId(1, int(self.load.name), 0, number % 65536)
        plain = Message(message.destination, message.properties, message.body, id=id)
        return encode_frame(FrameType.PUBLISH, bytes(4) + encode_message(plain))

    def _stamped(self, frame: bytes) -> bytes:
        """With the time of its sending in its id, as clients do it."""
        if self.load.wire == "stomp":
            return frame
        return frame[: ID_MS.start] + (time.time_ns() // 1_000_000).to_bytes(6, "big") + frame[ID_MS.stop :]

    async def _go(self) -> float:
        path = Path(self.load.folder) / "go"
        while not path.exists():
            await asyncio.sleep(0.05)
        start = float(path.read_text())
        await asyncio.sleep(max(0.0, start - time.monotonic()))
        return start

    async def _publish(self, start: float, times: list[float], frames: list[bytes]) -> list[int]:
        """The second in which each message was sent; a client whose broker takes nothing waits."""
        rng = Random(f"senders {self.load.name}")
        sent: list[int] = []
        for at, frame in zip(times, frames, strict=True):
            while (wait := start + at - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            one = rng.choice(self.clients)
            while one.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
                await asyncio.sleep(0.01)
                if time.monotonic() > start + self.load.seconds:
                    return sent
            one.transport.write(self._stamped(frame))
            now = time.monotonic() - start
            second = int(now)
            sent.append(second)
            if now - at > self.late.get(second, 0.0):
                self.late[second] = now - at
            if len(sent) % 16 == 0:
                await asyncio.sleep(0)  # when late, what arrives must be read all the same
        return sent

    async def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        ended = time.monotonic()
        while time.monotonic() < deadline:
            last = max(ended, *(one.last_at for one in self.clients))
            if time.monotonic() > last + QUIET_SECONDS:
                return
            await asyncio.sleep(0.1)


def text_selector(predicate: Predicate) -> str:
    """The same for a broker whose properties are all texts, as ActiveMQ's are over STOMP.

    >>> from tidings.model.constraint import Constraint
    >>> text_selector(Predicate.of(Constraint("i1", Op.GT, 97)))
    "i1 IN ('98', '99', '100')"
    """
    [[constraint]] = predicate.conjunctions
    value = constraint.value
    if not isinstance(value, int):
        return selector_of(predicate)
    if constraint.op is Op.EQ:
        return f"{constraint.name} = '{value}'"
    wanted = range(value) if constraint.op is Op.LT else range(value + 1, INT_MAX + 1)
    listed = ", ".join(f"'{one}'" for one in wanted)
    return f"{constraint.name} IN ({listed})" if listed else f"{constraint.name} = ''"


def main(path: str) -> None:
    data = json.loads(Path(path).read_text())
    asyncio.run(LoadRun(LoadDescription(**{**data, "profile": [Stretch(**one) for one in data["profile"]]})).run())


if __name__ == "__main__":
    main(sys.argv[1])
