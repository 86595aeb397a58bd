from collections.abc import Collection, Mapping

import pytest

from tidings.matching.encoding import Encoding
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.routing.bdrp import scheme as bdrp
from tidings.routing.bdrp.interests import Change, InterestEncoding, encode_advertisement
from tidings.routing.bdrp.scheme import Bdrp, BdrpOptions
from tidings.routing.control.flood import Flood
from tidings.routing.control.messages import FloodItem, SchemeMessage, Topic
from tidings.routing.effects import Deliver, Effect, Report, Route, Send, SetTimer, UnicastTable

ENCODING = InterestEncoding()


class Recorded:
    """Tables as plain dictionaries."""

    def __init__(self) -> None:
        self.rows: dict[int, set[bytes]] = {}
        self.next_hops: dict[int, int] = {}

    def interest(self, router: int, added: Collection[bytes], removed: Collection[bytes]) -> None:
        rows = self.rows.setdefault(router, set())
        assert rows.isdisjoint(added)
        assert rows.issuperset(removed)
        rows |= set(added)
        rows -= set(removed)

    def forget(self, router: int) -> None:
        del self.rows[router]

    def routes(self, next_hops: Mapping[int, int]) -> None:
        self.next_hops = dict(next_hops)


def make(options: BdrpOptions | None = None) -> tuple[Bdrp, Recorded]:
    flood, tables = Flood(1, incarnation=1), Recorded()
    flood.link_up(0.0, 2)
    return Bdrp(flood, ENCODING, tables, options), tables


def stock(name: str) -> Predicate:
    return Predicate.of(Constraint("stock", Op.EQ, name))


def items(effects: list[Effect]) -> list[FloodItem]:
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    return [message for message in sent if isinstance(message, FloodItem)]


def payload(*names: str, removed: tuple[str, ...] = ()) -> bytes:
    def rows(of: tuple[str, ...]) -> tuple[bytes, ...]:
        return tuple(row for name in of for row in ENCODING.rows(stock(name)))

    return encode_advertisement(Change(rows(names), rows(removed)), ENCODING.form, ENCODING.row_bytes)


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


def test_who_wants_more_than_can_be_told_asks_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bdrp, "WHOLE_BYTES_MAX", 3 * ENCODING.row_bytes + 10)
    scheme, _ = make()
    scheme.start(0.0)
    scheme.tick(50.0)
    said = []
    for number, name in enumerate("abcd"):
        scheme.subscribe(100.0 + 100 * number, stock(name))
        said.append(scheme.tick(150.0 + 100 * number))
    everything = Change(tuple(ENCODING.rows(Predicate.of())))
    assert [one.payload for one in items(said[2])] == [
        encode_advertisement(everything, ENCODING.form, ENCODING.row_bytes)
    ]
    assert [isinstance(one, Report) for one in said[2]].count(True) == 1
    assert said[3] == [], "all is asked for already"
    scheme.unsubscribe(500.0, stock("a"))
    scheme.tick(550.0)
    scheme.unsubscribe(600.0, stock("b"))
    (item,) = items(scheme.tick(650.0))
    assert (item.full, item.payload) == (True, payload("c", "d"))


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
