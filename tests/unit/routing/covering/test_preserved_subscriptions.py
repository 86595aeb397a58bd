"""The bound on false positives: of any n publications in a row at most (1 − φ) · n + depth are in vain."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.kernel.codec import encode_message
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.routing.covering.messages import FilterId
from tidings.routing.covering.preserved_subscriptions import Bucket, Preserved
from tidings.routing.message_views import batch_of


@given(st.lists(st.booleans(), max_size=200), st.sampled_from([0.5, 0.8, 0.9]), st.sampled_from([1.0, 3.0, 10.0]))
def test_in_every_stretch_the_bound_holds_while_it_stays(needs: list[bool], phi: float, depth: float) -> None:
    bucket = Bucket(phi, depth)
    borne: list[bool] = []
    for needed in needs:
        if not bucket.take(needed):
            break
        borne.append(needed)
    for start in range(len(borne)):
        vain = 0
        for end in range(start, len(borne)):
            vain += not borne[end]
            assert vain <= (1 - phi) * (end - start + 1) + depth + 1e-6


@given(st.integers(1, 50))
def test_a_good_past_does_not_pay_for_a_bad_present(good: int) -> None:
    bucket = Bucket(0.9, 2.0)
    assert all(bucket.take(True) for _ in range(100 * good))
    assert [bucket.take(False) for _ in range(3)] == [True, True, False]


def test_only_what_matches_is_accounted() -> None:
    preserved = Preserved()
    low, high = FilterId(1, 1), FilterId(1, 2)
    preserved.add(low, Predicate.of(Constraint("x", Op.LT, 10)), Bucket(0.9, 1.0))
    preserved.add(high, Predicate.of(Constraint("x", Op.GE, 10)), Bucket(0.9, 1.0))
    batch = batch_of(encode_message(Message(Destination("t"), {"x": 3})))
    assert preserved.account(batch, needed=False) == []
    assert preserved.account(batch, needed=False) == [low]
    preserved.discard(low)
    assert (low in preserved, list(preserved), len(preserved)) == (False, [high], 1)
    assert preserved.account(batch, needed=False) == []
