"""Publishing and subscribing over HTTP with the standard library's client, on sockets."""

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tidings.broker.security import users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.sync import connect
from tidings.testing.local_broker import BrokerThread

JSON = {"Content-Type": "application/json"}
SECONDS = 30.0
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        body = response.read()
        self.json: Any = json.loads(body) if body else None


def ask(
    broker: BrokerThread, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), {**JSON, **(headers or {})})
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Events:
    """A stream of server-sent events."""

    def __init__(self, broker: BrokerThread, query: str, headers: dict[str, str] | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS)
        self.connection.request("GET", f"/messages?{query}", headers=headers or {})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        assert self.response.readline() == b": subscribed\n"
        assert self.response.readline() == b"\n"

    def next(self) -> tuple[str, Any]:
        while not (line := self.response.readline()).startswith(b"event: "):
            assert line, "the stream has ended"
        data = self.response.readline()
        return line[7:-1].decode(), json.loads(data.removeprefix(b"data: "))

    def close(self) -> None:
        self.connection.close()


def test_a_message_published_over_http_reaches_others(broker: BrokerThread) -> None:
    with connect(broker.url) as client:
        subscription = client.subscribe("http.one", selector="price > 20")
        low = {"destination": "http.one", "properties": {"price": 1}, "body": "low"}
        high = {
            "destination": "topic:http.one",
            "properties": {"price": 21.5, "site": "x"},
            "body": "aGk=",
            "priority": 7,
        }
        assert ask(broker, "POST", "/messages", low).status == 200
        answer = ask(broker, "POST", "/messages", {**high, "body_encoding": "base64", "correlation_id": "c"})
        delivery = subscription.receive(SECONDS)
        assert delivery is not None
        assert (delivery.body, delivery.properties["price"], delivery.priority) == (b"hi", 21.5, 7)
        assert (answer.status, answer.json["id"]) == (200, str(delivery.message.id))


def test_a_batch_is_answered_message_by_message(broker: BrokerThread) -> None:
    several = [{"destination": "queue:http.batch", "body": str(n), "persistent": True} for n in range(3)]
    answer = ask(broker, "POST", "/messages", several)
    assert answer.status == 200
    assert len({one["id"] for one in answer.json["results"]}) == 3
    with connect(broker.url) as client:
        subscription = client.subscribe("queue:http.batch")
        bodies = [delivery.body for _ in range(3) if (delivery := subscription.receive(SECONDS)) is not None]
    assert bodies == [b"0", b"1", b"2"]


def test_events_are_what_the_selector_says_in_order(broker: BrokerThread) -> None:
    events = Events(broker, "destination=http.stream.%3E&selector=n%20%25%202%20%3D%200")
    with connect(broker.url) as client:
        for n in range(100):
            client.publish("http.stream.a", {"n": n}, b"\xff" if n == 4 else "text")
    got = [events.next() for _ in range(50)]
    events.close()
    assert {name for name, _ in got} == {"message"}
    assert [message["properties"]["n"] for _, message in got] == list(range(0, 100, 2))
    assert got[0][1]["destination"] == "topic:http.stream.a"
    assert (got[2][1]["body"], got[2][1]["body_encoding"]) == ("/w==", "base64")


