from random import Random
from string import ascii_letters

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.routing.bdrp.advertisement import Change, decode_change, encode_change
from tidings.routing.bdrp.interests import InterestEncoding, key_proof
from tidings.routing.bdrp.local_interests import LocalInterests

VECTORS = InterestEncoding()
ELEMENTS = InterestEncoding(Encoding(grade=GradedGrade()), vectors=False)
predicates = st.builds(
    lambda name, op, value: Predicate.of(Constraint(name, op, value)),
    st.sampled_from("abc"),
    st.sampled_from([Op.EQ, Op.GT]),
    st.integers(0, 3),
)


@pytest.mark.parametrize("encoding", [VECTORS, ELEMENTS])
@given(added=st.lists(predicates, max_size=8), removed=st.lists(predicates, max_size=8))
def test_a_change_travels_as_bytes(
    encoding: InterestEncoding, added: list[Predicate], removed: list[Predicate]
) -> None:
    def rows(of: list[Predicate]) -> tuple[bytes, ...]:
        return tuple(sorted(set().union(*(encoding.rows(encode_predicate(one)) for one in of))))

    change = Change(rows(added), rows(removed))
    assert decode_change(encode_change(change, encoding.row_bytes), encoding.row_bytes) == change


@given(st.binary(max_size=80), st.sampled_from([0, 8, 32]))
def test_noise_is_refused_or_means_something(noise: bytes, row_bytes: int) -> None:
    try:
        change = decode_change(noise, row_bytes)
    except CodecError:
        return
    assert encode_change(change, row_bytes) == noise


@pytest.mark.parametrize("encoding", [VECTORS, ELEMENTS])
@given(st.lists(predicates, max_size=8), st.data())
def test_counted_and_aggregated(encoding: InterestEncoding, wanted: list[Predicate], data: st.DataObject) -> None:
    local = LocalInterests(encoding)
    for one in wanted:
        local.add(encode_predicate(one))
    gone = data.draw(st.lists(st.sampled_from(range(len(wanted))), unique=True)) if wanted else []
    for index in gone:
        local.remove(encode_predicate(wanted[index]))
    left = [one for index, one in enumerate(wanted) if index not in gone]
    every = set().union(*(encoding.rows(encode_predicate(one)) for one in left))
    assert local.rows() == encoding.minimal(every)


def test_what_asks_for_more_than_a_row_holds_is_said_less_precisely() -> None:
    rng = Random(1)
    texts = ["".join(rng.choices(ascii_letters, k=10)) for _ in range(800)]
    long = Selector(" AND ".join(f"text LIKE '%{'%'.join(texts[start : start + 300])}%'" for start in (0, 300, 500)))
    local = LocalInterests(ELEMENTS)
    local.add(encode_predicate(long.predicate))
    local.add(encode_predicate(Predicate.of(Constraint("a", Op.EQ, 1))))
    rows = tuple(sorted(local.rows()))
    assert decode_change(encode_change(Change(rows), 0), 0) == Change(rows)
    carried = ELEMENTS.encoding.message_elements({"text": "".join(texts)})
    assert long.matches({"text": "".join(texts)})
    assert any(ELEMENTS.members(row) <= carried for row in rows)


def test_queues_are_nobody_elses_business() -> None:
    local = LocalInterests(VECTORS)
    local.add(encode_predicate(Predicate.of(Constraint("@queue", Op.EQ, "orders"))))
    assert local.rows() == set()


def test_brokers_with_different_encodings_do_not_fit() -> None:
    shapes = [VECTORS, ELEMENTS, InterestEncoding(Encoding(bits=512)), InterestEncoding(Encoding(key=5))]
    assert len({shape.parameters() for shape in shapes}) == len(shapes)


def test_who_does_not_know_the_secret_cannot_compare_guesses_of_the_key() -> None:
    key, secret = b"k" * 16, b"s" * 16
    assert key_proof(key, secret) == key_proof(key, secret)
    assert len({key_proof(key, secret), key_proof(key, b"t" * 16), key_proof(b"other" * 4, secret)}) == 3
    shown = dict(InterestEncoding(key_proof=key_proof(key, secret)).parameters())["encoding key"]
    assert shown == key_proof(key, secret)
    assert len(shown) == 16
