from collections import Counter
from collections.abc import Collection, Mapping
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from tidings.matching.encoding import Encoding
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.routing.bdrp.advertisement import Change, encode_advertisement
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.parts import ROW_BYTES_MORE, topic_of
from tidings.routing.bdrp.scheme import Bdrp, BdrpOptions
from tidings.routing.control.codec import encode
from tidings.routing.control.flood import Flood
from tidings.routing.control.messages import FloodAck, FloodItem, SchemeMessage, Topic
from tidings.routing.effects import Deliver, Effect, Report, Route, Send, SetTimer, UnicastTable

ENCODING = InterestEncoding()
Steps: TypeAlias = list[list[tuple[bool, int]]]


class Recorded:
    """Tables as plain dictionaries, with rows counted."""

    def __init__(self) -> None:
        self.counted: dict[int, Counter[bytes]] = {}
        self.next_hops: dict[int, int] = {}

    @property
    def rows(self) -> dict[int, set[bytes]]:
        return {router: set(rows) for router, rows in self.counted.items()}

    def interest(self, router: int, added: Collection[bytes], removed: Collection[bytes]) -> None:
        rows = self.counted.setdefault(router, Counter())
        rows.update(added)
        rows.subtract(removed)
        assert min(rows.values(), default=0) >= 0
        self.counted[router] = +rows

    def forget(self, router: int) -> None:
        del self.counted[router]

    def routes(self, next_hops: Mapping[int, int]) -> None:
        self.next_hops = dict(next_hops)


def make(options: BdrpOptions | None = None) -> tuple[Bdrp, Recorded]:
    flood, tables = Flood(1, incarnation=1), Recorded()
    flood.link_up(0.0, 2)
    return Bdrp(flood, ENCODING, tables, options), tables


def stock(name: str) -> bytes:
    return encode_predicate(Predicate.of(Constraint("stock", Op.EQ, name)))


def items(effects: list[Effect]) -> list[FloodItem]:
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    return [message for message in sent if isinstance(message, FloodItem)]


def payload(*names: str, removed: tuple[str, ...] = ()) -> bytes:
    def rows(of: tuple[str, ...]) -> tuple[bytes, ...]:
        return tuple(row for name in of for row in ENCODING.rows(stock(name)))

    return encode_advertisement(Change(rows(names), rows(removed)), ENCODING.form, ENCODING.row_bytes, life=1)


def test_a_burst_of_subscriptions_is_one_advertisement() -> None:
    scheme, _ = make()
    said = scheme.start(0.0)
    for name in "abc":
        said += scheme.subscribe(5.0, stock(name))
    assert said == [SetTimer("scheme", 50.0)]
    [item] = items(scheme.tick(50.0))
    assert (item.topic, item.full, item.payload) == (Topic.PREDICATES, True, payload("a", "b", "c"))


def test_later_changes_travel_as_differences() -> None:
    scheme, _ = make()
    for name in "abcdef":
        scheme.subscribe(0.0, stock(name))
    scheme.tick(50.0)
    scheme.subscribe(60.0, stock("g"))
    scheme.unsubscribe(60.0, stock("a"))
    [item] = items(scheme.tick(110.0))
    assert (item.full, item.payload) == (False, payload("g", removed=("a",)))


def test_what_cancels_out_is_not_said() -> None:
    scheme, _ = make()
    scheme.subscribe(0.0, stock("a"))
    scheme.tick(50.0)
    scheme.subscribe(60.0, stock("a"))
    scheme.subscribe(60.0, stock("b"))
    scheme.unsubscribe(61.0, stock("b"))
    assert items(scheme.tick(110.0)) == []


def test_interests_of_others_fill_the_table() -> None:
    scheme, tables = make()
    scheme.learn(0.0, Deliver(Topic.PREDICATES, 7, True, payload("a", "b")))
    scheme.learn(1.0, Deliver(Topic.PREDICATES, 7, False, payload("c", removed=("a",))))
    expected = ENCODING.rows(stock("b")) | ENCODING.rows(stock("c"))
    assert tables.rows == {7: expected} == dict(scheme.predicates)
    scheme.learn(2.0, Deliver(Topic.PREDICATES, 7, True, payload("a")))
    assert tables.rows == {7: ENCODING.rows(stock("a"))}


def test_a_vanished_router_is_kept_for_a_while() -> None:
    scheme, tables = make(BdrpOptions(retain_ms=1000))
    scheme.learn(0.0, Deliver(Topic.PREDICATES, 7, True, payload("a")))
    assert scheme.learn(10.0, Deliver(Topic.PREDICATES, 7, True, None)) == [SetTimer("scheme", 1010.0)]
    scheme.tick(1000.0)
    assert 7 in tables.rows
    scheme.learn(1005.0, Deliver(Topic.PREDICATES, 7, True, payload("a")))
    scheme.tick(1100.0)
    assert 7 in tables.rows
    scheme.learn(2000.0, Deliver(Topic.PREDICATES, 7, True, None))
    scheme.tick(3000.0)
    assert tables.rows == {}