def test_a_connection_is_used_for_many_requests(broker: BrokerThread) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS)
    ids = set()
    for n in range(20):
        connection.request("POST", "/messages", json.dumps({"destination": "http.many", "body": str(n)}), JSON)
        ids.add(json.loads(connection.getresponse().read())["id"])
        if n % 5 == 0:
            connection.request("POST", "/messages", "{", JSON)
            assert json.loads(connection.getresponse().read())["code"] == "E_MESSAGE_JSON"
    connection.close()
    assert len(ids) == 20


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/messages", {"body": "x"}, 400, "E_MESSAGE_JSON"),
        ("POST", "/messages", [], 400, "E_MESSAGE_JSON"),
        ("POST", "/messages", {"destination": "a", "colour": 1}, 400, "E_MESSAGE_JSON"),
        ("POST", "/messages", {"destination": "a..b"}, 400, "E_DESTINATION"),
        ("POST", "/messages", {"destination": "a", "priority": 10}, 400, "E_MESSAGE_FIELD"),
        ("POST", "/messages", {"destination": "a", "expires_in": 1e300}, 400, "E_MESSAGE_FIELD"),
        ("POST", "/other", {}, 404, "E_HTTP_PATH"),
        ("PUT", "/messages", {}, 405, "E_HTTP_METHOD"),
        ("GET", "/messages", None, 400, "E_HTTP_PARAMETER"),
        ("GET", "/messages?destination=a&colour=red", None, 400, "E_HTTP_PARAMETER"),
        ("GET", "/messages?destination=a&destination=b", None, 400, "E_HTTP_PARAMETER"),
        ("GET", "/messages?destination=a&selector=price%20%3E", None, 400, "E_SELECTOR_SYNTAX"),
    ],
)
def test_what_is_wrong_is_said(
    broker: BrokerThread, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = ask(broker, method, path, body)
    assert (answer.status, answer.json["code"].split("_")[:2]) == (status, code.split("_")[:2]), answer.json


def test_other_content_types_are_refused(broker: BrokerThread) -> None:
    answer = ask(broker, "POST", "/messages", {"destination": "a"}, {"Content-Type": "text/plain"})
    assert (answer.status, answer.json["code"]) == (415, "E_HTTP_CONTENT_TYPE")


def test_pages_of_configured_origins_only(broker: BrokerThread) -> None:
    message = {"destination": "http.pages"}
    allowed = ask(broker, "POST", "/messages", message, {"Origin": "https://pages.example"})
    assert (allowed.status, allowed.headers["Access-Control-Allow-Origin"]) == (200, "https://pages.example")
    preflight = ask(broker, "OPTIONS", "/messages", None, {"Origin": "https://pages.example"})
    assert preflight.status == 204
    assert "Content-Type" in preflight.headers["Access-Control-Allow-Headers"]
    assert ask(broker, "POST", "/messages", message, {"Origin": "https://evil.example"}).status == 403
    assert ask(broker, "POST", "/messages", message, {"Host": "evil.example"}).status == 403


def test_a_body_that_is_too_long_ends_the_connection_with_an_answer(broker: BrokerThread) -> None:
    with socket.create_connection(("127.0.0.1", broker.http_port), SECONDS) as raw:
        head = b"POST /messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        raw.sendall(head + b"Content-Length: 10000000\r\n\r\n" + b" " * 70_000)
        assert b" 413 " in raw.recv(1 << 16).split(b"\r\n")[0]


def test_garbage_is_answered_and_costs_others_nothing(broker: BrokerThread) -> None:
    for garbage in (b"\x16\x03\x01\x02\x00garbage\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"A" * 20_000):
        with socket.create_connection(("127.0.0.1", broker.http_port), SECONDS) as raw:
            raw.sendall(garbage)
            assert raw.recv(100)[:12] in (b"HTTP/1.1 400", b"", TLS_ALERT)
    assert ask(broker, "POST", "/messages", {"destination": "http.after"}).status == 200


@pytest.fixture(scope="module")
def guarded() -> Iterator[BrokerThread]:
    news = DestinationPattern.parse("news.>")
    rules = AccessRules((Rule("ann", news, frozenset({"publish"})), Rule("bob", news, frozenset({"subscribe"}))))
    known = Users({})
    for name in ("ann", "bob"):
        known = users.add(known, name, "secret", frozenset(), Cost(n=2, r=1, p=1))
    with BrokerThread(guard=UserGuard(known, rules, BrokerLimits())) as running:
        yield running


def basic(user: str, password: str = "secret") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_users_and_their_rights(guarded: BrokerThread) -> None:
    message = {"destination": "news.a", "body": "hi"}
    missing = ask(guarded, "POST", "/messages", message)
    assert (missing.status, missing.json["code"], missing.headers["WWW-Authenticate"][:5]) == (401, "E_LOGIN", "Basic")
    assert ask(guarded, "POST", "/messages", message, basic("ann", "wrong")).status in (401, 429)
    assert ask(guarded, "POST", "/messages", message, {"Authorization": "Bearer x"}).status == 401
    events = Events(guarded, "destination=news.a", basic("bob"))
    assert ask(guarded, "POST", "/messages", message, basic("ann")).status == 200
    assert events.next()[1]["body"] == "hi"
    events.close()
    refused = ask(guarded, "POST", "/messages", message, basic("bob"))
    assert (refused.status, refused.json["code"]) == (403, "E_FORBIDDEN")
    assert ask(guarded, "GET", "/messages?destination=news.a", None, basic("ann")).status == 403


def test_a_connection_keeps_its_user(guarded: BrokerThread) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", guarded.http_port, timeout=SECONDS)
    body = json.dumps({"destination": "news.a"})
    for user, status in (("ann", 200), ("bob", 401), ("ann", 200)):
        connection.request("POST", "/messages", body, {**JSON, **basic(user)})
        assert Answer(connection.getresponse()).status == status
    connection.close()
