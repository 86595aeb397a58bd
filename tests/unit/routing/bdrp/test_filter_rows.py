"""Exact filters as rows: what the kernel sends by them, what they cost, and which encoded rows make them needless."""

from random import Random

import pytest
from hardening.contracts.matcher import random_message, random_predicate
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError, TidingsError
from tidings.kernel.codec import MessageBatch, encode_message
from tidings.kernel.forwarder import Forwarder, NetworkShape
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.model.selector.program import run
from tidings.model.values import Value
from tidings.routing.bdrp import filter_rows
from tidings.routing.bdrp.advertisement import Change, decode_change, encode_change
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.local_interests import LocalInterests

ENCODINGS = {
    "graded": InterestEncoding(Encoding(grade=GradedGrade()), vectors=False, exact=True),
    "elements": InterestEncoding(vectors=False, exact=True),
    "vectors": InterestEncoding(exact=True),
    "keyed": InterestEncoding(Encoding(key=0xC0FFEE, grade=GradedGrade()), vectors=False, exact=True),
}
GRADED = ENCODINGS["graded"]


class Entry:
    """A broker where messages enter, and which of the others it sends them to."""

    def __init__(self, encoding: InterestEncoding) -> None:
        self.encoding, self.forwarder = encoding, Forwarder()
        plain = encoding.encoding
        shape = NetworkShape(1, vectors=encoding.vectors, graded=encoding.graded, key=plain.key)
        self.forwarder.join(shape)
        self.links: dict[int, int] = {}

    def interest(self, router: int, added: set[bytes], removed: set[bytes] = frozenset()) -> None:  # type: ignore[assignment]
        if router not in self.links:
            self.links[router] = self.forwarder.open()
            self.forwarder.link(self.links[router], router)
            self.forwarder.routes({one: one for one in self.links})
        opened = self.encoding.opened
        self.forwarder.interest(router, set(map(opened, added)), set(map(opened, removed)))

    def enter(self, message: bytes) -> set[int]:
        self.forwarder.enter(message, 0, 0)
        return {router for router, link in self.links.items() if self.forwarder.take(link, 1 << 24, 0)}


def wanted(predicate: Predicate, message: bytes) -> bool:
    return predicate.matches(MessageBatch.from_messages(message_list(message)).attributes(0), run)


def message_list(message: bytes) -> bytes:
    return len(message).to_bytes(4, "little") + message


@pytest.mark.parametrize("name", ["graded", "elements", "keyed"])
@given(seed=st.integers(0, 2**32))
def test_messages_go_exactly_where_they_are_wanted(name: str, seed: int) -> None:
    """Also by encoded rows: only what encoding loses nothing of is encoded."""
    rng, entry = Random(seed), Entry(ENCODINGS[name])
    interests = {router: LocalInterests(ENCODINGS[name]) for router in (2, 3, 4)}
    known: dict[int, list[Predicate]] = {router: [] for router in interests}
    for _ in range(4):
        for router, local in interests.items():
            before = local.rows()
            if known[router] and rng.random() < 0.3:
                local.remove(encode_predicate(known[router].pop(rng.randrange(len(known[router])))))
            known[router].append(random_predicate(rng))
            local.add(encode_predicate(known[router][-1]))
            entry.interest(router, local.rows() - before, before - local.rows())
        message = encode_message(random_message(rng))
        if message and not random_is_queue(message):
            assert entry.enter(message) == {
                router for router, predicates in known.items() if any(wanted(one, message) for one in predicates)
            }


def random_is_queue(message: bytes) -> bool:
    return "@queue" in MessageBatch.from_messages(message_list(message)).attributes(0)


def symbols(count: int) -> str:
    return ", ".join(f"'S{number:04}'" for number in range(count))