def test_nonsense_is_reported_and_counts_as_asking_for_everything() -> None:
    """To forget the router would be to discard messages that are stored for it."""
    scheme, tables = make()
    scheme.learn(0.0, Deliver(Topic.PREDICATES, 7, True, payload("a")))
    [report] = scheme.learn(1.0, Deliver(Topic.PREDICATES, 7, False, b"\xff"))
    assert isinstance(report, Report)
    assert report.code == "E_PREDICATES_PAYLOAD"
    assert tables.rows == {7: ENCODING.everything()}
    [report] = scheme.learn(1.0, (2, SchemeMessage(9, b"")))
    assert isinstance(report, Report)


def test_other_topics_and_routes() -> None:
    scheme, tables = make()
    assert scheme.learn(0.0, Deliver(200, 7, True, b"whatever")) == []
    scheme.routed(0.0, UnicastTable({7: Route(2, 5)}))
    assert tables.next_hops == {7: 2}


def test_who_wants_more_than_can_be_told_asks_for_everything() -> None:
    scheme, _ = make(BdrpOptions(first_bytes_max=2 * (ENCODING.row_bytes + ROW_BYTES_MORE)))
    scheme.start(0.0)
    scheme.tick(50.0)
    said = []
    for number, name in enumerate("abcd"):
        scheme.subscribe(100.0 + 100 * number, stock(name))
        said.append(scheme.tick(150.0 + 100 * number))
    everything = Change(tuple(ENCODING.rows(encode_predicate(Predicate.of()))))
    assert [one.payload for one in items(said[2])] == [
        encode_advertisement(everything, ENCODING.form, ENCODING.row_bytes, life=1)
    ]
    assert [isinstance(one, Report) for one in said[2]].count(True) == 1
    assert said[3] == [], "all is asked for already"
    scheme.unsubscribe(500.0, stock("a"))
    scheme.tick(550.0)
    scheme.unsubscribe(600.0, stock("b"))
    (item,) = items(scheme.tick(650.0))
    assert (item.full, item.payload) == (True, payload("c", "d"))


EXACT = InterestEncoding(exact=True)
TOPIC = Constraint("@topic", Op.TOPIC, "warehouse.events")
SMALL = BdrpOptions(part_bytes_max=400, parts_max=4)


def filter_of(number: int) -> bytes:
    return encode_predicate(Predicate.of(Constraint("stock", Op.EQ, "XYZ"), Constraint("price", Op.GT, number)))


def pair(options: BdrpOptions) -> tuple[Bdrp, Bdrp, Recorded]:
    """A scheme that advertises, and one that hears it with its tables."""
    flood, tables = Flood(1, incarnation=1), Recorded()
    flood.link_up(0.0, 2)
    hearing = Bdrp(Flood(2, incarnation=1), EXACT, tables)
    return Bdrp(flood, EXACT, Recorded(), options), hearing, tables


def hear(hearing: Bdrp, said: list[Effect]) -> list[FloodItem]:
    heard = items(said)
    for one in heard:
        hearing.learn(0.0, Deliver(one.topic, 1, one.full, one.payload))
    return heard


def test_many_filters_are_advertised_in_parts_of_bounded_size() -> None:
    scheme, hearing, tables = pair(SMALL)
    for number in range(20):
        scheme.subscribe(0.0, filter_of(number))
    heard = hear(hearing, scheme.tick(50.0))
    assert len({one.topic for one in heard}) == len(heard) > 1
    assert tables.rows[1] == scheme.local_rows() == set(hearing.predicates[1])
    assert hearing.counts()["rows"] == hearing.counts()["filters"] == len(hearing.predicates[1]) == 20
    assert (scheme.counts()["advertised"], scheme.counts()["parts"]) == (20, len(heard))
    assert scheme.counts()["advertised_bytes"] == size_of(scheme.local_rows())
    scheme.unsubscribe(60.0, filter_of(3))
    scheme.subscribe(60.0, filter_of(100))
    heard = hear(hearing, scheme.tick(110.0))
    assert len(heard) == 1, "the new one has the room of the old one"
    assert not heard[0].full
    assert tables.rows[1] == scheme.local_rows() == hearing.predicates[1]


@given(st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=30), max_size=12))
def test_whatever_comes_and_goes_others_know_a_superset_and_mostly_the_same(steps: Steps) -> None:
    scheme, hearing, tables = pair(SMALL)
    hear(hearing, scheme.tick(50.0) if scheme.start(0.0) else [])
    there: Counter[int] = Counter()
    now = 100.0
    for step in steps:
        for comes, number in step:
            if comes:
                scheme.subscribe(now, filter_of(number))
            elif there[number]:
                scheme.unsubscribe(now, filter_of(number))
            there[number] += comes or -(there[number] > 0)
        hear(hearing, scheme.tick(now + 50))
        now += 100
        if size_of(scheme.local_rows()) < SMALL.part_bytes_max * SMALL.parts_max // 2:
            assert tables.rows[1] == scheme.local_rows()
        else:
            assert tables.rows[1] in (scheme.local_rows(), EXACT.everything())
        assert tables.rows[1] == hearing.predicates[1]


def size_of(rows: set[bytes]) -> int:
    return sum(len(one) + ROW_BYTES_MORE for one in rows)


