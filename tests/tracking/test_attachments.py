"""Who was attached when: as a plain list of changes says."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.tracking.attachments import Attachment, AttachmentKind, AttachmentMap

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
