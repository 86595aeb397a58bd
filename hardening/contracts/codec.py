"""Contract of codecs: the reference in `tidings.model.codec` and the kernel agree byte for byte.

Inputs are drawn from a generator the caller passes in: valid ones, valid ones with a few bytes changed, and noise. The
changed ones matter most, they get deep into a decoder before something is wrong.

>>> from random import Random
>>> from tidings.kernel import codec
>>> check_codec(codec, Random(1), rounds=20)
"""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from tidings.errors import CodecError
from tidings.model import codec as reference
from tidings.model.constraint import TEXT_OPS, Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.values import INT_MAX, INT_MIN, Untyped, Value

T = TypeVar("T")
LETTERS = "ab.c%_\\*>ä€😀\x00\x7f"
NAMES = ("a", "b", "price", "JMSXGroupID", "J", "ä", "n" * 255)
NUMBERS = (0, 1, -1, 63, 64, -65, 2**53 + 1, INT_MIN, INT_MAX)
FLOATS = (0.5, -0.0, 1.0, 2.0**53, 2.0**63, -(2.0**63), 1e300, float("inf"), float("-inf"), 5e-324)
BORDERS = (0, 1, 2, 3, 4, 5, 6, 9, 10, 0x1F, 0x2A, 0x2E, 0x40, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0xED, 0xF4, 0xFF)


class Codec(Protocol):
    """The face that is compared; modules have it."""

    def encode_message(self, message: Message) -> bytes: ...

    def decode_message(self, data: bytes) -> Message: ...

    def check_predicate(self, data: bytes) -> None: ...


def check_codec(codec: Codec, rng: Random, rounds: int = 1) -> None:
    """Both encode the same bytes, and give the same message or the same code and position for any bytes."""
    for _ in range(rounds):
        message = random_message(rng)
        encoded = codec.encode_message(message)
        assert encoded == reference.encode_message(message)
        assert codec.decode_message(encoded) == message
        predicate = reference.encode_predicate(random_predicate(rng))
        codec.check_predicate(predicate)
        for data in (mutated(rng, encoded), rng.randbytes(rng.randrange(60))):
            assert outcome(codec.decode_message, data) == outcome(reference.decode_message, data), data.hex()
        for data in (mutated(rng, predicate), rng.randbytes(rng.randrange(20))):
            refused = outcome(codec.check_predicate, data)
            accepted = isinstance(outcome(reference.decode_predicate, data), Predicate)
            assert refused == (None if accepted else outcome(reference.decode_predicate, data)), data.hex()


def outcome(decode: Callable[[bytes], T], data: bytes) -> T | tuple[str, int | None]:
    """The decoded value, or code and position of the error."""
    try:
        return decode(data)
    except CodecError as error:
        return error.code, error.position


def random_text(rng: Random, letters: str = LETTERS) -> str:
    return "".join(rng.choice(letters) for _ in range(rng.randrange(9)))


def random_value(rng: Random) -> Value:
    makers: tuple[Callable[[], Value], ...] = (
        lambda: rng.random() < 0.5,
        lambda: rng.choice(NUMBERS),
        lambda: rng.randrange(-300, 300),
        lambda: rng.choice(FLOATS),
        lambda: random_text(rng),
        lambda: random_text(rng, "ab"),
        lambda: rng.randbytes(rng.randrange(5)),
    )
    return rng.choice(makers)()


def random_attribute(rng: Random) -> Value:
    """A value, or untyped text, mostly of one that it reads as."""
    value = random_value(rng)
    return value if rng.random() < 0.7 or isinstance(value, bytes) else Untyped(value)


def random_destination(rng: Random) -> Destination:
    name = ".".join(rng.choice(("a", "ticks", "ä", "x y")) for _ in range(rng.randrange(1, 4)))
    return Destination(name, rng.random() < 0.3)


def random_message(rng: Random) -> Message:
    def maybe(value: T) -> T | None:
        return value if rng.random() < 0.3 else None

    many = rng.random() < 0.1  # enough for a decoder that treats few names and many in different ways
    names = [f"n{i}" for i in range(40)] if many else rng.sample(NAMES, rng.randrange(len(NAMES)))
    return Message(
        random_destination(rng),
        {name: random_attribute(rng) for name in names},
        rng.randbytes(rng.randrange(4)),
        MessageId.from_bytes(rng.randbytes(16)),
        persistent=rng.random() < 0.5,
        priority=rng.randrange(10),
        timestamp_ms=maybe(rng.choice((0, 1, INT_MAX))),
        expiration_ms=maybe(rng.choice((1, INT_MAX))),
        correlation_id=maybe(random_text(rng)),
        reply_to=maybe(random_destination(rng)),
        type=maybe(random_text(rng)),
        deliver_at_ms=maybe(rng.choice((1, INT_MAX))),
    )


def random_constraint(rng: Random) -> Constraint:
    op, name, negated = rng.choice(tuple(Op)), rng.choice((*NAMES, "@topic")), rng.random() < 0.3
    if op in (Op.EXISTS, Op.MISSING):
        return Constraint(name, op)
    if op is Op.IN:
        return Constraint(name, op, tuple(random_value(rng) for _ in range(rng.randrange(1, 5))), negated)
    return Constraint(name, op, random_text(rng) if op in TEXT_OPS else random_value(rng), negated)


def random_predicate(rng: Random) -> Predicate:
    rows = [[random_constraint(rng) for _ in range(rng.randrange(4))] for _ in range(rng.randrange(4))]
    return Predicate(rows, rng.randbytes(rng.choice((0, 0, 3))))


def mutated(rng: Random, data: bytes) -> bytes:
    """One to three small changes."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        span = slice(at, at + rng.randrange(1, 6))
        match rng.randrange(6):
            case 0:
                out[at : at + 1] = bytes((rng.choice(BORDERS),))
            case 1:
                out[at : at + 1] = bytes((rng.randrange(256),))
            case 2:
                del out[span]
            case 3:
                out[at:at] = out[span]
            case 4:
                out[at:at] = bytes((rng.choice(BORDERS),))
            case _:
                del out[at:]
    return bytes(out)