CLIFFS = {
    **{f"IN with {count} values": f"sym IN ({symbols(count)})" for count in (16, 17, 100, 1000)},
    "250 disjuncts": " OR ".join(f"(sym = 'S{n:04}' AND price > {n})" for n in range(250)),
    "a range of strings": "sym >= 'S9990'",
    "arithmetic": "price * 2 > 199 AND qty = 3",
    "an equality and two ranges": "sym = 'S0001' AND price > 31 AND qty BETWEEN 3 AND 17",
    "a long list of prefixes": " OR ".join(f"sym LIKE 'T{n:03}%'" for n in range(100)),
}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("selector", CLIFFS.values(), ids=CLIFFS)
def test_no_subscription_makes_a_broker_ask_for_everything(selector: str, encoding: InterestEncoding) -> None:
    parsed, rng = Selector(selector), Random(1)
    rows = encoding.rows(encode_predicate(parsed.predicate))
    exact = len(encode_predicate(parsed.predicate))
    size = len(encode_change(Change(tuple(rows)), encoding.row_bytes))
    # Four counts, the filter's length, and with a key the mark by which it was sealed.
    assert size <= exact + 7 + filter_rows.MARK_BYTES * (encoding.encoding.key != 0)
    entry = Entry(encoding)
    entry.interest(2, rows)
    in_vain = 0
    for _ in range(2000):
        attributes: dict[str, Value] = {
            "sym": f"S{rng.randrange(10_000):04}",
            "price": rng.randrange(100),
            "qty": rng.randrange(20),
        }
        goes = bool(entry.enter(encode_message(Message(Destination("t"), attributes))))
        assert goes or not parsed.matches(attributes), "lost"
        in_vain += goes and not parsed.matches(attributes)
    assert in_vain == 0


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_filters_and_encoded_rows_travel_together(encoding: InterestEncoding) -> None:
    local = LocalInterests(encoding)
    for selector in (f"sym = '{'A' * 600}'", "price > 3", "sym >= 'S'", "price * 2 > qty"):
        local.add(encode_predicate(Selector(selector).predicate))
    change = Change(tuple(sorted(local.rows())), tuple(sorted(local.rows())[:1]))
    decoded = decode_change(encode_change(change, encoding.row_bytes), encoding.row_bytes)
    assert (set(decoded.added), set(decoded.removed)) == (set(change.added), set(change.removed))
    assert {filter_rows.is_filter(row) for row in change.added} == {True, False}


def test_a_wider_encoded_row_makes_a_filter_needless_until_it_goes() -> None:
    local = LocalInterests(GRADED)
    topic = Constraint("@topic", Op.TOPIC, "orders.>")
    narrow = Predicate([[topic, Constraint("price", Op.GT, 20)], [topic, Constraint("qty", Op.LT, 5)]])
    local.add(encode_predicate(narrow))
    assert all(map(filter_rows.is_filter, local.rows()))
    local.add(encode_predicate(Predicate.of(topic)))
    assert local.rows() == GRADED.rows(encode_predicate(Predicate.of(topic)))
    local.remove(encode_predicate(Predicate.of(topic)))
    assert local.rows() == GRADED.rows(encode_predicate(narrow))


def test_only_those_with_the_key_read_filters() -> None:
    predicate = encode_predicate(Selector("diagnosis LIKE 'F%' AND age > 17").predicate)
    row = filter_rows.sealed(predicate, 7)
    assert b"diagnosis" not in row
    assert filter_rows.opened(row, 7) == predicate
    with pytest.raises(CodecError, match="not sealed under this broker's encoding key"):
        filter_rows.opened(row, 8)


def test_an_invalid_filter_is_refused_and_changes_nothing() -> None:
    entry = Entry(GRADED)
    good = GRADED.rows(encode_predicate(Selector("price > 20").predicate))
    entry.interest(2, good)
    for bad in (b"\x00\xff\xff", b"\x02abc", b"\x01abcd"):
        with pytest.raises(TidingsError):
            entry.interest(2, {bad}, good)
    assert entry.enter(encode_message(Message(Destination("t"), {"price": 21}))) == {2}


def test_everything_encoded_as_in_the_paper_if_so_configured() -> None:
    encoding = InterestEncoding(Encoding(grade=GradedGrade()), vectors=False)
    assert not any(
        map(filter_rows.is_filter, encoding.rows(encode_predicate(Selector(CLIFFS["a range of strings"]).predicate)))
    )
