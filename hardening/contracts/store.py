"""The contract of a store: random batches, reopened at any time, against the simplest store there is."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tidings.delivery.store import (
    RECENT_MAX,
    Acked,
    Attached,
    Counted,
    Detached,
    MailboxAdded,
    MailboxRemoved,
    MemoryStore,
    Note,
    Record,
    Recovered,
    Store,
    Stored,
)
from tidings.errors import UsageError

MAILBOXES = st.integers(1, 5)
SEQS = st.integers(1, 60)
MESSAGES = st.one_of(st.binary(max_size=12), st.binary(min_size=3, max_size=3).map(lambda piece: piece * 2000))
OTHERS: st.SearchStrategy[Record] = st.one_of(
    st.builds(Acked, MAILBOXES, st.lists(SEQS, max_size=12).map(tuple)),
    st.builds(
        MailboxAdded, MAILBOXES, st.text(max_size=5), st.sampled_from(["queue", "durable"]), st.binary(max_size=4)
    ),
    st.builds(MailboxRemoved, MAILBOXES),
    st.builds(Attached, MAILBOXES),
    st.builds(Detached, MAILBOXES),
    st.builds(Counted, MAILBOXES, SEQS, st.integers(1, 9)),
    st.builds(Note, st.sampled_from(["epoch", "id"]), st.binary(max_size=4)),
)


class _Contract(RuleBasedStateMachine):
    """Runs the same steps on a store and on `MemoryStore`, and compares."""

    make: Callable[[bool], Store]
    durable: bool

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make(True)
        self.model = MemoryStore()
        self.last_seq = 0
        # most steps are about mailboxes that are there
        self.both([MailboxAdded(mailbox, f"box {mailbox}", "queue") for mailbox in (1, 2, 3)])

    def both(self, batch: list[Record]) -> None:
        self.model.append(batch)
        self.store.append(batch)

    @rule(
        messages=st.lists(st.tuples(MESSAGES, st.lists(MAILBOXES, max_size=4), st.integers(1, 3)), max_size=8),
        others=st.lists(OTHERS, max_size=4),
        order=st.randoms(use_true_random=False),
    )
    def append(self, messages: list[tuple[bytes, list[int], int]], others: list[Record], order: Random) -> None:
        batch: list[Record] = []
        for message, mailboxes, step in messages:
            self.last_seq += step
            batch.append(Stored(self.last_seq, message, tuple(mailboxes)))
        for record in others:
            batch.insert(order.randint(0, len(batch)), record)
        self.both(batch)

    @rule(data=st.data(), mailbox=MAILBOXES)
    def ack_some(self, data: st.DataObject, mailbox: int) -> None:
        waiting = self.model.recover().waiting.get(mailbox)
        if waiting:
            seqs = data.draw(st.lists(st.sampled_from(list(waiting.seqs)), unique=True))
            self.both([Acked(mailbox, tuple(seqs))])

    @rule()
    def ack_all(self) -> None:
        state = self.model.recover()
        self.both([Acked(mailbox, tuple(waiting.seqs)) for mailbox, waiting in state.waiting.items()])

    @rule(seq=SEQS)
    def seqs_rise(self, seq: int) -> None:
        before = self.store.recover()
        if seq <= self.last_seq:
            twice: list[Record] = [Stored(self.last_seq + 1, b"a", (1,)), Stored(seq, b"b", (1,))]
            for store in (self.model, self.store):
                with suppress(UsageError):
                    store.append([Note("epoch", b"never"), *twice])
                    raise AssertionError("a seq that does not rise must be refused")
            assert self.store.recover() == before, "nothing of a refused batch is there"

    @rule(seq=SEQS)
    def what_does_not_wait_cannot_be_read(self, seq: int) -> None:
        if not any(seq in waiting.seqs for waiting in self.model.recover().waiting.values()):
            with suppress(UsageError):
                self.store.read([seq])
                raise AssertionError("it does not wait")

    @rule()
    def maintain(self) -> None:
        for _ in range(1000):
            if not self.store.maintain():
                return
        raise AssertionError("housekeeping does not end")

    @precondition(lambda self: self.durable)
    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store.close()
        self.store = self.make(False)

    @invariant()
    def same(self) -> None:
        check_same(self.store, self.model)

    def teardown(self) -> None:
        self.store.close()


def check_store(make: Callable[[bool], Store], *, durable: bool = True, examples: int = 30) -> None:
    """`make(True)` yields an empty store, `make(False)` the one before again, which was closed or, if `durable`, lost.

    Raises AssertionError where it differs from `MemoryStore`, with the shortest list of steps that shows it.
    """

    class StoreContract(_Contract):
        pass

    StoreContract.make, StoreContract.durable = staticmethod(make), durable
    run_state_machine_as_test(
        StoreContract, settings=settings(max_examples=examples, stateful_step_count=20, deadline=None)
    )


def check_same(store: Store, model: Store, *, torn: bool = False) -> None:
    """Two stores stand for the same state, down to the bytes of each message. `torn`: the first may say that something
    of it was torn, as long as nothing is missing."""
    state, expected = store.recover(), model.recover()
    assert torn or state.damaged == ()
    assert _plain(replace(state, damaged=())) == _plain(expected)
    seqs = sorted({seq for waiting in expected.waiting.values() for seq in waiting.seqs})
    assert store.read(seqs) == model.read(seqs)
    assert store.read(seqs[::-1][:3]) == model.read(seqs[::-1][:3])
    check_recent(store, model)


def check_recent(store: Store, model: Store) -> None:
    """All that waits is among the last messages, and nothing that never was."""
    every = {one.seq: one for one in model.recent(RECENT_MAX, 4)}
    waiting = {seq for box in model.recover().waiting.values() for seq in box.seqs}
    for count in (3, RECENT_MAX):
        found = store.recent(count, 4)
        seqs = [one.seq for one in found]
        assert seqs == sorted(set(seqs))
        assert len(seqs) <= count
        assert all(one.head == every[one.seq].head for one in found)
        assert all(set(one.mailboxes) <= set(every[one.seq].mailboxes) for one in found if one.seq not in waiting)
        assert waiting.issubset(seqs) or len(seqs) == count


def _plain(state: Recovered) -> dict[str, object]:
    return {name: getattr(state, name) for name in Recovered.__dataclass_fields__} | {
        "waiting": {mailbox: (list(one.seqs), list(one.priorities)) for mailbox, one in state.waiting.items()}
    }
