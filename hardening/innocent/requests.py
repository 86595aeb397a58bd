"""Attacks by requests: subscriptions, selectors, transactions, queues, retained messages, the management API."""

import http.client
import json
import time
from functools import partial
from itertools import count

from hardening.innocent.wire import Native, Target, message, publish, publish_until
from tidings.model.selector import parser
from tidings.model.values import Value
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import FrameType

SETTINGS, LIMITS = NodeSettings(), BrokerLimits()
QUEUE_MESSAGES, QUEUE_BYTES = 20_000, 500
MAILBOXES = 5_000  # as many as are made in a few seconds; a broker may have more


def subscriptions(target: Target) -> None:
    """All that a connection may have, then the end of the connection, again and again."""
    most = SETTINGS.subscriptions_max
    while not target.over:
        client = Native(target)
        client.send(client.subscribe(n, f"t.{n}", selector=f"n = {n} AND kind = 'x'") for n in range(1, most + 1))
        client.wait(FrameType.OK, times=most)
        client.close()


def same_selector_often(target: Target) -> None:
    """Subscriptions that all get each message of a slow stream, so that one message is delivered thousands of times."""
    client, most = Native(target), SETTINGS.subscriptions_max
    client.send(client.subscribe(n, "all") for n in range(1, most + 1))
    client.wait(FrameType.OK, times=most)
    publish_until(target, Native(target), publish(message("all", {}, b"x")))


def durable_subscriptions(target: Target, most: int = MAILBOXES) -> None:
    each, made = 5_000, 0
    while made < most and not target.over:
        client = Native(target, client=f"c{made}")
        client.send(client.subscribe(n, f"t.{made + n}", durable=f"d{n}") for n in range(1, each + 1))
        client.wait(FrameType.OK, times=each)
        made += each
        client.close()


def one_mailbox_more(target: Target) -> None:
    """Requests for queues and durable subscriptions beyond the limit; pages that count them all."""
    client, number = Native(target, client="more"), 0
    while not target.over:
        client.send(client.subscribe(number + n, "t", durable=f"m{number + n}") for n in range(1, 101))
        client.wait(FrameType.OK, times=100)
        number += 100
        metrics(target, times=1)


def metrics(target: Target, times: int = 1 << 30) -> None:
    for _ in range(times):
        if target.over:
            return
        for path in ("/metrics", "/health"):
            _get(target, path)


def _get(target: Target, path: str, method: str = "GET") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", target.http_port, timeout=60)
    connection.request(method, path, headers={"X-Requested-With": "x"})
    answer = connection.getresponse().read()
    connection.close()
    return answer


def management(target: Target) -> None:
    """The longest pages of the longest lists."""
    paths = [
        f"/api/v1/{name}?limit=200&offset={offset}&containing={text}"
        for name in ("queues", "subscriptions", "connections", "destinations", "traffic")
        for offset, text in ((0, ""), (4_900, ""), (0, "99"), (0, "none-has-this"))
    ]
    while not target.over:
        for path in [*paths, "/api/v1/status"]:
            answer = json.loads(_get(target, path))
            assert "error" not in answer or "E_" in json.dumps(answer), answer


def transactions(target: Target) -> None:
    most = SETTINGS.transactions_max
    frame = message("t.nobody", {"n": 1}, bytes(100))
    ends = (FrameType.COMMIT, FrameType.ROLLBACK, None)
    while not target.over:
        for end in ends:
            client = Native(target)
            client.send(client.request(FrameType.BEGIN, {}, session=n) for n in range(1, most + 1))
            client.wait(FrameType.OK, times=most)
            client.send(publish(frame, session=n) * 10 for n in range(1, most + 1))
            if end is not None:
                client.send(client.request(end, {}, session=n) for n in range(1, most + 1))
                client.wait(FrameType.OK, times=most)
            else:
                client.ask(FrameType.SYNC, {})
            client.close()


