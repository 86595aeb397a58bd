"""Tracking by real brokers: what they record, keep and answer."""

import asyncio
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hardening.kills.tracing import hurt
from hardening.support.links import BrokerNetwork, eventually

from tidings import sync
from tidings.broker.config.tables import AccessTable
from tidings.broker.security.access import AccessRules, GroupMember
from tidings.broker.tracking_thread import TrackingOptions
from tidings.client import Client, connect
from tidings.client import message_builder as composing
from tidings.errors import RemoteError, SecurityError
from tidings.kernel.clock import now_ms
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import PERHAPS_SENT
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.tables import HISTORIES
from tidings.node.clients.session import Principal
from tidings.node.protocol_session import Hello
from tidings.protocols.native.frames import FrameType, control
from tidings.segments import run_markers
from tidings.segments.history_store import TAIL
from tidings.segments.reader import read_rows, segments
from tidings.segments.tail import Tail
from tidings.store.sqlite.store import SqliteStore
from tidings.testing.broker_process import BrokerProcess
from tidings.testing.local_broker import BrokerThread, local_broker, run
from tidings.tracking.query.path import Path as Route
from tidings.tracking.recording.attachments import AttachmentKind
from tidings.tracking.recording.history import BloomSettings
from tidings.tracking.recording.recorder import TrackingSettings
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy

QUICK = TrackingSettings(BloomStrategy(BloomSettings(50, 4096, 12, 200, 100)), persist_ms=100)


def names(path: Route) -> list[str]:
    return [one.peer for _, one in path.subscribers]


@pytest.mark.parametrize(
    "settings", [QUICK, TrackingSettings(AsyncStrategy(800, 200, 100), persist_ms=100)], ids=["bloom", "async"]
)
def test_every_kind_of_subscriber_is_named_now_and_after_a_restart(tmp_path: Path, settings: TrackingSettings) -> None:
    traced: dict[MessageId, list[str]] = {}

    async def first(client: Client) -> None:
        plain = [await client.subscribe("a.>"), await client.subscribe("a.b")]
        private = await client.subscribe("a.>", ack="client")
        durable = await client.subscribe("a.>", durable="audit")
        shared = await client.subscribe("a.>", shared="team")
        queue = await client.subscribe("queue:jobs")
        topic = await client.publish("a.b", {"n": 1}, wait=True)
        stored = await client.publish("a.b", {"n": 2}, persistent=True)
        async with client.transaction() as transaction:
            committed = await transaction.publish("a.b", {"n": 3})
        job = await client.publish("queue:jobs", {}, persistent=True)
        lost = await client.publish("nobody.cares", {}, wait=True)
        for subscription in (*plain, private, durable, shared):
            got = [await subscription.receive(10) for _ in range(3)]
            assert {one.message_id for one in got if one} == {
                topic.message_id,
                stored.message_id,
                committed.message_id,
            }
        assert await queue.receive(10) is not None
        everyone = ["durable:me:audit", "me", "shared:team", "shared:team to me"]
        traced.update(dict.fromkeys((topic.message_id, stored.message_id, committed.message_id), everyone))
        traced.update({job.message_id: ["queue:jobs", "queue:jobs to me"], lost.message_id: []})

    async def check(client: Client) -> None:
        for message, subscribers in traced.items():
            path = await client.trace(message)
            assert (path.confirmed, names(path), path.complete) == (True, subscribers, True)
        absent = await client.trace(str(MessageId(9, 1, next(iter(traced)).ms)))
        assert not absent.confirmed

    async def work() -> None:
        for life in (first, None):
            options = TrackingOptions(settings, tmp_path / "tracking")
            store = SqliteStore(tmp_path / "store.db")
            async with local_broker(store, tracking=options) as (_, url), connect(url, client_id="me") as client:
                if life is not None:
                    await life(client)
                await check(client)

    run(work())


