"""False claims of two brokers, and of two kinds of histories, have nothing to do with each other."""

import math

import numpy as np

from tidings.model.message_id import MessageId
from tidings.tracking.ids import IdArray, id_array
from tidings.tracking.query.archive import MemoryArchive
from tidings.tracking.query.path import PathSearch
from tidings.tracking.recording.attachments import AttachmentKind
from tidings.tracking.recording.history import BloomSettings, HistoryEntry, HistoryKind
from tidings.tracking.recording.recorder import Recorder, StoreEntries, TrackingSettings
from tidings.tracking.recording.strategies import BloomStrategy

START_MS = 1_762_000_000_000
MESSAGES, ASKED = 7281, 300_000
SETTINGS = TrackingSettings(BloomStrategy(BloomSettings(7281, 65536, 8, skew_ms=5000)))  # the paper's 95 %


def stored(broker: int, *, kernel: bool) -> tuple[Recorder, MemoryArchive]:
    """Broker 1 publishes all messages, broker 2 delivers them."""
    backend = SETTINGS.kernel_backend(broker, 1) if kernel else None
    recorder, archive = Recorder(broker, SETTINGS, 1, backend), MemoryArchive()
    recorder.start(START_MS - 10_000)
    recorder.attach(AttachmentKind.NEIGHBOUR, str(3 - broker), START_MS - 10_000)
    if broker == 2:
        recorder.attach(AttachmentKind.SUBSCRIBER, "audit", START_MS - 10_000)
    ids = id_array(*(MessageId(7, 1, START_MS + number // 8, number % 8) for number in range(MESSAGES)))
    if broker == 1:
        effects = recorder.published(ids, START_MS)
    else:
        effects = [*recorder.routed(ids, START_MS), *recorder.delivered("audit", ids, START_MS)]
    effects += recorder.tick(START_MS + 2000)
    archive.store(broker, [effect.entry for effect in effects if isinstance(effect, StoreEntries)])
    return recorder, archive


def strangers() -> IdArray:
    """Ids that nobody made, of the same time."""
    rng = np.random.default_rng(1)
    ids = np.zeros((ASKED, 4), ">u4")
    ids[:, 0], ids[:, 1] = rng.integers(1, 2**29, ASKED), 1
    moments = (START_MS + rng.integers(0, MESSAGES // 8, ASKED)) << 16
    ids[:, 2], ids[:, 3] = moments >> 32, moments & 0xFFFFFFFF
    return ids.view(np.uint8).reshape(-1, 16)


def claims(entries: list[HistoryEntry], kind: HistoryKind, ids: IdArray) -> np.ndarray:
    (entry,) = [one for one in entries if one.key.kind is kind]
    assert entry.full
    return entry.opened().contains(ids)


def within(found: int, expected: float) -> bool:
    return abs(found - expected) <= 3 * math.sqrt(expected)


def test_false_claims_are_independent_and_are_seen_through() -> None:
    for kernel in (True, False):
        brokers = {broker: stored(broker, kernel=kernel) for broker in (1, 2)}
        entries = {broker: [one for _, one in archive.entries()] for broker, (_, archive) in brokers.items()}
        ids = strangers()
        published = claims(entries[1], HistoryKind.PUBLISH, ids)
        routed = claims(entries[2], HistoryKind.ROUTE, ids)
        delivered = claims(entries[2], HistoryKind.DELIVER, ids)
        wrong = [int(one.sum()) for one in (published, routed, delivered)]
        assert all(within(one, ASKED * 1.45e-2) for one in wrong)
        for one, other in ((published, routed), (routed, delivered), (published, delivered)):
            assert within(int((one & other).sum()), int(one.sum()) * int(other.sum()) / ASKED)

        unmasked = 0
        false = ids[np.flatnonzero(routed)[:300]]
        for row in false:
            search = PathSearch(MessageId.from_bytes(row.tobytes()), {1: (2,), 2: (1,)}, everywhere=True)
            asked = search.start()
            while asked:
                recorder, archive = brokers[asked.pop().broker]
                asked += search.answered(recorder.answer(search.message, archive))
            path = search.report()
            unmasked += [hop.broker for hop in path.false_positives] == [2] and not path.subscribers
        assert unmasked >= 0.95 * len(false)
