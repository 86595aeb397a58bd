"""Results of a run of the scale-out with real brokers: by second, in total, and the limiting resource.

Bytes on links are set against the least possible twice. `frames` and `all` divide what frames with messages took, and
what interfaces counted with every header, acknowledgement and heartbeat, by the bytes of the messages on shortest-path
trees to those brokers that want them. `like for like` divides what interfaces counted by the same bytes in full
segments with their headers, since nobody can send anything without.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tidings.experiments.bdrp.load_process import Stretch

HEADER_BYTES = 14 + 20 + 32  # Ethernet, IP, TCP with timestamps
SEGMENT_BYTES = 1448  # that go with these headers at most
CORES = os.cpu_count() or 1
LATE_SECONDS = 0.5  # a generator that is later does not send what the profile says
FULL = 0.9  # share of a link or a process that leaves nothing
BUSY = 0.85  # of all processors
OTHERS = 0.3  # processors that others take


@dataclass(frozen=True, slots=True)
class Second:
    """Counters of one second of a run."""

    at: int
    sent: int
    expected: int  # deliveries of what was sent
    delivered: int
    busiest: float  # share of its bandwidth that the busiest link used
    late_s: float = 0.0  # by how much clients were late, at most
    brokers_cores: float = 0.0  # processor time a second: of all brokers, all clients, the busiest process of each
    clients_cores: float = 0.0
    broker_most: float = 0.0
    client_most: float = 0.0
    others_cores: float = 0.0  # of whatever else runs on this machine


@dataclass(frozen=True, slots=True)
class RealMeasurement:
    brokers: int
    variant: str
    profile: list[Stretch]  # of all clients together
    seed: int
    planned: int = 0
    sent: int = 0
    expected: int = 0
    delivered: int = 0
    link_bytes: int = 0  # as the interfaces counted
    frame_bytes: int = 0  # of these, frames with messages; 0 where it is not known
    least_bytes: int = 0
    busiest: float = 0.0  # share of its bandwidth that the busiest link used, over the whole run
    packets: int = 0  # that the interfaces counted: each has headers of HEADER_BYTES, those that only acknowledge too
    timeline: list[Second] = field(default_factory=list)
    work: list[dict[str, float]] = field(default_factory=list)  # of each broker: what it counted, and processor time
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.profile)

    @property
    def undelivered(self) -> int:
        return self.expected - self.delivered

    @property
    def ratios(self) -> dict[str, float]:
        """Of bytes on links; what is not known is not there."""
        if not self.least_bytes:
            return {}
        found = {"all": self.link_bytes / self.least_bytes}
        found["like for like"] = found["all"] * SEGMENT_BYTES / (SEGMENT_BYTES + HEADER_BYTES)
        return {"frames": self.frame_bytes / self.least_bytes, **found} if self.frame_bytes else found

    def limit(self) -> tuple[int, str]:
        """The second in which it first fell behind, and why; (-1, "") if it never did."""
        missing = 0
        for one in self.timeline:
            missing += one.expected - one.delivered
            if one.at < self.seconds and (
                one.late_s > LATE_SECONDS or missing > max(50.0, LATE_SECONDS * one.expected)
            ):
                return one.at, _reason(one)
        return -1, ""

    def stretches(self) -> list[tuple[Stretch, float, float, float]]:
        """For each: messages a second in, deliveries a second wanted and made, without its first second."""
        found, begin = [], 0.0
        for stretch in self.profile:
            end = begin + stretch.seconds
            mine = [one for one in self.timeline if begin + 1 <= one.at < end]
            each = max(1, len(mine))
            sums = [sum(getattr(one, name) for one in mine) / each for name in ("sent", "expected", "delivered")]
            found.append((stretch, *sums))
            begin = end
        return [(one, a, b, c) for one, a, b, c in found]

    # --- files ----------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), indent=1) + "\n")
        new.rename(path)

    @classmethod
    def load(cls, path: Path) -> "RealMeasurement":
        data = json.loads(path.read_text())
        data["profile"] = [Stretch(**one) for one in data["profile"]]
        data["timeline"] = [Second(**one) for one in data["timeline"]]
        return cls(**data)

    def brief(self) -> dict[str, Any]:
        """Without what each broker counted."""
        at, why = self.limit()
        return {**asdict(replace(self, work=[])), "ratios": self.ratios, "limit": {"second": at, "reason": why}}


def _reason(one: Second) -> str:
    if one.busiest >= FULL:
        return "a link is full"
    if one.brokers_cores + one.clients_cores >= BUSY * CORES:
        return f"processors: brokers take {one.brokers_cores:.1f} of {CORES}, clients {one.clients_cores:.1f}"
    if one.others_cores >= OTHERS:
        return f"other work on this machine took {one.others_cores:.1f} of {CORES} processors"
    if one.client_most >= FULL:
        return "a process of clients takes a whole processor"
    if one.broker_most >= FULL:
        return "a broker takes a whole processor"
    return "brokers stand still" if one.delivered * 2 < one.expected else "unknown"


def linearity(timeline: Sequence[Second]) -> float:
    """Correlation of the busiest link's use with the input, over the seconds in which something was sent."""
    import numpy as np

    pairs = np.array([(one.sent, one.busiest) for one in timeline if one.sent])
    return float(np.corrcoef(pairs.T)[0, 1]) if len(pairs) > 2 and pairs.std(axis=0).all() else 0.0
