"""Input of translated connections: each has its share of a turn, and nothing of it is lost or changes its order."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from tidings.broker.connections.gateway_turns import (
    PIECE_BYTES_MAX,
    PIECE_BYTES_MIN,
    SLICE_SECONDS,
    TURN_SECONDS,
    GatewayInput,
    GatewayTurns,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Taker:
    """A connection whose input takes a time for each byte."""

    def __init__(self, clock: Clock, byte_seconds: float) -> None:
        self.input, self.clock, self.byte_seconds = GatewayInput(clock), clock, byte_seconds
        self.got = b""

    def take_slice(self) -> bool:
        for piece in self.input.slice():
            self.got += piece
            self.clock.now += len(piece) * self.byte_seconds
        return bool(self.input)


def test_pieces_grow_while_they_are_quick() -> None:
    clock = Clock()
    input = GatewayInput(clock)
    input.add(bytes(1 << 20))
    sizes = [len(piece) for piece in input.slice()]
    assert sizes[:3] == [PIECE_BYTES_MIN, 2 * PIECE_BYTES_MIN, 4 * PIECE_BYTES_MIN]
    assert max(sizes) == PIECE_BYTES_MAX
    assert sum(sizes) == 1 << 20
    assert not input


def test_a_slice_ends_when_its_time_is_over() -> None:
    taker = Taker(Clock(), 1e-6)
    taker.input.add(bytes(100_000))
    assert taker.take_slice()
    assert SLICE_SECONDS <= taker.clock.now < SLICE_SECONDS + 1.1 * PIECE_BYTES_MIN * 1e-6
    assert len(taker.got) + len(taker.input) == 100_000


@pytest.mark.parametrize("seed", range(20))
def test_all_input_is_taken_in_order_and_no_turn_is_long(seed: int) -> None:
    rng, clock, turns = Random(seed), Clock(), list[float]()
    takers = [Taker(clock, rng.choice((1e-9, 1e-6, 2e-5))) for _ in range(rng.randrange(1, 8))]
    sent = [b""] * len(takers)

    async def run() -> None:
        line, loop = GatewayTurns(clock), asyncio.get_running_loop()
        for _ in range(30):
            number = rng.randrange(len(takers))
            data = rng.randbytes(rng.choice((10, 5000, 50_000)))
            sent[number] += data
            waits = bool(takers[number].input)
            takers[number].input.add(data)
            began = clock.now
            if not waits:
                line.arrived(takers[number])
            turns.append(clock.now - began)
            await turn(loop, clock, turns)
        while any(taker.input for taker in takers):
            await turn(loop, clock, turns)

    asyncio.run(run())
    assert [taker.got for taker in takers] == sent
    assert max(turns) < TURN_SECONDS + SLICE_SECONDS + PIECE_BYTES_MIN * 2e-5


async def turn(loop: asyncio.AbstractEventLoop, clock: Callable[[], float], turns: list[float]) -> None:
    began = clock()
    await asyncio.sleep(0)
    turns.append(clock() - began)


def test_what_is_left_can_be_taken_at_once() -> None:
    input = GatewayInput(Clock())
    input.add(b"abc")
    assert next(input.slice()) == b"abc"
    input.add(b"de")
    input.add(b"f")
    assert input.take_rest() == b"def"
    assert not input
    assert input.take_rest() == b""
