"""Few filters and many give the same answers."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.model.selector.program import run
from tidings.model.values import Value
from tidings.routing.hermes.type_filters import FEW, TypeFilters

SELECTORS = [
    *(f"x > {low} AND x < {low + 3}" for low in range(20)),
    *(f"y LIKE '{letter}%' OR x = {number}" for number, letter in enumerate("abcdefgh")),
    "x + 1 > y",
    "JMSPriority = 4 AND x IS NOT NULL",
]
PREDICATES = [Selector(one).predicate for one in SELECTORS]


@given(
    changes=st.lists(st.sampled_from(PREDICATES), max_size=60),
    x=st.integers(-1, 25),
    y=st.sampled_from(["a", "bc", "z", ""]),
)
def test_the_index_agrees_with_looking_at_each(changes: list[Predicate], x: int, y: str) -> None:
    index, kept = TypeFilters(), dict[Predicate, None]()
    message = encode_message(Message(Destination("t"), {"x": x, "y": y}))
    attributes: dict[str, Value] = {"x": x, "y": y, "JMSPriority": 4}
    for predicate in [*changes, *changes[: len(changes) // 2]]:
        if predicate in kept:
            del kept[predicate]
            index.remove(predicate)
        else:
            kept[predicate] = None
            index.add(predicate)
    found = index.matching(message)
    assert len(found) == len(set(found))
    assert set(found) == {one for one in kept if one.matches(attributes, run)}


def test_many_are_emptied_and_filled_again() -> None:
    index = TypeFilters()
    message = encode_message(Message(Destination("t"), {"x": 5}))
    for _ in range(2):
        for predicate in PREDICATES[: FEW + 2]:
            index.add(predicate)
        assert len(index.matching(message)) == 2
        for predicate in PREDICATES[: FEW + 2]:
            index.remove(predicate)
        assert index.matching(message) == []
