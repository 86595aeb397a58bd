import asyncio
import json
import re
import time

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.http.metrics import MAILBOXES_MAX, SLOW_SECONDS, Metrics
from tidings.client import connect
from tidings.errors import StoreError
from tidings.node.settings import NodeSettings
from tidings.protocols.stomp.session import StompSession
from tidings.testing.local_broker import local_broker, run

SAMPLE = re.compile(r'tidings_[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\.)*"(,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? -?[0-9.e+-]+')


def test_the_text_is_what_prometheus_reads() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            await client.subscribe('queue:a "quoted" \\ name')
            await client.subscribe("t", ack="client")
            page = Metrics(here.broker.view).metrics()
            assert page.type.startswith("text/plain; version=0.0.4")
            kinds: dict[str, str] = {}
            for line in page.body.splitlines():
                if line.startswith("# TYPE "):
                    _, _, name, kind = line.split(" ")
                    assert name not in kinds, f"{name} twice"
                    kinds[name] = kind
                elif not line.startswith("# HELP "):
                    assert SAMPLE.fullmatch(line), line
                    name = re.sub(r"_(bucket|sum|count)$", "", line.split("{")[0].split(" ")[0])
                    assert name in kinds
            assert set(kinds.values()) == {"counter", "gauge", "histogram"}
            assert 'mailbox="queue:a \\"quoted\\" \\\\ name"' in page.body
            assert 'tidings_mailboxes{kind="private"} 1' in page.body
            assert re.search(
                r'^tidings_build_info\{version="[^"]+",python="3[^"]+",broker="tidings"\} 1$', page.body, re.MULTILINE
            )

    run(check())


def test_names_and_kinds_follow_the_conventions_of_prometheus() -> None:
    """What `promtool check metrics` complains about."""

    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            await client.publish("queue:a", wait=True)
            body = Metrics(here.broker.view).metrics().body
            kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", body, re.MULTILINE))
            helped = dict(re.findall(r"^# HELP (\S+) (.+)$", body, re.MULTILINE))
            assert kinds.keys() == helped.keys()
            for name, kind in kinds.items():
                assert name.endswith("_total") == (kind == "counter"), name
                assert not re.search(r"_(count|sum|bucket|counter|gauge|info_total|milliseconds|kilobytes)$", name), (
                    name
                )
                if kind == "histogram":
                    bounds = re.findall(rf'^{name}_bucket{{le="([^"]+)"}} (\S+)$', body, re.MULTILINE)
                    assert bounds[-1][0] == "+Inf"
                    assert [float(count) for _, count in bounds] == sorted(float(count) for _, count in bounds)
                    assert re.search(rf"^{name}_count {bounds[-1][1]}$", body, re.MULTILINE)
            series = [line.rpartition(" ")[0] for line in body.splitlines() if not line.startswith("#")]
            assert len(series) == len(set(series))

    run(check())


def test_messages_and_connections_are_counted_by_protocol() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            taking = await client.subscribe("t")
            port = await here.broker.listen(ListenerSettings(StompSession, "127.0.0.1", 0))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/topic/t\nreceipt:1\n\nhi\0")
            assert b"RECEIPT" in (await reader.readuntil(b"receipt-id"))
            await client.publish("t", wait=True)
            for _ in range(2):
                await taking.receive()
            body = Metrics(here.broker.view).metrics().body
            for protocol, received, delivered in (("native", 1, 2), ("stomp", 1, 0)):
                assert f'tidings_protocol_connections{{protocol="{protocol}"}} 1' in body
                assert f'tidings_protocol_messages_received_total{{protocol="{protocol}"}} {received}' in body
                assert f'tidings_protocol_messages_delivered_total{{protocol="{protocol}"}} {delivered}' in body
            writer.close()

    run(check())


def test_many_mailboxes_do_not_make_a_long_page() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            for number in range(MAILBOXES_MAX + 20):
                await client.publish(f"queue:q{number}", wait=number == MAILBOXES_MAX + 19)
            body = Metrics(here.broker.view).metrics().body
            assert body.count("tidings_mailbox_waiting{") == MAILBOXES_MAX
            assert f'tidings_mailboxes_waiting{{kind="queue"}} {MAILBOXES_MAX + 20}' in body

    run(check())


def test_what_mailboxes_drop_and_push_back_is_counted_when_they_are_gone() -> None:
    async def check() -> None:
        async with local_broker(settings=NodeSettings(sink_bytes_max=3_000)) as here, connect(here.url) as client:
            for policy in ("drop-newest", "drop-oldest"):
                taking = await client.subscribe("t", ack="client", window=1, policy=policy)
                for number in range(20):
                    await client.publish("t", body=bytes(1_000), wait=number == 19)
                await taking.close()
            body = Metrics(here.broker.view).metrics().body
            drops = dict(re.findall(r'messages_dropped_total{reason="(\w+)"} (\d+)', body))
            assert int(drops["newest"]) > 10
            assert int(drops["oldest"]) > 10

    run(check())


def test_health_tells_the_state_of_the_store() -> None:
    async def check() -> None:
        async with local_broker() as here:
            metrics = Metrics(here.broker.view)
            page = metrics.health()
            assert (page.status, json.loads(page.body)["store"]) == (200, "ok")
            assert here.broker.writer is not None
            assert "\ntidings_store_write_age_seconds 0.0\n" in metrics.metrics().body
            here.broker.writer._began = time.perf_counter() - 2 * SLOW_SECONDS  # of a write that does not end
            page = metrics.health()
            assert (page.status, json.loads(page.body)["store"]) == (200, "slow")
            (age,) = re.findall(r"\ntidings_store_write_age_seconds (\S+)", metrics.metrics().body)
            assert float(age) >= 2 * SLOW_SECONDS
            here.broker.writer.health.error = StoreError("E_STORE_FULL", "no space")
            page = metrics.health()
            assert (page.status, json.loads(page.body)["store"]) == (200, "E_STORE_FULL")
            assert (metrics.live().status, metrics.ready().status) == (200, 200)
            here.broker.ready = False
            assert metrics.health().status == 503
            assert (metrics.live().status, metrics.ready().status) == (200, 503)

    run(check())


def test_delayed_messages_are_counted_while_they_wait() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            await client.publish("queue:later", body=b"x", deliver_in=3600)
            assert "\ntidings_messages_delayed 1\n" in Metrics(here.broker.view).metrics().body

    run(check())
