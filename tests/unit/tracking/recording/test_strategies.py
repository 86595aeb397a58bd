"""Strategies by name, and the exact log."""

import pytest

from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.tracking.ids import id_array
from tidings.tracking.recording.history import BloomSettings, FilterEncoding, HistoryKind, Key
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy, NoStrategy, RunStrategy, strategy

KEY = Key(HistoryKind.DELIVER, 3, "audit")
IDS = id_array(*(MessageId(7, 3, 1000 + i) for i in range(25)))


def test_by_name() -> None:
    bloom = BloomSettings(capacity=5, skew_ms=7, jitter_ms=9)
    assert strategy("runs", bloom) == RunStrategy(bloom.skew_ms, bloom.jitter_ms)
    assert strategy("bloom", bloom) == BloomStrategy(bloom)
    assert strategy("async", bloom, 320) == AsyncStrategy(320, 7, 9)
    assert strategy("none") == NoStrategy()
    assert [strategy(name).name for name in ("bloom", "async", "none")] == ["bloom", "async", "none"]
    with pytest.raises(UsageError, match="E_TRACKING_STRATEGY"):
        strategy("perfect")
    with pytest.raises(UsageError, match="E_TRACKING_BUFFER"):
        strategy("async", buffer_bytes=15)


def test_the_log_is_stored_when_the_buffer_is_full_or_on_t_p() -> None:
    log = AsyncStrategy(buffer_bytes=160).open(KEY, incarnation=4)
    full = log.add(IDS, 1030)
    assert [(entry.count, entry.full, entry.encoding) for entry in full] == [(10, True, FilterEncoding.IDS)] * 2
    assert log.memory_bytes == 80
    current = log.matching(1022)
    assert current is not None
    assert current.contains(IDS[20:]).all()
    assert not current.contains(IDS[:20]).any()
    assert current.fpp() == 0.0
    (rest,) = log.persist(2000)
    assert (rest.count, rest.full, rest.sequence, rest.incarnation) == (5, False, 2, 4)
    assert rest.opened().contains(IDS).tolist() == [False] * 20 + [True] * 5
    assert log.persist(3000) == log.close(3000) == []
    assert log.matching(1022) is None


def test_none_is_nothing() -> None:
    none = NoStrategy().open(KEY)
    assert none.add(IDS, 5) == none.persist(6) == none.close(7) == []
    assert (none.dirty, none.memory_bytes, none.matching(1000), none.key) == (False, 0, None, KEY)
