"""Whatever happens, in whatever order, and however often the broker dies: nothing that was confirmed is lost, nothing
comes twice unless it is marked, transactions are whole.
"""

from hardening.support.node_driver import DrivenClient, Got, NodeDriver
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidings.errors import StoreError
from tidings.node.requests import Done, Failed, Verdict
from tidings.node.settings import NodeSettings

PLACES = ("queue:a", "queue:b", "t.x")  # the last one feeds a durable subscription
FULL = StoreError("E_STORE_FULL", "no space left")


class Recovery(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # small limits: messages leave memory and are read back
        limits = NodeSettings(deliveries_max=1_000, messages_bytes_max=2_000, pinned_bytes_max=500)
        self.driver = NodeDriver(settings=limits)
        self.sent = 0
        self.promised: set[bytes] = set()  # bodies of which we have a receipt
        self.denied: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.seen: set[bytes] = set()
        self.together: list[set[bytes]] = []  # bodies of transactions whose end we do not know
        self.begin_life()
        self.driver.connect("me").subscribe(1, "t.*", durable="d")
        self.crash()

    def begin_life(self) -> None:
        self.publisher = self.driver.connect("pub")
        self.consumers: dict[str, DrivenClient] = {}
        self.waiting: dict[int, bytes] = {}  # receipt -> body
        self.given: list[tuple[str, Got]] = []
        self.in_transaction: set[bytes] | None = None
        self.transacted_acks: list[bytes] = []
        self.committing: dict[int, tuple[set[bytes], list[bytes]]] = {}

    # --- what may happen ------------------------------------------------------------------------------------------

    @rule(
        place=st.sampled_from(PLACES), persistent=st.sampled_from((True, True, True, False)), priority=st.integers(0, 9)
    )
    def publish(self, place: str, persistent: bool, priority: int) -> None:
        self.sent += 1
        body = b"%d" % self.sent
        message = self.driver.message(place, body, persistent=persistent, priority=priority)
        if self.in_transaction is not None and persistent:
            self.in_transaction.add(body)
            self.publisher.publish(message, session=1)
        else:
            receipt = self.publisher.publish(message)
            if persistent:
                self.waiting[receipt] = body
        self.look()

    @rule(place=st.sampled_from(PLACES), credit=st.integers(1, 20))
    def consume(self, place: str, credit: int) -> None:
        if place not in self.consumers:
            client = self.driver.connect("me" if place == "t.x" else "")
            if place == "t.x":
                client.subscribe(1, "t.*", durable="d", credit=credit)
            else:
                client.subscribe(1, place, credit=credit)
            self.consumers[place] = client
        self.look()

    @rule(place=st.sampled_from(PLACES))
    def leave(self, place: str) -> None:
        self.look()
        if place in self.consumers and self.in_transaction is None:
            self.consumers.pop(place).leave()
            self.given = [one for one in self.given if one[0] != place]

    @precondition(lambda self: self.given)
    @rule(verdict=st.sampled_from((Verdict.DONE, Verdict.DONE, Verdict.RETRY)), data=st.data())
    def settle(self, verdict: Verdict, data: st.DataObject) -> None:
        place, got = self.given.pop(data.draw(st.integers(0, len(self.given) - 1)))
        self.consumers[place].ack(got, verdict=verdict)
        if verdict is Verdict.DONE:
            self.acknowledged.add(got.body)
        self.look()

    @precondition(lambda self: self.in_transaction is None)
    @rule()
    def begin(self) -> None:
        self.publisher.begin(1)
        self.in_transaction = set()

    @precondition(lambda self: self.in_transaction is not None)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        assert self.in_transaction is not None
        if commit:
            self.committing[self.publisher.commit(1)] = (self.in_transaction, [])
        else:
            self.publisher.rollback(1)
            self.denied |= self.in_transaction
        self.in_transaction = None
        self.look()

    @rule()
    def hold_writes(self) -> None:
        self.driver.hold_writes = True

    @rule(failing=st.sampled_from((None, None, FULL)))
    def write(self, failing: StoreError | None) -> None:
        self.driver.hold_writes, self.driver.failure = False, failing
        while self.driver.writes:
            self.driver.write()
        self.look()

    @rule()
    def tick(self) -> None:
        self.driver.tick()
        self.look()

    @rule()
    def crash(self) -> None:
        self.look()
        self.together += [bodies for bodies, _ in self.committing.values()]
        if self.in_transaction is not None:
            self.denied |= self.in_transaction
        self.driver.hold_writes, self.driver.failure = False, None
        self.driver.crash()
        self.begin_life()

    # --- what must hold -------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take note of answers and deliveries."""
        for receipt in self.publisher.accepted & self.waiting.keys():
            self.promised.add(self.waiting.pop(receipt))
        for receipt in self.publisher.refused.keys() & self.waiting.keys():
            self.denied.add(self.waiting.pop(receipt))
        for receipt in list(self.committing):
            answer = self.publisher.answer(receipt)
            if answer is not None:
                bodies, _ = self.committing.pop(receipt)
                assert isinstance(answer, Done | Failed)
                (self.promised if isinstance(answer, Done) else self.denied).update(bodies)
        for place, client in self.consumers.items():
            for got in client.receive():
                assert got.body not in self.seen or got.attempt > 1, f"{got.body!r} came again without a mark"
                self.seen.add(got.body)
                self.given.append((place, got))

    @invariant()
    def nothing_refused_is_seen(self) -> None:
        assert not self.seen & self.denied

    def teardown(self) -> None:
        self.write(None)
        self.driver.tick()
        self.look()
        self.crash()
        for place in PLACES:
            self.consume(place, 10_000)
        for _ in range(3):
            self.driver.tick()
            self.look()
        there = {got.body for _, got in self.given}
        assert self.promised - self.acknowledged <= there
        for bodies in self.together:
            missing = bodies - there - self.acknowledged
            assert not missing or missing == bodies, "a transaction is whole"
        assert not there & self.denied


TestRecovery = Recovery.TestCase
TestRecovery.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