def test_a_message_is_traced_through_a_network_from_any_broker(tmp_path: Path) -> None:
    async def work() -> None:
        edges = [(1, 2), (2, 3), (3, 4), (2, 5)]
        async with BrokerNetwork(tmp_path, edges, tracking=QUICK) as network:
            await eventually(network.known)
            async with (
                connect(network.url(4), client_id="far") as far,
                connect(network.url(2), client_id="near") as near,
                connect(network.url(1)) as publisher,
            ):
                ticks, others = await far.subscribe("ticks.>"), await near.subscribe("ticks.>", selector="n = 2")
                await eventually(network.known)
                sent = [(await publisher.publish("ticks.a", {"n": n}, persistent=n == 2)).message_id for n in (1, 2, 3)]
                assert {one.message_id for _ in sent if (one := await ticks.receive(10))} == set(sent)
                assert await others.receive(10) is not None
                for router in network.routers:
                    async with connect(network.url(router)) as anybody:
                        path = await anybody.trace(sent[1])
                    hops = [(hop.broker, hop.sender) for hop in path.hops]
                    assert hops == [(1, None), (2, 1), (3, 2), (4, 3)]
                    assert [(broker, one.peer) for broker, one in path.subscribers] == [(2, "near"), (4, "far")]
                    assert all(0 <= hop.probability < 1e-3 for hop in path.hops)
                    assert path.complete
                assert names(await near.trace(sent[0])) == ["far"]
            await gone_and_back(network, sent[1])

    async def gone_and_back(network: BrokerNetwork, message: MessageId) -> None:
        await network.stop(3)
        await eventually(lambda: all(3 not in _reachable(network, one) for one in (1, 2, 5)))
        async with connect(network.url(5)) as client:
            path = await client.trace(message)
            assert [hop.broker for hop in path.hops] == [1, 2]
            assert path.unasked == {3: "no route"}
            await network.start(3)
            await eventually(network.known)
            path = await client.trace(message)
            assert [hop.broker for hop in path.hops] == [1, 2, 3, 4]
            assert names(path) == ["near", "far"]

    run(work())


@pytest.mark.parametrize("forwards", [False, True])
def test_a_message_is_traced_under_covering(tmp_path: Path, forwards: bool) -> None:
    settings = TrackingSettings(QUICK.strategy, persist_ms=100, forwards=forwards)

    async def work() -> None:
        edges = [(1, 2), (2, 3), (2, 4)]
        async with BrokerNetwork(tmp_path, edges, tracking=settings, scheme="covering") as network:
            await eventually(network.known)
            async with connect(network.url(3), client_id="far") as far, connect(network.url(1)) as publisher:
                ticks = await far.subscribe("ticks.>")
                got = None
                while got is None:  # until the subscription has come so far
                    await publisher.publish("ticks.a", {"n": 1}, wait=True)
                    got = await ticks.receive(0.2)
                async with connect(network.url(4)) as anybody:
                    while (path := await anybody.trace(got.message_id)).unasked:
                        pass  # on a busy machine an answer may come too late
                assert [(hop.broker, hop.sender) for hop in path.hops] == [(1, None), (2, 1), (3, 2)]
                assert names(path) == ["far"]
                assert path.complete

    run(work())


def _reachable(network: BrokerNetwork, router: int) -> list[int]:
    inside = network.brokers[router].engine.node.network
    assert inside is not None
    return inside.unicast.reachable()


def test_a_search_goes_around_an_origin_that_is_gone(tmp_path: Path) -> None:
    async def work() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2), (2, 3)], tracking=QUICK) as network:
            await eventually(network.known)
            async with connect(network.url(3), client_id="far") as far, connect(network.url(1)) as publisher:
                ticks = await far.subscribe("ticks.>")
                await eventually(network.known)
                sent = await publisher.publish("ticks.a", {"n": 1})
                assert await ticks.receive(10) is not None
            await network.stop(1)
            await eventually(lambda: 1 not in _reachable(network, 3))
            async with connect(network.url(3)) as client:
                path = await client.trace(sent.message_id)
            assert (path.confirmed, path.unasked) == (False, {1: "no route"})
            assert [hop.broker for hop in path.hops if not hop.opaque] == [2, 3]
            assert names(path) == ["far"]

    run(work())


