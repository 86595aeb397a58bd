"""The cost of one message at the limits of docs/limits.md, in milliseconds of CPU time: `python -m bench.limits`.

For decoding, matching and encoding, the worst inputs that the limits let in. It takes about half a minute, writes
results/limits.json, and `python -m hardening.limits_table docs/limits.md` puts the table into the page.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from bench.harness import best_seconds, save, table
from tidings.kernel.codec import MessageBatch, encode_messages
from tidings.kernel.encoder import MessageEncoder
from tidings.matching.indexed import IndexedMatcher
from tidings.model.destination import Destination
from tidings.model.message import PROPERTIES_MAX, Message
from tidings.model.selector import Selector
from tidings.model.values import Untyped, Value

MEGABYTE, HEADER_BYTES, FRAME_BYTES = 1 << 20, 60_000, 16 << 20
SAME, MIXED = "a" * MEGABYTE + "b", "".join(Random(1).choices("abcdefgh", k=MEGABYTE))
LONG_RUN, SHORT_RUN = "a_" * 2046, "a_" * 31


@dataclass(frozen=True, slots=True)
class Case:
    what: str
    selectors: tuple[str, ...]
    properties: dict[str, Value]


def random_words(count: int, sizes: range) -> Iterable[str]:
    rng = Random(2)
    return ("".join(rng.choices("abcdefgh", k=rng.choice(sizes))) for _ in range(count))


def many(count: int, value: Callable[[int], Value]) -> dict[str, Value]:
    return {f"p{number}": value(number) for number in range(count)}


MATCHING = (
    Case("LIKE of 64 elements, a property of 1 MiB", (f"a LIKE '%{SHORT_RUN}b%'",), {"a": SAME}),
    Case("LIKE of 4096 characters, a property of 1 MiB", (f"a LIKE '%{LONG_RUN}b%'",), {"a": SAME}),
    Case("the same, negated", (f"NOT (a LIKE '%{LONG_RUN}b%')",), {"a": SAME}),
    Case(
        "LIKE of 4096 characters, a STOMP header of 60 kB",
        (f"a LIKE '%{LONG_RUN}b%'",),
        {"a": Untyped(SAME[:HEADER_BYTES])},
    ),
    Case("100 long substrings, 1 MiB", tuple(f"a LIKE '%{'a' * (9 + n)}z%'" for n in range(100)), {"a": SAME}),
    Case("10,000 LIKEs, 1 MiB", tuple(f"a LIKE '%{SHORT_RUN}{n}%'" for n in range(10_000)), {"a": SAME}),
    Case("10,000 LIKEs, 250 bytes", tuple(f"a LIKE '%{SHORT_RUN}{n}%'" for n in range(10_000)), {"a": SAME[:250]}),
    Case(
        "10,000 short substrings, 1 MiB",
        tuple(f"a LIKE '%{one}%'" for one in random_words(10_000, range(1, 9))),
        {"a": MIXED},
    ),
    Case(
        "10,000 short substrings, 15 MiB",
        tuple(f"a LIKE '%{one}%'" for one in random_words(10_000, range(1, 9))),
        {"a": MIXED * 15},
    ),
    Case("10,000 negated LIKEs, 1 MiB", tuple(f"NOT (a LIKE '%{SHORT_RUN}{n}%')" for n in range(10_000)), {"a": SAME}),
    Case("a selector of 8,000 words and signs", (" + ".join(["b"] * 4000) + " = 1",), {"b": 1}),
    Case("1000 of these", (" + ".join(["b"] * 4000) + " = 1",) * 1000, {"b": 1}),
    Case("2000 comparisons of 1 MiB", (" OR ".join(["a <> b"] * 2000) + " OR a + 1 = 2",), {"a": SAME, "b": SAME}),
    Case(
        "4000 names in a selector, 65,530 properties",
        ("+".join(f"p{n}" for n in range(4000)) + " = p65529",),
        many(PROPERTIES_MAX, int),
    ),
    Case(
        "65,530 properties, each with a filter",
        tuple(f"p{n} = 'x'" for n in range(PROPERTIES_MAX)),
        many(PROPERTIES_MAX, str),
    ),
)
CODING: dict[str, dict[str, Value]] = {
    "a property of 1 MiB": {"a": MIXED},
    "a property of 15 MiB": {"a": MIXED * 15},
    "65,530 numbers": many(PROPERTIES_MAX, int),
    "65,530 texts": many(PROPERTIES_MAX, str),
    "1000 untyped headers": many(1000, lambda number: Untyped("1" * 60)),
    "31 KiB of text, the most that is encoded": {"a": MIXED[: 31 << 10]},
}


def message_of(properties: dict[str, Value]) -> bytes:
    return encode_messages([Message(Destination("t"), properties)])


def matching_row(case: Case) -> dict[str, object]:
    matcher = IndexedMatcher()
    predicates = {selector: Selector(selector).predicate for selector in set(case.selectors)}
    for number, selector in enumerate(case.selectors):
        matcher.add(number, predicates[selector])
    batch = MessageBatch.from_messages(message_of(case.properties))
    seconds = best_seconds(lambda: matcher.match(batch), repetitions=1)  # the next would find the values known
    return {"what": case.what, "milliseconds": seconds * 1e3, "steps": matcher.steps, "given_up": matcher.overruns}


def coding_row(what: str, properties: dict[str, Value]) -> dict[str, object]:
    data, encoder = message_of(properties), MessageEncoder(graded=True)
    batch = MessageBatch.from_messages(data)
    decoding = best_seconds(lambda: MessageBatch.from_messages(data), repetitions=3)
    encoding = best_seconds(lambda: encoder.vectors(batch), repetitions=3)
    return {"what": what, "decode_milliseconds": decoding * 1e3, "encode_milliseconds": encoding * 1e3}


def main() -> None:
    matching = [matching_row(case) for case in MATCHING]
    coding = [coding_row(what, properties) for what, properties in CODING.items()]
    table("matching one message", list(matching[0]), [list(row.values()) for row in matching])
    table("decoding and encoding one message", list(coding[0]), [list(row.values()) for row in coding])
    print(save("limits", {"matching": matching, "coding": coding}))


if __name__ == "__main__":
    main()
