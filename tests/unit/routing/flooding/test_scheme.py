from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.routing.bdrp.advertisement import Change, encode_advertisement
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.control.flood import Flood
from tidings.routing.control.messages import Topic
from tidings.routing.effects import Deliver, SetTimer
from tidings.routing.flooding.scheme import Flooding, behind

ENCODING = InterestEncoding()
ROWS = {name: ENCODING.rows(encode_predicate(Predicate.of(Constraint("stock", Op.EQ, name)))) for name in "ab"}


class Tables:
    def __init__(self) -> None:
        self.rows: dict[int, set[bytes]] = {}

    def interest(self, router: int, added: object, removed: object) -> None:
        assert isinstance(added, set)
        assert isinstance(removed, set)
        self.rows[router] = (self.rows.get(router, set()) | added) - removed

    def forget(self, router: int) -> None:
        del self.rows[router]

    def routes(self, next_hops: object) -> None: ...


def test_rows_lead_to_every_neighbour_behind_which_somebody_asks_for_them() -> None:
    ring = {1: {2: 1, 4: 1}, 2: {1: 1, 3: 1}, 3: {2: 1, 4: 1}, 4: {3: 1, 1: 1, 5: 1}, 5: {4: 1}}
    tables = Tables()
    scheme = Flooding(Flood(1, incarnation=1), ENCODING, tables, lambda: ring)
    assert SetTimer("scheme", 0.0) in scheme.start(0.0)
    for router, name in ((3, "a"), (5, "b")):
        scheme.learn(
            0.0,
            Deliver(Topic.PREDICATES, router, True, encode_advertisement(Change(tuple(ROWS[name])), ENCODING.form, 32)),
        )
    assert scheme.tick(0.0)[-1] == SetTimer("scheme", 200.0)
    assert tables.rows == {2: ROWS["a"] | ROWS["b"], 4: ROWS["a"] | ROWS["b"]}
    del ring[3], ring[2][3], ring[4][3]
    scheme.tick(200.0)
    assert tables.rows == {2: set(), 4: ROWS["b"]}
    del ring[1][2], ring[2]
    scheme.tick(400.0)
    assert tables.rows == {4: ROWS["b"]}


def test_its_own_subscriptions_are_advertised() -> None:
    flood = Flood(1, incarnation=1)
    scheme = Flooding(flood, ENCODING, Tables(), dict)
    wanted = encode_predicate(Predicate.of(Constraint("stock", Op.EQ, "a")))
    scheme.subscribe(0.0, wanted)
    scheme.tick(50.0)
    assert 1 in flood.state(Topic.PREDICATES)
    assert scheme.local_rows() == ROWS["a"]
    scheme.unsubscribe(60.0, wanted)
    assert scheme.local_rows() == set()


def test_a_link_counts_only_if_both_ends_say_so() -> None:
    assert behind({1: {2: 1}, 2: {3: 1}}, 1, 2) == set()
    assert behind({1: {2: 1}, 2: {1: 1, 3: 1}, 3: {}}, 1, 2) == {2}
