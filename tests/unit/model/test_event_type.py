import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.model.event_type import AttributeType, EventType, EventTypeError, TypeTree
from tidings.model.values import Value

INT, FLOAT, STRING = AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING
TRADE = EventType("Trade", None, {"price": FLOAT})
SALE = EventType("Sale", "Trade", {"buyer": STRING})
AUCTION = EventType("Auction", "Sale", {"bids": INT})


def tree() -> TypeTree:
    return TypeTree([AUCTION, TRADE, SALE])


def test_a_tree() -> None:
    types = tree()
    assert [one.name for one in types] == ["Trade", "Sale", "Auction"]
    assert types.attributes("Auction") == {"price": FLOAT, "buyer": STRING, "bids": INT}
    assert types.ancestors("Auction") == ["Sale", "Trade"]
    assert types.descendants("Trade") == ["Sale", "Auction"]
    assert types.is_a("Auction", "Trade")
    assert types.is_a("Sale", "Sale")
    assert not types.is_a("Trade", "Sale")
    assert "Sale" in types
    assert len(types) == 3
    assert types.add(SALE) is False


@pytest.mark.parametrize(
    ("event_type", "code"),
    [
        (EventType("New", "Nobody"), "E_TYPE_PARENT"),
        (EventType("New", "New"), "E_TYPE_CYCLE"),
        (EventType("Sale", "Trade", {"buyer": INT}), "E_TYPE_REDEFINED"),
        (EventType("Sale", None, {"buyer": STRING}), "E_TYPE_REDEFINED"),
        (EventType("New", "Sale", {"price": STRING}), "E_TYPE_ATTRIBUTE"),
    ],
)
def test_refused_types(event_type: EventType, code: str) -> None:
    types = tree()
    with pytest.raises(EventTypeError) as caught:
        types.add(event_type)
    assert caught.value.code == code
    assert len(types) == 3


def test_refused_sets_of_types() -> None:
    with pytest.raises(EventTypeError, match="E_TYPE_CYCLE"):
        TypeTree([EventType("A", "C"), EventType("B", "A"), EventType("C", "B")])
    with pytest.raises(EventTypeError, match="E_TYPE_REDEFINED"):
        TypeTree([TRADE, EventType("Trade")])


def test_refused_names() -> None:
    with pytest.raises(UsageError, match="E_NAME_LENGTH"):
        EventType("")
    with pytest.raises(UsageError, match="E_MESSAGE_NAME"):
        EventType("A", None, {"JMSType": INT})


def test_removal() -> None:
    types = tree()
    with pytest.raises(EventTypeError, match=r"E_TYPE_SUBTYPES.*'Auction'"):
        types.remove("Sale")
    with pytest.raises(EventTypeError, match="E_TYPE_UNKNOWN"):
        types.remove("Nobody")
    assert [types.remove(name) for name in ("Auction", "Sale", "Trade")] == [AUCTION, SALE, TRADE]
    assert len(types) == 0


@pytest.mark.parametrize(
    ("name", "properties", "codes"),
    [
        ("Sale", {"price": 1.5, "buyer": "me"}, []),
        ("Sale", {"price": 1, "buyer": "me", "JMSXGroupID": "g"}, []),
        ("Nobody", {}, ["E_TYPE_UNKNOWN"]),
        ("Sale", {"price": True, "seller": "me"}, ["E_EVENT_WRONG_TYPE", "E_EVENT_MISSING", "E_EVENT_UNKNOWN"]),
        ("Auction", {"price": 1.5, "buyer": "me", "bids": 2.0}, ["E_EVENT_WRONG_TYPE"]),
    ],
)
def test_check(name: str, properties: dict[str, Value], codes: list[str]) -> None:
    assert [problem.code for problem in tree().check(name, properties)] == codes


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 9)), unique_by=lambda pair: pair[0]))
def test_any_order_gives_the_same_tree_or_an_error(pairs: list[tuple[int, int]]) -> None:
    types = [EventType(str(child), None if parent < 0 else str(parent), {}) for child, parent in pairs]
    try:
        forward = TypeTree(types)
    except EventTypeError as error:
        forward, code = TypeTree(), error.code
        with pytest.raises(EventTypeError, match=r"E_TYPE_CYCLE|E_TYPE_PARENT"):
            forward.add_all(reversed(types))
        event(code)
        assert len(forward) == 0
        return
    backward = TypeTree(reversed(types))
    for one in types:
        assert forward.ancestors(one.name) == backward.ancestors(one.name)
        assert all(forward.is_a(child, one.name) for child in forward.descendants(one.name))
        assert forward.descendants(one.name) == backward.descendants(one.name)