class Door:
    """Alice may trace, nobody else may."""

    open = False

    def log_in(self, hello: Hello, address: str, certificate: str) -> Principal:
        everybody = AccessTable(user="*", operations=("publish", "subscribe"), destination=">")
        tracer = AccessTable(user="alice", operations=("trace",), destination=">")
        return GroupMember(hello.user, AccessRules.of((everybody, tracer)).concerning(hello.user, ()))

    def log_in_at_once(self, hello: Hello, address: str, certificate: str) -> None:
        return None

    def proven(self, hello: Hello, address: str, certificate: str) -> bool:
        return False

    def token(self, principal: Principal) -> str:
        return ""

    def still(self, principal: Principal) -> bool:
        return True


def test_only_those_trace_who_may() -> None:
    async def work() -> None:
        async with (
            local_broker(guard=Door()) as (_, url),
            connect(url, user="bob") as bob,
            connect(url, user="alice") as alice,
        ):
            sent = await bob.publish("a", {}, wait=True)
            with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                await bob.trace(sent.message_id)
            path = await alice.trace(sent.message_id)
            assert (path.confirmed, path.unknown) == (False, (1,)), "nothing is recorded, and it says so"

    run(work())


def test_bad_ids_are_refused_and_the_connection_goes_on() -> None:
    async def work() -> None:
        async with local_broker() as (_, url), connect(url) as client:
            for wrong in ("", "xyz", "00", "0" * 32):
                with pytest.raises(RemoteError, match="E_MESSAGE_ID_TEXT"):
                    await client.trace(wrong)
            assert not (await client.trace("ID:" + str(MessageId(1, 1, 1)))).confirmed

    run(work())


def test_the_blocking_client_traces_too() -> None:
    with BrokerThread() as broker, sync.connect(broker.url) as client:
        sent = client.publish("a", {}, wait=True)
        assert client.trace(sent.message_id).message == sent.message_id


def test_clocks_that_are_off_or_drift_are_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = composing.now_ms
    off_ms = 7_200_000

    async def work() -> None:
        nonlocal off_ms
        options = TrackingOptions(TrackingSettings(BloomStrategy(BloomSettings(skew_ms=30_000))), tmp_path)
        async with local_broker(tracking=options) as (broker, url), connect(url) as client:
            first = await client.publish("a", {}, wait=True)
            assert abs(first.message_id.ms - now_ms()) < 30_000, "δ came with the welcome"
            off_ms -= 3_600_000
            drifted = await client.publish("a", {}, wait=True)
            assert drifted.message_id > first.message_id, "ids go up whatever the clock does"
            off_ms += 7_200_000
            late = await client.publish("a", {}, wait=True)
            assert late.message_id.ms - now_ms() > 3_000_000, "the old δ still"
            (session,) = broker.engine.view.clients.values()
            assert session.skew is not None
            await eventually(lambda: session.skew is not None and session.skew.delta_ms < -10_000_000)
            for message in (first, drifted, late):
                assert (await client.trace(message.message_id)).confirmed

    for module in ("connection.reconnecting_connection", "message_builder"):
        monkeypatch.setattr(f"tidings.client.{module}.now_ms", lambda: real() + off_ms)
    run(work())


def test_what_was_stored_is_found_after_kill_9_and_the_rest_is_unknown(tmp_path: Path) -> None:
    async def fill(url: str) -> list[MessageId]:
        async with connect(url, client_id="me") as client:
            ticks = await client.subscribe("ticks.>")
            sent = [(await client.publish("ticks.a", {"n": n}, wait=True)).message_id for n in range(20)]
            for _ in sent:
                assert await ticks.receive(10) is not None
            root = tmp_path / "tidings-data" / "tracking"
            await eventually(lambda: _stored(root) >= {"publish", "deliver"})
        return sent

    async def check(url: str, sent: list[MessageId]) -> None:
        async with connect(url) as client:
            for message in sent:
                path = await client.trace(message)
                assert path.confirmed
                assert names(path) == ["me"]
            stranger = await client.trace(MessageId(77, 1, sent[-1].ms))
            assert not stranger.confirmed
            assert stranger.unknown == (1,), "it may have been lost with the process"

    more = "[tracking]\npersist_ms = 100\nskew_ms = 5000\njitter_ms = 5000\nskew_between_brokers_ms = 10000\n"
    with BrokerProcess(tmp_path, more) as broker:
        sent = asyncio.run(fill(broker.url))
        broker.signal(signal.SIGKILL)
        broker.process.wait()
    with BrokerProcess(tmp_path, more) as broker:
        asyncio.run(check(broker.url, sent))
        assert broker.stop() == 0


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_what_passed_while_nothing_was_recorded_is_unknown_and_not_denied(
    tmp_path: Path, ending: signal.Signals
) -> None:
    """bloom, none, bloom in one data directory; `none` still answers for the time before it."""
    sent: list[MessageId] = []

    async def live(url: str) -> list[tuple[bool, tuple[int, ...]]]:
        async with connect(url) as client:
            sent.append((await client.publish("a", {}, wait=True)).message_id)
            paths = [await client.trace(message) for message in sent]
        return [(path.confirmed, path.unknown) for path in paths]

    told = []
    broker = BrokerProcess(tmp_path)
    for strategy in ("bloom", "none", "bloom"):
        more = "skew_ms = 1\njitter_ms = 1\nskew_between_brokers_ms = 2\n"
        broker.configure(f'[tracking]\nstrategy = "{strategy}"\n{more}')
        with broker:
            told.append(asyncio.run(live(broker.url)))
            broker.signal(ending if strategy == "none" else signal.SIGTERM)
            broker.process.wait()
    found, unknown = (True, ()), (False, (1,))
    assert told == [[found], [found, unknown], [found, unknown, found]]


