"""What readers are told is gone is what was dropped, however the broker dies in between."""

import random
from collections.abc import Sequence

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.delivery.retained import RetainedMailbox
from tidings.delivery.store import Acked, MemoryStore, Record, Stored
from tidings.node.inputs import Loaded
from tidings.node.requests import Done, ReadRetained, Release, Retain

LOG = 1  # the mailbox of the only retained subscription


class WatchedStore(MemoryStore):
    """Knows which messages were ever retained, and which of them were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.retained: list[int] = [0]
        self.dropped: list[int] = [0]

    def append(self, batch: Sequence[Record]) -> None:
        super().append(batch)
        for record in batch:
            match record:
                case Stored(seq, _, boxes) if LOG in boxes:
                    self.retained.append(seq)
                case Acked(mailbox, seqs) if mailbox == LOG:
                    self.dropped += seqs


def test_after_any_crash_the_last_one_dropped_is_known() -> None:
    ends = set[tuple[int, int]]()
    for seed in range(30):
        rng, store = random.Random(seed), WatchedStore()
        driver = NodeDriver(store)
        client = connected(driver)
        for _ in range(60):
            match rng.randrange(10):
                case 0 | 1 | 2:
                    client.publish(driver.message("ticks.a", bytes(rng.randrange(300)), persistent=rng.random() < 0.5))
                case 3 | 4:
                    client.publish(driver.message("queue:others", persistent=rng.random() < 0.5))
                case 5:
                    client.ask(Release(client.next_receipt(), "log", rng.randrange(log(driver).range[1] + 3)))
                case 6:
                    driver.hold_writes = not driver.hold_writes
                case 7:
                    driver.crash()
                    assert log(driver).range == (max(store.dropped), max(store.retained))
                    assert not [seq for seq in log(driver).after(0, 1000) if seq <= max(store.dropped)]
                    ends.add(log(driver).range)
                    client = connected(driver)
                case _:
                    driver.tick(rng.choice([1000, 1000, 20_000]))
            driver.turn()
            while driver.writes and not driver.hold_writes:
                driver.write()
    assert len(ends) > 30


def test_what_was_dropped_while_it_was_read_is_no_loss() -> None:
    driver = NodeDriver()
    client = connected(driver)
    for _ in range(3):
        client.publish(driver.message("ticks.a"))
        driver.turn()
    asked = list[tuple[int, ...]]()
    read, released = client.next_receipt(), client.next_receipt()
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(driver, "load", asked.append)
        client.ask(ReadRetained(read, "log", 0, messages=2, strict=True))
    messages = {seq: driver.store.read([seq])[0] for seq in asked[0]}
    client.ask(Release(released, "log", asked[0][-1]))
    assert log(driver).range[0] == asked[0][-1]
    driver.step(Loaded(asked[0], messages))
    answer = client.answer(read)
    assert isinstance(answer, Done)
    assert answer.fields["first"] == 0
    assert len(answer.retained) == 2


def connected(driver: NodeDriver) -> DrivenClient:
    client = driver.connect("me")
    client.ask(Retain(client.next_receipt(), "log", "ticks.>", age_ms=15_000, bytes_max=6400))
    while driver.writes:
        driver.write()
    assert log(driver).number == LOG
    return client


def log(driver: NodeDriver) -> RetainedMailbox:
    (mailbox,) = driver.node.mailbox_service.mailboxes.retained.values()
    return mailbox
