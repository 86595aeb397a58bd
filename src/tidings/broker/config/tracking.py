"""The configuration table [tracking]: recording of the paths of messages."""

from dataclasses import dataclass
from pathlib import Path

from tidings.broker.config.schema_reader import setting
from tidings.broker.tracking_thread import TrackingOptions
from tidings.segments.history_store import TAIL_MS_MAX
from tidings.segments.retention import SegmentRetention
from tidings.tracking.plan import limits
from tidings.tracking.plan.matching_set import Judgement, judge
from tidings.tracking.recording.history import BloomSettings, Mode
from tidings.tracking.recording.key_notes import TRACE_CONTEXT, check_names
from tidings.tracking.recording.recorder import TrackingSettings
from tidings.tracking.recording.strategies import strategy

STRATEGIES = ("runs", "bloom", "async", "none")
MODES = tuple(mode.value for mode in Mode)
DAY_MS = 86_400_000
_BLOOM, _SETTINGS = BloomSettings(), TrackingSettings()


@dataclass(frozen=True, slots=True)
class TrackingTable:
    strategy: str = setting(
        "runs",
        "runs (exact, and small), or for comparison bloom (filters), async (lists of ids), or none",
        choices=STRATEGIES,
    )
    bits: int = setting(_BLOOM.bits, "m: bits of a filter, a multiple of 64", minimum=64, maximum=limits.BITS_MAX)
    capacity: int = setting(_BLOOM.capacity, "n: ids that a filter holds", minimum=1, maximum=limits.CAPACITY_MAX)
    hashes: int = setting(_BLOOM.hashes, "k: hash functions per id", minimum=1, maximum=64)
    bits_max: int = setting(
        1 << 20,
        "maximum size of a filter: a history that fills filters too fast for its accuracy switches to larger ones",
        minimum=64,
        maximum=limits.BITS_MAX,
    )
    buffer_bytes: int = setting(10_000, "size of one list of ids, for async", minimum=16, maximum=1 << 30)
    persist_ms: int = setting(
        _SETTINGS.persist_ms,
        "T_p: maximum interval between writes of recorded histories",
        minimum=limits.PERSIST_MS_MIN,
        maximum=limits.TIME_MS_MAX,
    )
    storage: str = setting(
        Mode.RETAIN.value,
        "what happens at T_p to a filter that is not full: continue it, or begin a new one",
        choices=MODES,
    )
    skew_ms: int = setting(
        200,
        "T_s: publication times that differ by more from the broker's clock are corrected",
        minimum=limits.SKEW_MS_MIN,
        maximum=limits.TIME_MS_MAX,
    )
    jitter_ms: int = setting(
        100, "T_j: jitter of the network and of the brokers' clocks", minimum=0, maximum=limits.TIME_MS_MAX
    )
    skew_between_brokers_ms: int = setting(
        _SETTINGS.skew_between_brokers_ms,
        "maximum difference between brokers' clocks",
        minimum=0,
        maximum=limits.TIME_MS_MAX,
    )
    forwards: bool = setting(
        False, "record the neighbour that each message was sent to: more memory, fewer requests per trace"
    )
    efpp: float = setting(
        1e-5, "maximum probability of a false 'it was here'", minimum=limits.EFPP_MIN, maximum=limits.EFPP_MAX
    )
    rate: float = setting(
        5000.0,
        "the peak rate at which efpp must hold, in messages per second",
        minimum=limits.RATE_MIN,
        maximum=limits.RATE_MAX,
    )
    accuracy: str = setting("warn", "if efpp cannot be held: warn, or refuse to start", choices=("warn", "refuse"))
    keys: tuple[str, ...] = setting(
        (TRACE_CONTEXT,),
        "attributes by whose values messages can be found, 7 to 10 bytes a message each; of traceparent (W3C) "
        "the trace id counts",
    )
    segment_ms: int = setting(
        TAIL_MS_MAX,
        "the age at which new records become a segment that the pipeline can read; shorter: more and smaller files",
        minimum=1000,
        maximum=limits.TIME_MS_MAX,
    )
    folder: str = setting("", "the directory of the records; empty: tracking in the data directory")
    copies: str = setting(
        "",
        "a URI to which finished segments are copied, and from which a process on another machine takes them, as in "
        "s3://bucket/orders or file:///mnt/shared/orders; empty: records are lost with the machine",
    )
    age_days_max: float = setting(30.0, "older records are deleted; 0: never", minimum=0, maximum=36_500)
    bytes_max: int = setting(
        10 << 30, "the oldest records are deleted beyond this; 0: no limit", minimum=0, maximum=1 << 60
    )
    attachments_max: int = setting(
        100_000,
        "number of departed subscribers that are remembered, at half a kilobyte of memory each; a trace of an older "
        "message is answered as far as known and marked incomplete",
        minimum=1,
        maximum=1 << 30,
    )

    def bloom(self) -> BloomSettings:
        shape = self.capacity, self.bits, self.hashes
        return BloomSettings(*shape, self.skew_ms, self.jitter_ms, Mode(self.storage), self.bits_max)

    def settings(self) -> TrackingSettings:
        chosen = strategy(self.strategy, self.bloom(), self.buffer_bytes)
        times = self.persist_ms, self.skew_between_brokers_ms
        keys = check_names(self.keys)
        return TrackingSettings(chosen, *times, self.forwards, self.attachments_max, keys=keys)

    def judgement(self) -> Judgement | None:
        """Judges if the configured accuracy can be held; None: the strategy makes no errors."""
        return judge(self.bloom(), self.rate, self.persist_ms, self.efpp) if self.strategy == "bloom" else None

    def options(self, data: Path) -> TrackingOptions:
        """For the driver. Needed under `none` too, which stores since when nothing was recorded: later processes would
        otherwise deny that messages passed in that time."""
        retention = SegmentRetention(int(self.age_days_max * DAY_MS) or None, self.bytes_max or None)
        folder = Path(self.folder) if self.folder else data / "tracking"
        return TrackingOptions(self.settings(), folder, retention, self.segment_ms, self.copies)