def test_links_carry_at_most_the_exact_filters_however_they_arrive() -> None:
    """Compressed, and sent whole again only when differences take as many bytes."""
    flood = Flood(1, incarnation=1)
    flood.link_up(0.0, 2)
    scheme, exact, carried, now = Bdrp(flood, EXACT, Recorded()), 0, 0, 0.0
    for number in range(3000):
        name = f"device-{number * 7919 % 1009}"
        one = encode_predicate(Predicate.of(Constraint("name", Op.EQ, name), Constraint("price", Op.GT, number), TOPIC))
        exact += len(one)
        scheme.subscribe(now, one)
        if number % 30 == 29:
            now += 60.0
            for item in items(scheme.tick(now)):
                carried += len(encode(item))
                flood.receive(now, 2, FloodAck(item.topic, 1, item.version))
    assert carried < exact


def test_parts_of_an_earlier_life_go_with_the_first_of_the_next() -> None:
    scheme, hearing, tables = pair(SMALL)
    for number in range(20):
        scheme.subscribe(0.0, filter_of(number))
    hear(hearing, scheme.tick(50.0))
    flood = Flood(1, incarnation=9)
    flood.link_up(0.0, 2)
    again = Bdrp(flood, EXACT, Recorded(), SMALL)
    for number in (19, 7):
        again.subscribe(0.0, filter_of(number))
    hear(hearing, again.tick(50.0))
    assert tables.rows[1] == again.local_rows() == hearing.predicates[1]


def test_a_late_first_part_does_not_end_newer_ones() -> None:
    scheme, hearing, tables = pair(SMALL)
    scheme.subscribe(0.0, filter_of(0))
    first = items(scheme.tick(50.0))
    for number in range(1, 20):
        scheme.subscribe(60.0, filter_of(number))
    later = items(scheme.tick(110.0))
    for one in (*later[1:], *first, *later[:1]):
        hearing.learn(0.0, Deliver(one.topic, 1, one.full, one.payload))
    assert tables.rows[1] == scheme.local_rows()


def test_a_foreign_part_asks_for_everything_by_a_filter() -> None:
    scheme, hearing, tables = pair(SMALL)
    scheme.subscribe(0.0, filter_of(0))
    hear(hearing, scheme.tick(50.0))
    strange = encode_advertisement(Change((b"\0filter",)), bytes(8), 0, 1, 2)
    hearing.learn(0.0, Deliver(topic_of(1), 1, True, strange))
    assert tables.rows[1] == scheme.local_rows() | EXACT.everything(1)
    assert hearing.foreign == {1}
    hearing.learn(0.0, Deliver(topic_of(1), 1, True, encode_advertisement(Change(), EXACT.form, 32, 1, 2)))
    assert (tables.rows[1], hearing.foreign) == (scheme.local_rows(), frozenset())


OTHER = InterestEncoding(Encoding(bits=ENCODING.encoding.bits, hashes=ENCODING.encoding.hashes, key=99))


def foreign(*names: str, removed: tuple[str, ...] = ()) -> bytes:
    added, gone = (tuple(row for name in of for row in OTHER.rows(stock(name))) for of in (names, removed))
    return encode_advertisement(Change(added, gone), OTHER.form, OTHER.row_bytes)


def codes(effects: list[Effect]) -> list[str]:
    return [effect.code for effect in effects if isinstance(effect, Report)]


def test_rows_of_another_form_ask_for_everything_until_heard_in_ones_own() -> None:
    scheme, tables = make()
    everything = ENCODING.everything()
    assert codes(scheme.learn(0.0, Deliver(Topic.PREDICATES, 7, True, foreign("a")))) == ["E_ENCODING_DIFFERS"]
    assert (tables.rows, set(scheme.foreign), scheme.counts()["foreign"]) == ({7: everything}, {7}, 1)
    assert scheme.learn(1.0, Deliver(Topic.PREDICATES, 7, False, foreign("b", removed=("a",)))) == []
    assert tables.rows == {7: everything}
    assert codes(scheme.learn(2.0, Deliver(Topic.PREDICATES, 7, True, payload("b")))) == ["ENCODING_AGREED"]
    assert (tables.rows, len(scheme.foreign)) == ({7: ENCODING.rows(stock("b"))}, 0)


def test_no_rows_need_no_judgement_and_a_foreign_difference_is_not_applied() -> None:
    scheme, tables = make()
    assert scheme.learn(0.0, Deliver(Topic.PREDICATES, 7, True, foreign())) == []
    assert tables.rows == {7: set()}
    assert codes(scheme.learn(1.0, Deliver(Topic.PREDICATES, 7, False, foreign("a")))) == ["E_ENCODING_DIFFERS"]
    assert scheme.learn(2.0, Deliver(Topic.PREDICATES, 7, False, payload("a"))) == [], "it continues foreign rows"
    assert tables.rows == {7: ENCODING.everything()}
    scheme.learn(3.0, Deliver(Topic.PREDICATES, 7, True, None))
    scheme.tick(3.0 + scheme.options.retain_ms)
    assert not scheme.foreign
