"""The order in which messages leave a mailbox, against a plain sorted list."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidings.delivery.backlog import PRIORITIES, Backlog, BacklogPosition


class BacklogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.backlog = Backlog()
        self.model: list[BacklogPosition] = []
        self.out: list[BacklogPosition] = []
        self.next_seq = 1

    @rule(priority=st.integers(0, PRIORITIES - 1), many=st.integers(1, 5))
    def add(self, priority: int, many: int) -> None:
        for _ in range(many):
            place = BacklogPosition(self.next_seq, priority)
            self.next_seq += 1
            self.backlog.add(place)
            self.model.append(place)

    @rule(priority=st.integers(0, PRIORITIES - 1), order=st.permutations(range(4)))
    def add_in_any_order(self, priority: int, order: list[int]) -> None:
        for step in order:
            place = BacklogPosition(self.next_seq + step, priority)
            self.backlog.add(place)
            self.model.append(place)
        self.next_seq += 4

    @rule()
    def take(self) -> None:
        taken = self.backlog.take()
        assert taken == (self.expected()[0] if self.model else None)
        if taken is not None:
            self.model.remove(taken)
            self.out.append(taken)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove_from_anywhere(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(self.model))
        self.backlog.remove(place)
        self.model.remove(place)
        self.out.append(place)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(self.out))
        self.out.remove(place)
        self.backlog.put_back(place)
        self.model.append(place)

    @rule(after=st.integers(0, 30))
    def scan(self, after: int) -> None:
        expected = [place for place in self.expected() if place.seq > after]
        assert list(self.backlog.scan([after] * PRIORITIES)) == expected

    def expected(self) -> list[BacklogPosition]:
        return sorted(self.model, key=lambda place: (-place.priority, place.seq))

    @invariant()
    def same_size_and_head(self) -> None:
        assert len(self.backlog) == len(self.model)
        assert self.backlog.first() == (self.expected()[0] if self.model else None)


TestBacklog = BacklogMachine.TestCase


def test_long_backlogs_give_back_their_memory() -> None:
    backlog = Backlog()
    for seq in range(1, 10_001):
        backlog.add(BacklogPosition(seq, 4))
    for seq in range(1, 9_001):
        assert backlog.take() == BacklogPosition(seq, 4)
    assert [place.seq for place in backlog.scan()] == list(range(9_001, 10_001))