def transaction_bytes(target: Target, body: int, *, persistent: bool) -> None:
    """As many bytes as a transaction may have, committed, rolled back, and left."""
    encoded = message("queue:sink", {"n": 1}, bytes(body), persistent=persistent)
    frame = publish(encoded, session=1)
    most = min(SETTINGS.transaction_messages_max, SETTINGS.transaction_bytes_max // len(encoded) - 1)
    reader = Native(target)
    reader.ask(FrameType.SUBSCRIBE, {"subscription": 1, "destination": "queue:sink"})
    while not target.over:
        for end in (FrameType.COMMIT, FrameType.ROLLBACK, None):
            client = Native(target)
            client.ask(FrameType.BEGIN, {}, session=1)
            for at in range(0, most, 1000):
                client.send([frame * min(1000, most - at)])
            client.ask(FrameType.SYNC, {}) if end is None else client.ask(end, {}, session=1)
            client.close()
            Native(target).ask(FrameType.PURGE, {"queue": "queue:sink"})


def fill_retained(target: Target) -> None:
    client = Native(target)
    client.ask(FrameType.RETAIN, {"name": "kept", "destination": "kept", "bytes_max": SETTINGS.retained_bytes_max})
    _fill(client, "kept")


def _fill(client: Native, destination: str) -> None:
    frames = [
        publish(message(destination, {"n": n, "kind": "x" * 50}, bytes(QUEUE_BYTES), persistent=True))
        for n in range(QUEUE_MESSAGES)
    ]
    for at in range(0, QUEUE_MESSAGES, 1000):
        client.send(frames[at : at + 1000])
        client.ask(FrameType.SYNC, {})


def retained(target: Target) -> None:
    """Reads of all that is kept, with a selector that no message fulfils and with none."""
    client, most = Native(target), {"messages": 256, "bytes_max": 8 << 20}
    ask = [
        client.request(FrameType.READ, {"name": "kept", "after": after, **most, **({"selector": s} if s else {})})
        for after in range(0, QUEUE_MESSAGES, 1000)
        for s in ("", "kind LIKE '%y%' AND n + 1 = 0")
    ]
    while not target.over:
        client.send(ask)
        client.wait(FrameType.OK, times=len(ask))


def fill_queue(target: Target) -> None:
    _fill(Native(target), "queue:full")


def queue(target: Target) -> None:
    """Browsing with expensive selectors, many pages under way; moving from one queue to another and back."""
    client, selector = Native(target), " OR ".join(f"kind LIKE '%{n}_y%'" for n in range(500))
    browse = [
        client.request(FrameType.BROWSE, {"subscription": 9, "queue": "queue:full", "seq": seq, "selector": selector})
        for seq in (0, 1_000, 10_000, 15_000) * 10
    ]
    move = [
        client.request(FrameType.MOVE, {"queue": source, "target": to})
        for source, to in (("queue:full", "queue:other"), ("queue:other", "queue:full")) * 20
    ]
    while not target.over:
        client.send([*browse, *move])
        client.wait(FrameType.OK, times=len(browse) + len(move))


def purge(target: Target) -> None:
    """All of a long queue at once."""
    while not target.over:
        client = Native(target)
        client.ask(FrameType.PURGE, {"queue": "queue:full"})
        _fill(client, "queue:full")
        client.close()


def durable_ends(target: Target) -> None:
    """A durable subscription of one more client on all that is published, deleted when it holds much."""
    while not target.over:
        client = Native(target, client="ends")
        client.ask(FrameType.SUBSCRIBE, {"subscription": 1, "destination": "ends", "durable": "d", "paused": True})
        _fill(client, "ends")
        client.ask(FrameType.UNSUBSCRIBE, {"subscription": 1})
        client.ask(FrameType.UNSUBSCRIBE, {"durable": "d"})
        client.close()


SELECTORS = {
    "text": "x = '" + "y" * 60_000 + "'",
    "tokens": "x = " + "+".join(["b"] * 4000),
    "names": " OR ".join(f"n{n} > {n}" for n in range(2000)),
    "conjunctions": " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(800)),
    "negated": "NOT (" + " AND ".join(f"n{n} <> {n}" for n in range(2000)) + ")",
    "depth": "(" * parser.DEPTH_MAX + "x = 1" + ")" * parser.DEPTH_MAX,
    "choices": "x IN (" + ",".join(f"'{n}'" for n in range(parser.CHOICES_MAX)) + ")",
}


def selectors(target: Target, kind: str) -> None:
    """Subscriptions with the longest selector, each ended again."""
    client, selector = Native(target), SELECTORS[kind]
    while not target.over:
        frames = []
        for number in range(1, 21):
            # Each is another text: a cache of parsed selectors must not help.
            frames.append(client.subscribe(number, "sel", selector=selector.replace("x", f"x{number}", 1)))
            frames.append(client.request(FrameType.UNSUBSCRIBE, {"subscription": number}))
        client.send(frames)
        client.wait(FrameType.OK, times=len(frames))
        time.sleep(0)


def commit_keys(target: Target) -> None:
    client, keys = Native(target), count()
    while not target.over:
        frames = []
        for _ in range(200):
            key: dict[str, Value] = {"key": f"{next(keys):0>500}", "number": 1}
            frames.append(client.request(FrameType.BEGIN, {}, session=1))
            frames.append(client.request(FrameType.COMMIT, key, session=1))
        client.send(frames)
        client.wait(FrameType.OK, times=len(frames))


def client_ids(target: Target) -> None:
    """Connections with the longest ids and names of subscriptions."""
    number = 0
    while not target.over:
        number += 1
        client = Native(target, client=f"{number:0>255}")
        client.ask(FrameType.IDENTIFY, {"client": "i" * 200})
        client.send(client.subscribe(n, "t", durable=f"{n:0>255}") for n in range(1, 51))
        client.wait(FrameType.OK, times=50)
        client.send(client.request(FrameType.UNSUBSCRIBE, {"subscription": n}) for n in range(1, 51))
        client.wait(FrameType.OK, times=50)
        client.send(client.request(FrameType.UNSUBSCRIBE, {"durable": f"{n:0>255}"}) for n in range(1, 51))
        client.wait(FrameType.OK, times=50)
        client.close()


many_small = partial(transaction_bytes, body=50, persistent=False)
many_small_persistent = partial(transaction_bytes, body=50, persistent=True)
few_large = partial(transaction_bytes, body=1 << 20, persistent=True)
