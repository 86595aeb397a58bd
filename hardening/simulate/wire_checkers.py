"""Checkers of the wire workload, by name: verdicts on deliveries, credit, receipts, drops, transactions."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from hardening.simulate.checkers import fail
from hardening.simulate.wire_consumers import SlowReader
from hardening.simulate.wire_ledger import Box, Given, Ledger, Sent, Transfer
from hardening.simulate.wire_publishers import StompParty
from tidings.delivery.mailbox import SlowPolicy
from tidings.delivery.redelivery_delay import Backoff
from tidings.node.requests import Verdict
from tidings.sim.client import SimClient

CLOCKS_MS = 100.0  # by how much clocks are set, and more


def deliveries(box: Box, alive: set[SimClient], *, filled: bool) -> None:
    """Of each message in its order: done with, it does not come again; returned, it does, with the right attempt.
    `filled`: the disk was full at some time, so that a dead letter may not have been made."""
    by_id: dict[bytes, list[Given]] = defaultdict(list)
    tags: dict[int, set[int]] = defaultdict(set)
    for one in sorted(box.given, key=lambda one: one.order):
        by_id[one.id].append(one)
        tags[one.client.life].add(one.tag)
    for all in by_id.values():
        for earlier, later in pairwise(all):
            if earlier.client.life != later.client.life:
                _after_crash(box, earlier, later)
                continue
            between = range(earlier.tag + 1, later.tag)
            unheard = len(between) - sum(tag in tags[earlier.client.life] for tag in between)
            more = _attempts(box, earlier, alive, filled=filled)
            low, high = min(more) + earlier.attempt, max(more) + earlier.attempt + unheard
            if not low <= later.attempt <= high:
                said = "nothing" if earlier.verdict is None else earlier.verdict.name
                what = f"{box.title} gave {later.id.hex()} as attempt {later.attempt} after {earlier.attempt}, {said}"
                fail("right-attempt", what)


def rests(box: Box, backoff: Backoff) -> None:
    """Check that a rejected message comes no sooner than its policy says, after a restart too."""
    by_id: dict[bytes, list[Given]] = defaultdict(list)
    for one in sorted(box.given, key=lambda one: one.order):
        by_id[one.id].append(one)
    for all in by_id.values():
        retried, life = 0, 0
        for earlier, later in pairwise(all):
            if earlier.client.life != life:
                retried, life = 0, earlier.client.life
            if earlier.verdict is not Verdict.RETRY or not earlier.sure:
                continue
            retried += 1
            written = earlier.receipt in earlier.client.done
            rested_ms, least_ms = later.at - earlier.said_at, backoff.least_ms(retried)
            if (later.client.life == life or written) and rested_ms < least_ms - CLOCKS_MS:
                what = f"{box.title} gave {later.id.hex()} again after {rested_ms:.0f} ms instead of {least_ms}"
                fail("redelivery-delay", what)


def one_active(box: Box) -> None:
    """Another consumer is given something only when the one before has left."""
    lives: dict[int, list[Given]] = defaultdict(list)
    for one in sorted(box.given, key=lambda one: one.order):
        lives[one.client.life].append(one)
    for given in lives.values():
        for earlier, later in pairwise(given):
            left_at = earlier.client.gone_at
            if earlier.client is not later.client and (left_at is None or left_at > later.at):
                fail("one-active", f"{box.title} gave {later.id.hex()} to another consumer while the first was there")


def _attempts(box: Box, one: Given, alive: set[SimClient], *, filled: bool) -> set[int]:
    """By how much its attempt may have risen when it comes again in the same life of its broker."""
    name = f"{box.title} gave {one.id.hex()} again"
    match one.verdict:
        case None:
            if one.client in alive:
                fail("once-only", f"{name} while a consumer had it")
            return {1}
        case Verdict.DONE:
            done = one.sure if one.transfer is None else one.transfer.committed
            if done:
                fail("acked-stays-acked", f"{name}, which had been acknowledged")
            return {1}
        case Verdict.RETRY:
            return {1}
        case Verdict.RELEASE:
            return {0} if one.sure else {0, 1}
        case Verdict.DEAD:
            if one.sure and not filled:
                fail("acked-stays-acked", f"{name}, which had been rejected")
            return {1}


def _after_crash(box: Box, earlier: Given, later: Given) -> None:
    done = earlier.verdict is Verdict.DONE
    if earlier.transfer is not None:
        written = earlier.transfer.committed
    else:
        written = done and earlier.sure and earlier.receipt in earlier.client.done
    if done and written:
        fail(
            "acked-stays-acked", f"{box.title} gave {later.id.hex()} after a crash, though that it is done was on disk"
        )
    if later.attempt <= 1 and earlier.verdict is not Verdict.RELEASE:
        fail("once-only", f"{box.title} gave {later.id.hex()} again without a mark")


def finished(one: Given) -> bool:
    return one.verdict is Verdict.DONE and (one.transfer is None or not one.transfer.refused)


def nothing_lost(boxes: Sequence[Box], promised: Iterable[Sent], dead: dict[int, set[bytes]]) -> None:
    """All that was promised was taken by a consumer, or is a dead letter."""
    done = {box: {one.id for one in box.given if finished(one)} for box in boxes}
    for sent in promised:
        for box in boxes:
            if box.wants(sent) and sent.id not in done[box] and sent.id not in dead[box.router]:
                fail("nothing-lost", f"{box.title} lacks {sent.id.hex()} of router {sent.router}")


def whole_transfers(transfers: Iterable[Transfer], got: Counter[bytes], source: Box) -> None:
    """The acknowledgements and messages of a transaction happened together, or not at all."""
    for transfer in transfers:
        there = sum(got[id] > 0 for id in transfer.sent)
        expected = {0, len(transfer.sent)}
        if transfer.committed:
            expected = {len(transfer.sent)}
        elif transfer.refused:
            expected = {0}
        if there not in expected:
            fail("whole-transactions", f"{there} of {len(transfer.sent)} that {source.title} sent on arrived")
        if there:
            ended = (transfer.client.life, max(tag for tag, _ in transfer.taken))
            taken = {id for _, id in transfer.taken}
            again = [one for one in source.given if one.id in taken and one.order > ended]
            if again and not all(one.order == ended for one in again):
                fail("whole-transactions", f"{source.title} gave {again[0].id.hex()} again, which was sent on")


def answered_once(clients: Iterable[SimClient], sent: Iterable[Sent], alive: set[SimClient]) -> None:
    """Each receipt is answered once; of clients that are still there, each of them is."""
    for client in clients:
        for receipt, times in client.answers.items():
            if receipt and times > 1:
                fail("answered-once", f"receipt {receipt} was answered {times} times")
    for one in sent:
        if one.client in alive and not one.client.answers[one.receipt]:
            fail("answered-once", f"{one.id.hex()} to {one.destination} at router {one.router} was never answered")


def slow_reader(reader: SlowReader, ledger: Ledger) -> None:
    """All that its policy drops is counted, and nothing else is missing."""
    reading, client = reader.reading, reader.client
    if reading is None or client is None or reading.began_at is None:
        return
    mine = [one for one in ledger.sent.values() if one.destination == reader.topic and one.router == reader.router]
    times = Counter(delivery.message[4:20] for delivery in client.deliveries)
    if doubled := [id for id, number in times.items() if number > 1]:
        fail("once-only", f"{reader.title} got {doubled[0].hex()} twice")
    dropped = reader.dropped()
    since = [one for one in mine if one.place >= reading.began_at and one.accepted]
    asked = [one for one in mine if one.id not in reading.old]
    missing = sum(one.id not in times for one in since)
    if missing > dropped:
        fail("drops-are-counted", f"{reader.title} lacks {missing} and its broker has counted {dropped}")
    if len(times) + dropped > len(asked):
        fail("drops-are-counted", f"{reader.title} got {len(times)} of {len(asked)}, and {dropped} are dropped")
    if reader.policy is SlowPolicy.DISCONNECT and dropped:
        fail("slow-consumer", f"{reader.title} did not keep up and is still connected")


def pushed_back(reader: SlowReader, stall_ms: int) -> None:
    """Publishers wait for a reader that takes something now and then: nothing is dropped."""
    if reader.policy is SlowPolicy.PUSH_BACK and reader.longest_ms() < stall_ms - CLOCKS_MS and reader.dropped():
        longest_ms, dropped = reader.longest_ms(), reader.dropped()
        fail("push-back", f"{reader.title} slept {longest_ms:.0f} ms at most, and {dropped} are dropped")


def stomp(party: StompParty) -> None:
    """Messages confirmed by a RECEIPT came; acknowledged ones did not come from the same broker again."""
    got = Counter(body for _, body in party.got)
    for client, receipt in party.sent:
        if receipt in client.receipts and not got[f"stomp {receipt}".encode()]:
            fail("nothing-lost", f"STOMP queue {party.queue} at router {party.router} lacks message {receipt}")
    for place, life, body in party.acknowledged:
        if (life, body) in party.got[place:]:
            fail("acked-stays-acked", f"STOMP queue {party.queue} at router {party.router} gave {body!r} again")
