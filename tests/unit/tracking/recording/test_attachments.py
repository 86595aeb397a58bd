"""Who was attached when: as a plain list of changes says."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.tracking.recording.attachments import Attachment, AttachmentKind, AttachmentMap, relevant, since_of_last

PEOPLE = ("a", "b", "c")
changes = st.lists(st.tuples(st.sampled_from((*PEOPLE, "era")), st.booleans()), max_size=30)


@given(changes, st.integers(-1, 31), st.integers(0, 5))
def test_between_is_what_the_changes_say(made: list[tuple[str, bool]], first: int, more: int) -> None:
    attached = AttachmentMap()
    present: set[str] = set()
    at: list[set[str]] = []  # who was there at some time in [i, i + 1)
    for ms, (who, comes) in enumerate(made):
        before = set(present)
        kind = AttachmentKind.ERA if who == "era" else AttachmentKind.SUBSCRIBER
        attached.apply(Attachment(kind, "" if who == "era" else who, ms, comes))
        present = set() if who == "era" else present | {who} if comes else present - {who}
        at.append(before | present)
    at.append(set(present))
    last = first + more
    expected = {who for ms in range(max(first, 0), last + 1) for who in at[min(ms, len(made))]} if last >= 0 else set()
    assert attached.between(AttachmentKind.SUBSCRIBER, first, last) == sorted(expected)
    assert attached.between(AttachmentKind.NEIGHBOUR, first, last) == []
    assert all(attached.is_attached(AttachmentKind.SUBSCRIBER, who) == (who in present) for who in PEOPLE)
    assert attached.first_ms == (0 if made else None)


def visits(count: int) -> list[Attachment]:
    """Visitor n comes at 10 n and leaves at 10 n + 5."""
    return [
        Attachment(AttachmentKind.SUBSCRIBER, f"v{number}", 10 * number + (0 if comes else 5), comes)
        for number in range(count)
        for comes in (True, False)
    ]


def test_of_those_that_have_gone_so_many_are_remembered() -> None:
    attached = AttachmentMap(past_max=80)
    attached.apply(Attachment(AttachmentKind.SUBSCRIBER, "stays", 0, attached=True))
    for change in visits(1000):
        attached.apply(change)
        assert len(attached) <= 90
    first_known = 1000 - len(attached)
    assert attached.since_ms == 10 * (first_known - 1) + 5 + 1
    known = attached.between(AttachmentKind.SUBSCRIBER, attached.since_ms, 10_000)
    assert known == sorted(["stays", *(f"v{number}" for number in range(first_known, 1000))])


def test_what_nobody_can_ask_about_is_forgotten() -> None:
    attached = AttachmentMap()
    for change in visits(100):
        attached.apply(change)
    attached.forget(before_ms=505)
    assert (len(attached), attached.since_ms) == (50, 496)
    assert attached.between(AttachmentKind.SUBSCRIBER, 505, 514) == ["v50", "v51"]


@given(changes, st.integers(1, 10))
def test_the_last_so_many_are_those_since_a_time(made: list[tuple[str, bool]], past_max: int) -> None:
    kinds = {"era": AttachmentKind.ERA}
    all = [
        Attachment(kinds.get(who, AttachmentKind.SUBSCRIBER), who, ms, comes) for ms, (who, comes) in enumerate(made)
    ]
    since_ms = since_of_last(all, past_max)
    everything, bounded = AttachmentMap(), AttachmentMap()
    for change in all:
        everything.apply(change)
    for change in relevant(all, since_ms):
        bounded.apply(change)
    assert len(bounded) <= past_max
    assert bool(since_ms) == (len(everything) > past_max)
    assert bounded.between(AttachmentKind.SUBSCRIBER, since_ms, 99) == everything.between(
        AttachmentKind.SUBSCRIBER, since_ms, 99
    )
