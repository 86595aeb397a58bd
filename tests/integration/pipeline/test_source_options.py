"""Options of the data source, read without Spark: what is refused, and for how long a broker is tried."""

import time

import pytest

from tidings.client import sync
from tidings.errors import ConnectionLostError, UsageError
from tidings.pipeline.source.options import BrokerAccess, ReadOptions, WriteOptions
from tidings.testing.local_broker import BrokerThread

NOWHERE = "tidings://127.0.0.1:1"  # a port that nothing listens on


def test_an_unreachable_broker_is_tried_for_the_given_time() -> None:
    began = time.monotonic()
    with pytest.raises(ConnectionLostError, match="E_CONNECT"):
        BrokerAccess(NOWHERE, retry_seconds=1.2).connect()
    assert 1.2 <= time.monotonic() - began < 60


def test_a_broker_that_comes_back_is_used() -> None:
    with BrokerThread() as broker:
        urls = iter([NOWHERE, NOWHERE, broker.url])
        access = BrokerAccess(broker.url, retry_seconds=60)
        with access.patiently(lambda: sync.connect(next(urls))) as client:
            assert client.publish("a", {"n": 1}, persistent=True)
        assert list(urls) == []


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"tlsCa": "ca.pem"}, "tlsCa, tlsCertificate and tlsKey need"),
        ({"tlsKey": "key.pem", "url": "tidings+tls://x"}, "tlsKey: set tlsCertificate"),
        ({"retrySeconds": "soon"}, "retrySeconds: must be a number"),
        ({"retrySeconds": "nan"}, "retrySeconds: must be a number"),
        ({"startOffset": "-1"}, "startOffset: must be a number of at least 0, earliest or latest"),
        ({"release": "true", "startTime": "2026-11-15"}, "release: it would delete"),
        ({"ofset": "1"}, "ofset: unknown option; known options are ageSeconds, "),
    ],
)
def test_what_is_wrong_is_refused_with_a_remedy(given: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError, match=f"E_SOURCE_OPTION: {reason}"):
        ReadOptions.of({"subscription": "audit"} | given)


def test_defaults_delete_nothing_and_retry_for_minutes() -> None:
    options = ReadOptions.of(
        {"subscription": "audit", "checkpointLocation": "x", "endTime": "2026-11-15T00:00:01+01:00"}
    )
    assert not options.release
    assert options.access.retry_seconds >= 180
    assert options.selector == "JMSTimestamp < 1794697201000"
    assert WriteOptions.of({"destination": "a"}, False).transaction_bytes < 64 << 20
