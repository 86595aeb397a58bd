"""Data for the pipeline's benchmark: what a tree of brokers would have recorded of millions of messages.

Messages belong to topics, a topic's subscribers sit at some brokers, and a message leaves its ids in the histories of
every broker on its way. Histories are filled by arrays, by the code that brokers use.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidings.model.tables import ATTACHMENTS, HISTORIES
from tidings.pipeline.jobs.trace import binary
from tidings.segments.tracking import attachment_row, entry_row
from tidings.segments.writer import SegmentWriter
from tidings.tracking.ids import IdArray
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import BloomHistory, BloomSettings, HistoryEntry, HistoryKind, Key

START_MS = 1_762_000_000_000
STEP = 2_000  # ids added at a time: few enough to lie within the skew


@dataclass(frozen=True, slots=True)
class Traffic:
    """`messages` in all, over `seconds`, evenly from all brokers of a binary tree."""

    messages: int
    brokers: int = 4
    topics: int = 12
    seconds: int = 3600
    bloom: BloomSettings = BloomSettings(capacity=38_836, bits=1 << 20, hashes=12, skew_ms=60_000)  # noqa: RUF009

    @property
    def numbers(self) -> range:
        return range(1, self.brokers + 1)

    def ids(self, origin: int) -> IdArray:
        """All ids of one origin, by time."""
        count = self.messages // self.brokers
        times = START_MS + np.arange(count, dtype=np.uint64) * np.uint64(self.seconds * 1000) // np.uint64(count)
        low = (times << np.uint64(16)) | (np.arange(count, dtype=np.uint64) % np.uint64(65_536))
        words = np.stack([np.full(count, (7 << 32) | origin, np.uint64), low], axis=1)
        return words.astype(">u8").view(np.uint8).reshape(-1, 16)

    def topic_of(self, origin: int) -> NDArray[np.int64]:
        rng = np.random.default_rng(origin)
        return rng.integers(0, self.topics, self.messages // self.brokers)

    def wanted(self, topic: int) -> set[int]:
        """Brokers with a subscriber of this topic."""
        rng = np.random.default_rng([1, topic])
        return {broker for broker in self.numbers if rng.random() < 0.4}

    def route(self, origin: int, wanted: set[int]) -> set[int]:
        """Every broker between the origin and those, in the tree where n's parent is n // 2."""
        return {origin}.union(*(path(origin, target) for target in wanted))

    def entries(self) -> Iterator[tuple[int, HistoryEntry]]:
        for origin in self.numbers:
            ids, topics = self.ids(origin), self.topic_of(origin)
            routes = [self.route(origin, self.wanted(topic)) for topic in range(self.topics)]
            number = iter(range(10**9))
            for broker in self.numbers:
                passes = np.array([broker in route for route in routes])[topics]
                kind = HistoryKind.PUBLISH if broker == origin else HistoryKind.ROUTE
                yield from self._history(broker, Key(kind, origin), ids[passes], origin * 10**6, number)
                takes = np.array([broker in self.wanted(topic) for topic in range(self.topics)])[topics]
                yield from self._history(
                    broker, Key(HistoryKind.DELIVER, origin, f"s{broker}"), ids[takes], origin * 10**6, number
                )

    def _history(
        self, broker: int, key: Key, ids: IdArray, first: int, numbers: Iterator[int]
    ) -> Iterator[tuple[int, HistoryEntry]]:
        history = BloomHistory(key, self.bloom, 1, (first + n for n in numbers))
        now_ms = START_MS
        for start in range(0, len(ids), STEP):
            part = ids[start : start + STEP]
            now_ms = int.from_bytes(part[-1][8:14].tobytes(), "big")
            yield from ((broker, entry) for entry in history.add(part, now_ms))
        yield from ((broker, entry) for entry in history.close(now_ms))

    def write(self, root: Path) -> int:
        """As segments; how many filters there are."""
        writers = {broker: SegmentWriter(root, HISTORIES, f"b{broker}") for broker in self.numbers}
        waiting: dict[int, list[dict[str, object]]] = {broker: [] for broker in self.numbers}
        count = 0
        for broker, entry in self.entries():
            waiting[broker].append(entry_row(broker, entry))
            count += 1
            if len(waiting[broker]) == 64:
                writers[broker].append(waiting[broker], START_MS)
                waiting[broker] = []
        for broker in self.numbers:
            if waiting[broker]:
                writers[broker].append(waiting[broker], START_MS)
            SegmentWriter(root, ATTACHMENTS, f"b{broker}").append(
                [attachment_row(broker, change) for change in self.changes(broker)], START_MS
            )
        return count

    def changes(self, broker: int) -> list[Attachment]:
        neighbours = [n for n in self.numbers if n // 2 == broker or n == broker // 2]
        begin, end = START_MS - 60_000, START_MS + self.seconds * 1000 + 60_000
        era, who = AttachmentKind.ERA, AttachmentKind.NEIGHBOUR
        return [
            Attachment(era, "bloom", begin, attached=True, incarnation=1),
            *(Attachment(who, str(n), begin, attached=True, incarnation=1) for n in neighbours),
            Attachment(AttachmentKind.SUBSCRIBER, f"s{broker}", begin, attached=True, incarnation=1),
            Attachment(era, "bloom", end, attached=False, incarnation=1),
        ]


def path(a: int, b: int) -> set[int]:
    """Brokers from one to the other.

    >>> sorted(path(4, 3))
    [1, 2, 3, 4]
    """
    seen = {a, b}
    while a != b:
        a, b = (a // 2, b) if a > b else (a, b // 2)
        seen |= {a, b}
    return seen


def write_ids(traffic: Traffic, folder: Path, counts: list[int]) -> None:
    """Files of ids drawn from all there are."""
    ids = np.concatenate([traffic.ids(origin) for origin in traffic.numbers])
    rng = np.random.default_rng(1)
    for count in counts:
        chosen = ids[rng.integers(0, len(ids), count)]
        pq.write_table(pa.table({"id": binary(chosen)}), folder / f"ids-{count}.parquet", row_group_size=500_000)


if __name__ == "__main__":
    target, messages, *counts = sys.argv[1:]
    drawn = Traffic(int(messages))
    print(drawn.write(Path(target) / "segments"))
    write_ids(drawn, Path(target), list(map(int, counts)))
