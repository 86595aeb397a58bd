"""What a run of the scale-out says about itself, on runs that are made up."""

from dataclasses import replace
from pathlib import Path

import pytest

from tidings.experiments.bdrp.load_process import LoadDescription, Stretch
from tidings.experiments.bdrp.real_measurement import (
    CORES,
    HEADER_BYTES,
    SEGMENT_BYTES,
    RealMeasurement,
    Second,
    linearity,
)

RAMP = [Stretch(100.0, 500.0, 4.0)]


def second(at: int, sent: int = 100, **more: float) -> Second:
    return replace(Second(at, sent, sent * 4, sent * 4, sent / 1000), **more)  # type: ignore[arg-type]


def measured(*seconds: Second) -> RealMeasurement:
    return RealMeasurement(8, "graded", RAMP, 1, timeline=list(seconds))


def test_bytes_against_the_least_with_and_without_headers() -> None:
    whole = replace(measured(), least_bytes=SEGMENT_BYTES, link_bytes=SEGMENT_BYTES + HEADER_BYTES, frame_bytes=2896)
    assert whole.ratios["like for like"] == pytest.approx(1.0)
    assert whole.ratios["all"] == pytest.approx(1 + HEADER_BYTES / SEGMENT_BYTES)
    assert whole.ratios["frames"] == 2.0
    assert "frames" not in replace(whole, frame_bytes=0).ratios
    assert measured().ratios == {}


def test_a_run_that_keeps_up_has_no_limit() -> None:
    assert measured(*(second(at, 100 + at) for at in range(6))).limit() == (-1, "")


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"delivered": 0, "busiest": 0.97}, "a link is full"),
        ({"late_s": 2.0, "brokers_cores": 0.8 * CORES, "clients_cores": 0.1 * CORES}, "processors: brokers take"),
        ({"late_s": 2.0, "others_cores": 1.5}, "other work on this machine"),
        ({"late_s": 2.0, "client_most": 0.95}, "a process of clients"),
        ({"delivered": 0, "broker_most": 0.95}, "a broker takes a whole processor"),
        ({"delivered": 0}, "brokers stand still"),
        ({"late_s": 2.0}, "unknown"),
    ],
)
def test_it_says_when_and_why_it_fell_behind(trouble: dict[str, float], reason: str) -> None:
    at, why = measured(second(0), second(1), second(2, 100, **trouble), second(3)).limit()
    assert at == 2
    assert why.startswith(reason)


def test_stretches_leave_out_their_first_second() -> None:
    profile = [Stretch(100.0, 100.0, 2.0), Stretch(200.0, 200.0, 3.0)]
    timeline = [second(0, 1), second(1, 100), second(2, 1), second(3, 200), second(4, 220), second(5, 0)]
    found = replace(measured(*timeline), profile=profile).stretches()
    assert [rates for _, *rates in found] == [[100.0, 400.0, 400.0], [210.0, 840.0, 840.0]]


def test_it_is_kept_in_a_file(tmp_path: Path) -> None:
    found = measured(second(0), second(1))
    found.save(tmp_path / "ramp" / "one.json")
    assert RealMeasurement.load(tmp_path / "ramp" / "one.json") == found
    assert found.brief()["limit"] == {"second": -1, "reason": ""}


def test_the_busiest_link_follows_the_input() -> None:
    assert linearity([second(at, 100 * at) for at in range(1, 6)]) == pytest.approx(1.0)
    assert linearity([]) == 0.0


def test_a_load_follows_its_profile() -> None:
    load = LoadDescription("", 0, "native", [1], 1, [Stretch(100.0, 100.0, 10.0), Stretch(100.0, 500.0, 10.0)], "", "1")
    times = list(load.times())
    assert times == sorted(times) == list(load.times())
    assert load.seconds == 20.0
    assert sum(at < 10 for at in times) == pytest.approx(1000, rel=0.15)
    assert sum(at >= 10 for at in times) == pytest.approx(3000, rel=0.15)
    assert times[-1] < 20.0