def test_an_era_is_on_disk_before_anybody_is_served(tmp_path: Path) -> None:
    """A process that is killed in its first moment has left a gap."""

    async def work() -> None:
        async with local_broker(tracking=TrackingOptions(QUICK, tmp_path)):
            (era,) = run_markers.signed(tmp_path, 1)
            assert (era.kind, era.peer, era.attached) == (AttachmentKind.ERA, "bloom", True)

    run(work())


def test_killed_twice_at_random_it_denies_nothing_that_was(tmp_path: Path) -> None:
    told = hurt(tmp_path, 2, Random(1), seconds_max=1.0)
    assert told.problems == []
    assert told.found + told.unknown > 5


def _stored(root: Path) -> set[str]:
    """Kinds of histories with all twenty messages on disk."""
    counts = Counter[str]()
    for entry in Tail(root / TAIL, 1).entries:
        counts[entry.key.kind.value] += entry.count
    return {kind for kind, count in counts.items() if count == 20}


def test_copies_that_have_grown_are_deleted(tmp_path: Path) -> None:
    async def work() -> None:
        async with local_broker(tracking=TrackingOptions(QUICK, tmp_path)) as (broker, url), connect(url) as client:
            for count in range(1, 5):
                await client.publish("a", {"n": count}, wait=True)
                await eventually(partial(_has_count, tmp_path, count))
            broker.tracking._store.maintain()  # as its thread does every few seconds; it is idle now
            assert _counts(tmp_path) == {4}
            assert len(segments(tmp_path, HISTORIES)) == 1

    run(work())


def _has_count(root: Path, count: int) -> bool:
    return count in _counts(root)


def _counts(root: Path) -> set[object]:
    return {row["count"] for row in read_rows(root, HISTORIES)}


