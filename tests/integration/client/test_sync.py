"""The blocking client."""

import asyncio
import importlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

import tidings
from tidings.client.blocking import EventLoopThread
from tidings.testing.local_broker import BrokerThread


@pytest.fixture
def url() -> Iterator[str]:
    """A broker on a thread of its own."""
    with BrokerThread() as broker:
        yield broker.url


def test_publish_subscribe_and_transactions_block(url: str) -> None:
    with tidings.sync.connect(url, client_id="me") as client:
        ticks = client.subscribe("ticks.>", selector="price > 20", durable="d", ack="client")
        client.publish("ticks.xyz", {"price": 50}, persistent=True)
        for message in ticks:
            assert message.properties == {"price": 50}
            message.ack()
            break
        with client.transaction() as work:
            work.publish("ticks.abc", {"price": 60}, persistent=True)
            assert ticks.receive(0.05) is None
        got = ticks.receive(30)
        assert got is not None
        got.reject()
        ticks.close()
        client.forget("d")
        dead = client.subscribe("queue:dead-letters").receive(30)
        assert dead is not None
        assert dead.properties["price"] == 60


def test_errors_come_as_errors(url: str) -> None:
    with tidings.sync.connect(url) as client, pytest.raises(tidings.RemoteError) as caught:
        client.subscribe("a..b")
    assert caught.value.code == "E_DESTINATION_EMPTY"


def test_a_queue_is_looked_into(url: str) -> None:
    with tidings.sync.connect(url) as client:
        for number in range(3):
            client.publish("queue:q", body=b"%d" % number, wait=True)
        queue = client.queue("queue:q")
        found = list(queue.browse(page=2))
        assert [one.message.body for one in found] == [b"0", b"1", b"2"]
        assert queue.move("queue:r", tags=[found[1].tag]) == 1
        assert queue.purge() == 2
        assert client.errors == []


def test_a_receipt_is_waited_for(url: str) -> None:
    with tidings.sync.connect(url) as client:
        receipts = [client.publish("queue:q", {"n": n}, persistent=True, wait=False) for n in range(3)]
        assert [receipt.confirmed() for receipt in receipts] == receipts
        assert [one.message.id for one in client.queue("queue:q").browse()] == [one.message_id for one in receipts]
        with client.transaction() as work:
            assert work.publish("queue:q", wait=False).confirmed().message_id


def test_threads_that_make_the_first_clients_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    new_event_loop = asyncio.new_event_loop

    def slowly() -> asyncio.AbstractEventLoop:
        time.sleep(0.02)  # so that others come meanwhile
        made.append(new_event_loop())
        return made[-1]

    monkeypatch.setattr(asyncio, "new_event_loop", slowly)
    shared = EventLoopThread()
    threads = [threading.Thread(target=shared.get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [shared.get()]
    made[0].call_soon_threadsafe(made[0].stop)
    assert shared._thread is not None
    shared._thread.join()
    made[0].close()


def test_a_blocking_call_from_on_error_is_refused() -> None:
    heard: list[tidings.TidingsError] = []
    called = threading.Event()

    def on_error(_: tidings.TidingsError) -> None:
        try:
            client.publish("t")
        except tidings.TidingsError as error:
            heard.append(error)
        called.set()

    with BrokerThread() as broker, tidings.sync.connect(broker.url, on_error=on_error) as client:
        assert broker._broker is not None
        broker._loop.call_soon_threadsafe(broker._broker.clients.end_all, "E_TOO_MUCH", "enough for today")
        assert called.wait(30)
        client.publish("t", wait=True)
    assert [error.code for error in heard] == ["E_BLOCKING_CALL"]


def test_a_forked_process_has_clients_of_its_own(url: str) -> None:
    with tidings.sync.connect(url) as client:
        client.publish("queue:q", {"by": "parent"}, persistent=True)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(30)
                with pytest.raises(tidings.ConnectionLostError, match="E_FORKED"):
                    client.publish("queue:q")
                with tidings.sync.connect(url) as own:
                    own.publish("queue:q", {"by": "child"}, persistent=True)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        client.publish("queue:q", {"by": "parent"}, persistent=True)
        found = [one.message.properties["by"] for one in client.queue("queue:q").browse()]
        assert found == ["parent", "child", "parent"]


def test_it_is_imported_by_its_short_name() -> None:
    assert importlib.import_module("tidings.sync") is tidings.sync


def test_no_tags_are_not_all_messages(url: str) -> None:
    with tidings.sync.connect(url) as client:
        client.publish("queue:q", persistent=True)
        assert client.queue("queue:q").purge(tags=[]) == client.queue("queue:q").move("queue:r", tags=[]) == 0
        assert client.queue("queue:q").purge() == 1


@pytest.mark.parametrize("ack", ["auto", "client"])
def test_what_came_while_its_receiver_was_interrupted_is_the_next_one(
    url: str, monkeypatch: pytest.MonkeyPatch, ack: str
) -> None:
    def interrupted(self: "Future[object]", timeout: float | None = None) -> object:
        usual(self, timeout)
        raise KeyboardInterrupt

    usual = Future.result
    with tidings.sync.connect(url) as client:
        jobs = client.subscribe("queue:q", ack=ack, window=2)
        for n in range(4):
            client.publish("queue:q", {"n": n}, persistent=True)
        for n in range(4):
            with monkeypatch.context() as patch:
                patch.setattr(Future, "result", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    jobs.receive()
            got = jobs.receive(30)
            assert got is not None
            assert (got.properties["n"], got.redelivered) == (n, False)
            if ack == "client":
                got.ack()
        jobs.close()
        assert list(client.queue("queue:q").browse()) == []
