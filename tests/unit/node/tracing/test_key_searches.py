"""Searches for keys: every broker is asked, twice if need be, and what is missing is named."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError, LimitError, UsageError
from tidings.model.message_id import MessageId
from tidings.node.clients.session import Connection
from tidings.node.requests import Done, Failed, FindMessages
from tidings.node.tracing.key_searches import KeySearches
from tidings.node.tracing.searches import SEARCHES_MAX
from tidings.sim.broker import Everyone
from tidings.tracking.query.key_codec import FoundMessages, KeyAnswered, KeyQuestion, decode, encode, from_json
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery

MS = 1_762_000_000_000
numbers = st.integers(0, 2**48 - 1)
messages = st.builds(
    MessageId, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), numbers, st.integers(0, 2**16 - 1)
)


class Network:
    """Broker 1 of three; what it sends is kept."""

    def __init__(self, *gone: int) -> None:
        self.gone, self.sent = gone, list[tuple[int, bytes]]()
        self.inquiries: list[tuple[int, KeyQuery]] = []
        self.told: list[Done | Failed] = []
        self.searches = KeySearches(
            1,
            self,
            lambda _, number, query: self.inquiries.append((number, query)),
            lambda _, outcome: self.told.append(outcome),
        )
        self.searches.tick(MS)

    def topology(self) -> dict[int, tuple[int, ...]]:
        return {1: (2,), 2: (1, 3), 3: (2,)}

    def post(self, broker: int, letter: bytes) -> bool:
        if broker in self.gone:
            return False
        self.sent.append((broker, letter))
        return True

    def start(self, request: FindMessages) -> None:
        self.searches.start(MS, Connection(3, Everyone(), "c"), request)

    def answer(self, broker: int, answer: KeyAnswer) -> None:
        record = decode(next(letter for to, letter in self.sent if to == broker))
        self.searches.datagram(MS, broker, encode(KeyAnswered(record.number, answer)))

    def found(self) -> FoundMessages:
        [done] = self.told
        assert isinstance(done, Done)
        return from_json(str(done.fields["found"]))


def test_what_brokers_have_is_put_together() -> None:
    network = Network()
    network.start(FindMessages(9, "order", 5, count=3))
    mine, theirs = [[MessageId(broker, broker, MS + 10 * n + broker) for n in range(2)] for broker in (1, 2)]
    [(inquiry, query)] = network.inquiries
    network.answer(2, KeyAnswer(2, tuple(theirs), since_ms=5))
    network.answer(2, KeyAnswer(2, tuple(theirs), since_ms=7))  # asked once, answered twice
    network.answer(3, KeyAnswer(3, recorded=False, since_ms=99))
    assert network.told == []
    network.searches.resolved(MS, inquiry, KeyAnswer(1, tuple(mine), since_ms=3))
    found = network.found()
    assert found.messages == (theirs[0], mine[1], theirs[1])
    assert (found.more, found.since_ms, found.unasked, found.unrecorded) == (True, 5, (), (3,))
    assert query.count == 3


def test_a_broker_that_does_not_answer_is_asked_again_and_then_named() -> None:
    network = Network(3)
    network.start(FindMessages(9, "order", 5))
    network.searches.resolved(MS, network.inquiries[0][0], KeyAnswer(1))
    for step in range(1, 50):
        network.searches.tick(MS + 100 * step)
    assert [to for to, _ in network.sent] == [2, 2]
    assert network.found().unasked == (2, 3)


def test_a_question_of_another_broker_is_answered() -> None:
    network = Network()
    network.searches.datagram(MS, 3, encode(KeyQuestion(77, KeyQuery("order", (1, 2), 3, 4, 5))))
    network.searches.datagram(MS, 3, b"\6\xff")
    [(inquiry, query)] = network.inquiries
    assert query == KeyQuery("order", (1, 2), 3, 4, 5)
    answer = KeyAnswer(1, (MessageId(1, 1, MS),), True, 9)
    network.searches.resolved(MS, inquiry, answer)
    [(to, letter)] = network.sent
    assert (to, decode(letter)) == (3, KeyAnswered(77, answer))


def test_an_answer_in_the_name_of_another_broker_does_not_count() -> None:
    network = Network()
    network.start(FindMessages(9, "order", 5))
    network.answer(2, KeyAnswer(3, (MessageId(1, 1, MS),)))
    network.answer(2, KeyAnswer(2))
    network.answer(3, KeyAnswer(3))
    network.searches.resolved(MS, network.inquiries[0][0], KeyAnswer(1))
    assert network.found().messages == ()


@pytest.mark.parametrize(("name", "count"), [("", 1), ("x" * 5000, 1), ("order", 0), ("order", 1001)])
def test_a_wrong_search_is_refused(name: str, count: int) -> None:
    with pytest.raises(UsageError, match="E_TRACE_KEY"):
        Network().start(FindMessages(9, name, 5, count=count))


def test_searches_are_bounded() -> None:
    network = Network()
    for _ in range(SEARCHES_MAX):
        network.start(FindMessages(9, "order", 5))
    with pytest.raises(LimitError, match="E_TRACES"):
        network.start(FindMessages(9, "order", 5))


questions = st.builds(
    KeyQuery,
    st.text(st.characters(codec="utf-8"), max_size=50),
    st.lists(st.integers(0, 2**64 - 1), max_size=8).map(tuple),
    numbers,
    numbers,
    st.integers(0, 1000),
)
answers = st.builds(
    KeyAnswer,
    st.integers(0, 2**32 - 1),
    st.lists(messages, max_size=5).map(tuple),
    st.booleans(),
    numbers,
    st.booleans(),
)
records = st.one_of(
    st.builds(KeyQuestion, st.integers(0, 2**64 - 1), questions),
    st.builds(KeyAnswered, st.integers(0, 2**64 - 1), answers),
)


@given(records)
def test_records_are_read_as_they_were_written(record: KeyQuestion | KeyAnswered) -> None:
    assert decode(encode(record)) == record


@given(st.binary(max_size=100), records, st.integers(0, 100))
def test_what_is_damaged_is_refused_or_another_record(noise: bytes, record: KeyQuestion | KeyAnswered, at: int) -> None:
    data = encode(record)
    for broken in (noise, data[:at] + noise[:1] + data[at + 1 :]):
        read = None
        with suppress(CodecError):
            read = decode(broken)
        assert read is None or decode(encode(read)) == read


def test_what_is_not_a_result_is_refused() -> None:
    for text in ("", "{}", json.dumps({"messages": ["x"], "more": 1, "since_ms": 0, "unasked": [], "unrecorded": []})):
        with pytest.raises(CodecError, match="E_TRACE_REPORT"):
            from_json(text)
