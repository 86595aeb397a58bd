"""The evaluation of Jun and Astley as data: their Table 2, and the load of their test bed (section 5.2).

>>> len(TABLE_2), sum(row.strategy == "bloom" for row in TABLE_2)
(21, 17)
"""

from dataclasses import dataclass

from tidings.tracking.recording.history import BloomSettings

PUBLISHERS, SUBSCRIBERS, TOPICS, RATE_PER_S = 200, 500, 500, 5000

# n, m, k for each buffer and accuracy.
SHAPES = {
    (10_000, "99.999%"): BloomSettings(2521, 65536, 16),
    (10_000, "99%"): BloomSettings(5461, 65536, 8),
    (10_000, "95%"): BloomSettings(7281, 65536, 8),
    (135_000, "99.999%"): BloomSettings(38836, 1048576, 12),
    (135_000, "99%"): BloomSettings(87381, 1048576, 6),
    (135_000, "95%"): BloomSettings(131072, 1048576, 6),
}


@dataclass(frozen=True, slots=True)
class PaperConfiguration:
    strategy: str
    buffer_bytes: int = 0
    accuracy: str = ""
    persist_s: int = 0
    stores_full: bool = False

    @property
    def settings(self) -> BloomSettings | None:
        return SHAPES[self.buffer_bytes, self.accuracy] if self.strategy == "bloom" else None


def _bloom(buffer_bytes: int, rows: str) -> tuple[PaperConfiguration, ...]:
    """Rows of accuracy/T_p; a + for those that store full buffers."""
    parts = [(*row.rstrip("+").partition("/")[::2], row.endswith("+")) for row in rows.split()]
    return tuple(PaperConfiguration("bloom", buffer_bytes, accuracy, int(t_p), full) for accuracy, t_p, full in parts)


TABLE_2 = (
    PaperConfiguration("none"),
    PaperConfiguration("async", 10_000, "100%", 1, True),
    PaperConfiguration("async", 135_000, "100%", 1, False),
    PaperConfiguration("async", 135_000, "100%", 2, True),
    *_bloom(10_000, "99.999%/1+ 99%/1 95%/1 99%/2+ 95%/2+"),
    *_bloom(135_000, "99.999%/1 99%/1 95%/1 99.999%/2 99%/2 95%/2 99.999%/8+ 99%/8 95%/8 99%/18+ 95%/18 95%/27+"),
)

# Beside the paper's rows: the default of a broker.
RUNS = PaperConfiguration("runs", 0, "100%", 1)
