"""A neighbour that lies: in simulated networks of whole brokers, part of what one of them sends is changed on its way.

It is a neighbour that has proved itself, so what it says is heard: it may mislead the others' tables, as any broker of
a network may. It may not make them fail or loop. An input is one piece of a stream that was changed.
"""

import time
from dataclasses import replace
from random import Random
from typing import Any

from hardening.fuzz.mutate import mutated
from hardening.fuzz.traffic import frames
from hardening.simulate.choices import OVERLAYS, SCHEMES, TRACKINGS, draw
from hardening.simulate.world import START_MS, World
from tidings.kernel.forwarder import FRAME_HEADER_BYTES
from tidings.overlay import effects as fx
from tidings.sim.broker import SimBroker

LIE_SHARES = (0.2, 0.5, 0.9)  # of what a liar sends: one that lies seldom keeps its links, one that lies much says more
LYING_MS = 20_000.0
STEP_MS = 500.0
STEP_SECONDS_MAX = 20.0  # of work for half a second of the network; many times what it takes
GREETING, WELCOME = 1, 2


class Liar(SimBroker):
    """A broker of which some output is changed."""

    rng: Random
    share: float
    lies = 0
    said: list[bytes]

    def start(self, now: float) -> list[Any]:
        return [self._changed(effect) for effect in super().start(now)]

    def step(self, now: float, told: fx.Input) -> list[Any]:
        return [self._changed(effect) for effect in super().step(now, told)]

    def _changed(self, effect: Any) -> Any:
        if not isinstance(effect, fx.Transmit):
            return effect
        data = effect.message
        assert isinstance(data, bytes)
        self.said = [*self.said[-50:], *(payload for _, payload in frames(data))]
        if self.rng.random() > self.share or _greets(data):
            return effect
        lie: Any = self._lie(data)  # bytes, where machines have records
        self.lies += lie != data
        return replace(effect, message=lie)

    def _lie(self, data: bytes) -> bytes:
        """Mostly frames that are whole, with other payloads: these get further."""
        if self.rng.random() < 0.2:
            return mutated(self.rng, data, self.said)
        out = bytearray()
        for type, payload in frames(data):
            changed = mutated(self.rng, payload, self.said) if self.rng.random() < 0.5 else payload
            out += len(changed).to_bytes(4, "little") + bytes((type, 0, 0, 0)) + changed
        return bytes(out)


def _greets(data: bytes) -> bool:
    """Without greetings there are no links."""
    return len(data) > FRAME_HEADER_BYTES and data[FRAME_HEADER_BYTES] in (GREETING, WELCOME)


def run(seed: int) -> int:
    """One network; returns how many pieces were changed."""
    rng = Random(f"liar {seed}")
    choices = draw(seed, scheme=rng.choice(list(SCHEMES)), overlay=rng.choice(list(OVERLAYS)))
    choices = replace(choices, tracking=rng.choice(list(TRACKINGS)))
    world = World(choices)
    world.people()
    world.until(world.now + START_MS)
    liar, share = str(rng.choice(world.routers)), rng.choice(LIE_SHARES)
    process = world.brokers.driver.processes[liar]
    make = process.make

    def lying(life: int) -> SimBroker:
        made = make(life)
        assert isinstance(made, SimBroker)
        made.__class__ = Liar
        assert isinstance(made, Liar)
        made.rng, made.share, made.said = rng, share, [b""]
        return made

    world.brokers.driver.crash(liar)
    process.make = lying
    world.brokers.driver.start(liar)
    end = world.now + LYING_MS
    while world.now < end:
        began = time.thread_time()
        for act in (world.publish, world.publish, world.change, world.transact):
            act()
        for consumer in world.consumers:
            consumer.work()
        world.until(world.now + STEP_MS)
        took = time.thread_time() - began
        assert took < STEP_SECONDS_MAX, f"half a second took {took:.0f} s of work"
    assert isinstance(process.machine, Liar)
    return process.machine.lies
