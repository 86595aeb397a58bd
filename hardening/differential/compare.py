"""Runs a script at the simulated broker and at the real one, and compares what the clients see.

Compared after every step, for each connection and in order: every delivery (subscription, attempt, message; tags up to
renaming), receipt, answer, error and close. How receipts are gathered into frames is left out: that depends on how the
output is cut into writes.
"""

from collections import Counter, defaultdict
from itertools import zip_longest
from random import Random
from typing import Any, assert_never

from hardening.differential.author import SYNC_RECEIPT, write_script
from hardening.differential.paired import PairedBroker
from hardening.differential.script import Restart, Script, Send, Step, Tick
from hardening.differential.simulated import SimulatedBroker
from hardening.differential.sockets import SocketBroker
from tidings.node.protocol_session import Hello
from tidings.node.requests import Sync
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import FrameType, RawFrame, decode_delivery, decode_fields, decode_receipts
from tidings.protocols.native.request_encoding import encode_hello, encode_request
from tidings.sim.broker import Sizes

OUTPUT_BYTES_MAX = 256 << 10  # small, so that large messages fill it

Observation = tuple[Any, ...]


class Performance:
    """A script as it runs at one broker."""

    def __init__(self, script: Script, broker: PairedBroker) -> None:
        self.script, self.broker = script, broker
        self.connections: dict[int, int] = {}  # client -> connection
        self._tags: dict[tuple[int, int], list[int]] = defaultdict(list)  # (client, subscription) -> of deliveries
        self._names: dict[int, int] = {}  # tag -> its place among all tags
        self._syncs = 0

    def perform(self, step: Step) -> dict[int, list[Observation]]:
        """Returns what each client saw of it."""
        match step:
            case Tick():
                self.broker.tick()
            case Restart():
                self._restart()
            case Send(client, frames, leaves, hello=hello):
                data = self._hello(client, hello)
                for one in frames:
                    data += one if isinstance(one, bytes) else one.encode(self._tags[client, one.subscription])
                self.broker.send(self.connections[client], data)
                if leaves:
                    self.broker.disconnect(self.connections[client])
            case _:
                assert_never(step)
        if isinstance(step, Send) and step.leaves:  # what it would still have got is for nobody
            self.broker.frames(self.connections.pop(step.client))
        self.broker.settle()
        if not isinstance(step, Send) or step.syncs:
            self._sync()
        return {client: self._observed(client) for client in self.connections}

    def _restart(self) -> None:
        for connection in self.connections.values():
            if self.broker.is_open(connection):
                self.broker.disconnect(connection)
        self.connections.clear()
        self.broker.settle()
        while not self.broker.view.idle:  # what nobody waits for is written at the next tick
            self.broker.tick()
            self.broker.settle()
        self.broker.restart()

    def _hello(self, client: int, other: bytes) -> bytes:
        """Connect, unless it is connected; returns what is to be sent first."""
        if client in self.connections and self.broker.is_open(self.connections[client]):
            return b""
        self.connections[client] = self.broker.open()
        hello = other or encode_hello(Hello("", "", self.script.client_ids[client], 0))
        if self.script.pipelines:
            return hello
        self.broker.send(self.connections[client], hello)
        self.broker.settle()
        return b""

    def _sync(self) -> None:
        """All that was said so far is on disk."""
        self._syncs += 1
        for connection in self.connections.values():
            if self.broker.is_open(connection):
                self.broker.send(connection, encode_request(Sync(SYNC_RECEIPT + self._syncs)))
        self.broker.settle()

    def _observed(self, client: int) -> list[Observation]:
        connection = self.connections[client]
        seen = [one for frame in self.broker.frames(connection) for one in self._observation(client, frame)]
        return [*seen, ("open" if self.broker.is_open(connection) else "closed",)]

    def _observation(self, client: int, frame: RawFrame) -> list[Observation]:
        kind = FrameType(frame.type)
        match kind:
            case FrameType.DELIVER:
                subscription, attempt, tag, message = decode_delivery(frame.payload)
                self._tags[client, subscription].append(tag)
                name = self._names.setdefault(tag, len(self._names))
                return [("deliver", subscription, attempt, name, message)]
            case FrameType.RECEIPTS:
                return [("accepted", receipt) for receipt in decode_receipts(frame.payload)]
            case FrameType.WELCOME:
                return [("welcome",)]
            case FrameType.RETAINED:
                return [("retained", frame.payload)]
            case _:
                fields = decode_fields(frame.payload)
                if "made_ms" in fields:  # by the clock of each
                    fields["made_ms"] = bool(fields["made_ms"])
                return [(kind.name.lower(), tuple(sorted(fields.items())))]


def compare(step: int, simulated: dict[int, list[Observation]], real: dict[int, list[Observation]]) -> None:
    for client in simulated:
        for one, other in zip_longest(simulated[client], real[client]):
            if one != other:
                raise AssertionError(f"step {step}, client {client}: simulated {_short(one)}, real {_short(other)}")


def _short(one: Observation | None) -> str:
    return repr(one)[:160]


def settings(seed: int) -> NodeSettings:
    rng = Random(seed)
    return NodeSettings(deliveries_max=rng.choice((2, 4)), bury_expired=rng.random() < 0.5)


def sizes(seed: int) -> Sizes:
    """Of the simulated broker: how much it writes at a time must not be seen from outside."""
    return Sizes(take_bytes=Random(seed).choice((1 << 20, 10_000, 100)), output_bytes_max=OUTPUT_BYTES_MAX)


def run(seed: int) -> Counter[str]:
    """Returns how many observations of each kind both agree on."""
    script = write_script(seed)
    brokers: list[PairedBroker] = [
        SimulatedBroker(settings(seed), sizes(seed)),
        SocketBroker(settings(seed), output_bytes_max=OUTPUT_BYTES_MAX),
    ]
    counts: Counter[str] = Counter(steps=len(script.steps))
    try:
        simulated, real = (Performance(script, broker) for broker in brokers)
        for number, step in enumerate(script.steps):
            seen = simulated.perform(step)
            compare(number, seen, real.perform(step))
            counts.update(one[0] for observations in seen.values() for one in observations)
    except Exception as error:
        error.add_note(f"seed {seed}; repeat with: python -m hardening.differential {seed}")
        raise
    finally:
        for broker in brokers:
            broker.stop()
    return counts
