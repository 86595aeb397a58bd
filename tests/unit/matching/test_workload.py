"""The workload generator: its shape, and that any part of it can be drawn anywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.kernel.codec import encode_messages
from tidings.matching.workload import Workload
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Op


@given(st.integers(0, 2**40), st.integers(0, 50), st.integers(1, 20), st.sampled_from([0, 1, 2]))
@settings(max_examples=20, deadline=None)
def test_any_part_can_be_drawn_anywhere(seed: int, start: int, count: int, conjunctions: int) -> None:
    workload = Workload(seed, conjunctions=conjunctions)
    assert (
        workload.predicates(start, count)
        == Workload(seed, conjunctions=conjunctions).predicates(0, start + count)[start:]
    )
    assert workload.messages(start, count) == Workload(seed).messages(0, start + count)[start:]


@pytest.mark.parametrize(
    "workload",
    [Workload(1), Workload(2, zipf=1.0), Workload(3, ranges_only=True, conjunctions=2), Workload(4, terms=5000)],
)
def test_encoded_and_objects_are_the_same(workload: Workload) -> None:
    blobs, ends = workload.encoded_predicates(3, 20)
    encoded = [encode_predicate(one) for one in workload.predicates(3, 20)]
    assert blobs == b"".join(encoded)
    assert ends.tolist() == [sum(map(len, encoded[: i + 1])) for i in range(20)]
    assert workload.encoded_messages(3, 20) == encode_messages(workload.messages(3, 20))


def test_the_shares_are_those_of_the_paper() -> None:
    workload = Workload(7)
    constraints = [c for p in workload.predicates(0, 1000) for row in p.conjunctions for c in row]
    strings = [c for c in constraints if c.name.startswith("s")]
    integers = [c for c in constraints if c.name.startswith("i")]
    assert len(strings) / len(constraints) == pytest.approx(0.6, abs=0.02)
    assert sum(c.op is Op.EQ for c in strings) / len(strings) == pytest.approx(0.7, abs=0.02)
    assert sum(c.op is Op.LT for c in integers) / len(integers) == pytest.approx(0.1, abs=0.02)
    sizes = [len(p.conjunctions) for p in workload.predicates(0, 1000)]
    assert (min(sizes), max(sizes)) == (1, 20)
    values = [v for m in workload.messages(0, 500) for v in m.properties.values()]
    assert sum(isinstance(v, str) for v in values) / len(values) == pytest.approx(0.6, abs=0.02)
    assert {v for v in values if isinstance(v, int)} == set(range(101))
    assert len({v for v in values if isinstance(v, str)}) == 200


def test_ranges_only_and_skew() -> None:
    ranges = [c for p in Workload(7, ranges_only=True).predicates(0, 50) for row in p.conjunctions for c in row]
    assert {c.op for c in ranges} == {Op.LT, Op.GT}
    skewed = [v for m in Workload(7, zipf=1.0).messages(0, 300) for v in m.properties.values() if isinstance(v, str)]
    first = Workload(7).vocabulary[0]
    assert skewed.count(first) / len(skewed) > 0.1


def test_impossible_shapes_are_refused() -> None:
    with pytest.raises(UsageError, match="E_WORKLOAD"):
        Workload(1, constraints_max=9)
    with pytest.raises(UsageError, match="E_WORKLOAD"):
        Workload(1, attributes=21)