async def _raw(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has logged in, and may send anything."""
    host, _, port = url.rpartition("/")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(control(FrameType.HELLO, {"version": 1, "client": "mover"}))
    assert (await reader.readexactly(8))[4] == FrameType.WELCOME
    return reader, writer


def _frame(message: MessageId, *, again: bool) -> bytes:
    payload = encode_message(Message(Destination("ticks.a"), {"n": 1}, id=message))
    return encode_frame(FrameType.PUBLISH, bytes(4) + payload, flags=PERHAPS_SENT if again else 0)


def test_a_message_whose_publisher_failed_over_is_found_where_it_entered(tmp_path: Path) -> None:
    """Its id names broker 2 or one that there never was; it was published at broker 1, and delivered at 3."""

    async def work() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2), (1, 3)], tracking=QUICK) as network:
            await eventually(network.known)
            async with connect(network.url(3), client_id="far") as far, connect(network.url(2), client_id="own") as own:
                ticks, mine = await far.subscribe("ticks.>"), await own.subscribe("ticks.>")
                await eventually(network.known)
                _, writer = await _raw(network.url(1))
                sent = [MessageId(77, broker, now_ms()) for broker in (2, 999)]
                for message in sent:
                    writer.write(_frame(message, again=True))
                    for subscription in (ticks, mine):
                        got = await subscription.receive(10)
                        assert got is not None
                        assert got.message_id == message
                for message in sent:
                    path = await far.trace(message)
                    assert (path.confirmed, path.entered) == (True, (1,))
                    assert sorted(names(path)) == ["far", "own"]
                    assert {hop.broker: hop.sender for hop in path.hops if not hop.opaque} == {1: None, 2: 1, 3: 1}
                    assert path.false_positives == ()
                never = await far.trace(MessageId(78, 2, sent[0].ms))
                assert (never.confirmed, never.entered, names(never)) == (False, (), [])
                writer.close()

    run(work())


def test_an_id_that_names_another_broker_is_refused_unless_it_is_sent_again(tmp_path: Path) -> None:
    async def work() -> None:
        options = TrackingOptions(QUICK, tmp_path / "tracking")
        async with local_broker(tracking=options) as (_, url):
            reader, writer = await _raw(url)
            writer.write(_frame(MessageId(77, 2, now_ms()), again=False))
            assert b"E_MESSAGE_ORIGIN" in await asyncio.wait_for(reader.read(), 10)
            writer.close()

    run(work())


def test_invented_brokers_cost_no_memory(tmp_path: Path) -> None:
    async def work() -> None:
        options = TrackingOptions(QUICK, tmp_path / "tracking")
        async with local_broker(tracking=options) as (server, url), connect(url) as client:
            _, writer = await _raw(url)
            ids = [MessageId(77, 1000 + number, now_ms()) for number in range(20_000)]
            writer.write(b"".join(_frame(message, again=True) for message in ids))
            path = await client.trace(ids[-1])
            while not path.confirmed:
                path = await client.trace(ids[-1])
            assert path.entered == (1,)
            assert (await client.trace(ids[77])).confirmed
            assert server.engine.recorder.memory_bytes < 4 << 20
            writer.close()

    run(work())


def test_a_trace_names_the_publisher(tmp_path: Path) -> None:
    async def work() -> None:
        message = MessageId.NONE
        for _ in range(2):
            options = TrackingOptions(QUICK, tmp_path / "tracking")
            async with local_broker(tracking=options) as (_, url), connect(url, client_id="till-4") as client:
                if message == MessageId.NONE:
                    message = (await client.publish("ticks.a", {}, wait=True)).message_id
                path = await client.trace(message)
                assert "client 'till-4'" in path.publisher
                assert "127.0.0.1" in path.publisher
                stranger = MessageId(message.publisher ^ 1, message.broker, message.ms)
                assert (await client.trace(stranger)).publisher == ""

    run(work())


def test_another_machine_knows_from_copies_what_was_recorded(tmp_path: Path) -> None:
    copies = (tmp_path / "shared").as_uri()

    async def trace(folder: str, uri: str, tenure: int, id: MessageId | None = None) -> tuple[MessageId, bool, bool]:
        """Of a message that is published now, or by an earlier broker: is it found, and is all known?"""
        options = TrackingOptions(QUICK, tmp_path / folder, copies=uri, tenure=tenure)
        async with local_broker(tracking=options) as (_, url), connect(url, client_id="me") as client:
            if id is None:
                id = (await client.publish("a", {"n": 1}, wait=True)).message_id
            path = await client.trace(id)
            return id, path.confirmed, path.complete

    async def work() -> None:
        id, confirmed, complete = await trace("one", copies, 1)
        assert (confirmed, complete) == (True, True)
        assert (await trace("two", copies, 2, id))[1:] == (True, True), "on another machine"
        assert (await trace("one", copies, 3, id))[1:] == (True, True), "and back"
        for tenure in (4, 5):
            assert (await trace("three", "", tenure, id))[1:] == (False, False), "without copies nobody can say"
        (tmp_path / "broken").write_text("no folder")
        assert (await trace("four", (tmp_path / "broken").as_uri(), 6, id))[1:] == (False, False)
        mine, *_ = await trace("five", "", 1)
        assert (await trace("five", "", 2, mine))[1:] == (True, True)
        assert (await trace("five", "", 4, id))[1:] == (False, False), "another machine was the broker in between"

    run(work())
