"""The management API over real sockets: what it shows and does, who may, and how it refuses."""

import asyncio

import pytest
from hardening.support.management_api import api, guard

from tidings.broker.http.server import BODY_BYTES_MAX
from tidings.broker.management.openapi import document
from tidings.broker.management.operations import OPERATIONS, PREFIX
from tidings.broker.security.passwords import Cost
from tidings.client import Subscription, connect
from tidings.delivery.policy import Overflow, QueuePolicy
from tidings.delivery.redelivery_delay import Backoff
from tidings.errors import ConnectionLostError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.testing.local_broker import run

CHEAP = Cost(n=16, r=8, p=1)


def test_policies_are_shown_with_what_they_did() -> None:
    policy = QueuePolicy(DestinationPattern.parse("queue:orders.>"), messages_max=1, overflow=Overflow.DROP_OLDEST)

    async def check() -> None:
        async with api() as asked, await connect(asked.local.url) as client:
            asked.local.broker.replace_policies((policy,))
            for body in (b"1", b"2"):
                await client.publish("queue:orders.eu", body=body, wait=True)
            listed = (await asked.ask("GET", "/policies")).body
            assert [(one["destination"], one["messages_max"], one["queues"]) for one in listed["items"]] == [
                ("queue:orders.>", 1, 1)
            ]
            shown = (await asked.ask("GET", "/queues/orders.eu")).body
            assert (shown["waiting"], shown["policy"]["overflow"], shown["policy"]["overflowed"]) == (
                1,
                "drop-oldest",
                1,
            )
            asked.local.broker.replace_policies(())
            assert (await asked.ask("GET", "/queues/orders.eu")).body["policy"] is None
            assert (await asked.ask("GET", "/policies")).body == {"total": 0, "items": []}

    run(check())


def test_a_queue_shows_what_rests_and_who_is_served() -> None:
    policy = QueuePolicy(DestinationPattern.parse("queue:>"), backoff=Backoff(60_000, 2.0), single_active=True)

    async def check() -> None:
        async with api() as asked, await connect(asked.local.url) as first, await connect(asked.local.url) as second:
            asked.local.broker.replace_policies((policy,))
            consumer = await first.subscribe("queue:orders", ack="client")
            await second.subscribe("queue:orders", ack="client")
            await second.publish("queue:orders", body=b"1", wait=True)
            await (await anext(aiter(consumer))).retry()
            while not (shown := (await asked.ask("GET", "/queues/orders")).body)["resting"]:
                await asyncio.sleep(0.01)
            assert (shown["waiting"], shown["resting"], shown["consumers"]) == (1, 1, 2)
            connections = (await asked.ask("GET", "/connections")).body["items"]
            assert shown["active_connection"] in [one["connection"] for one in connections]
            assert (shown["policy"]["redelivery_first_ms"], shown["policy"]["single_active"]) == (60_000, True)

    run(check())


def test_a_queue_from_its_creation_to_its_deletion() -> None:
    async def check() -> None:
        async with api() as here:
            assert (await here.ask("POST", "/queues", {"name": "a b"})).body == {"queue": "queue:a b", "created": True}
            assert not (await here.ask("POST", "/queues", {"name": "a b"})).body["created"]
            async with connect(here.local.url) as client:
                for number in range(5):
                    await client.publish("queue:a b", {"number": number}, b"\xff", persistent=True, wait=True)
            shown = (await here.ask("GET", "/queues/a%20b")).body
            assert (shown["waiting"], shown["messages"], shown["consumers"]) == (5, 5, 0)
            listed = (await here.ask("GET", "/queues?containing=a%20b&limit=1")).body
            assert (listed["total"], listed["items"]) == (1, [shown])
            page = (await here.ask("GET", "/queues/a%20b/messages?limit=2")).body
            assert [one["properties"]["number"] for one in page["items"]] == [0, 1]
            assert (page["more"], page["items"][0]["body_encoding"]) == (True, "base64")
            rest = (await here.ask("GET", f"/queues/a%20b/messages?after={page['next']}&selector=number+>+2")).body
            assert ([one["properties"]["number"] for one in rest["items"]], rest["more"]) == ([3, 4], False)
            assert (await here.code("GET", "/queues/a%20b/messages?selector=a+="))[1] == "E_SELECTOR_SYNTAX"
            tags = [one["tag"] for one in rest["items"]]
            moved = await here.ask("POST", "/queues/a%20b/move", {"target": "other", "messages": tags})
            assert moved.body == {"count": 2}
            assert await here.code("DELETE", "/queues/a%20b") == (409, "E_QUEUE_NOT_EMPTY")
            assert (await here.ask("POST", "/queues/a%20b/purge", {})).body == {"count": 3}
            assert (await here.ask("DELETE", "/queues/a%20b")).body == {"queue": "queue:a b", "count": 0}
            assert await here.code("GET", "/queues/a%20b") == (404, "E_QUEUE_UNKNOWN")
            assert (await here.ask("POST", "/queues/other/move", {"target": "third"})).body == {"count": 2}
            assert (await here.ask("DELETE", "/queues/third?force=true")).body["count"] == 2

    run(check())


def test_a_queue_in_use_is_deleted_by_force_only_and_its_consumers_learn_of_it() -> None:
    async def check() -> None:
        async with api() as here, connect(here.local.url, reconnect=False) as client:
            orders = await client.subscribe("queue:orders")
            await client.publish("queue:orders", {}, b"1", persistent=True, wait=True)
            assert await here.code("DELETE", "/queues/orders") == (409, "E_QUEUE_BUSY")
            assert (await here.ask("DELETE", "/queues/orders?force=true")).body["count"] == 1
            with pytest.raises(ConnectionLostError, match="E_QUEUE_DELETED"):
                await _drain(orders)
            assert await here.code("GET", "/queues/orders") == (404, "E_QUEUE_UNKNOWN")

    run(check())


async def _drain(subscription: Subscription) -> None:
    while await subscription.receive(5):
        pass


def test_state_of_the_broker_is_shown_in_parts_and_pages() -> None:
    async def check() -> None:
        async with api() as here, connect(here.local.url, client_id="desk") as client:
            await client.subscribe("ticks.>", durable="audit")
            await client.subscribe("prices")
            status = (await here.ask("GET", "/status")).body
            assert (status["version"], status["connections"], status["broker"]["ready"]) == ("0.1.0", 1, True)
            assert (await here.ask("GET", "/capacity")).body == {"capacity": {}}
            durables = (await here.ask("GET", "/durables")).body["items"]
            assert [(one["owner"], one["name"], one["subscribers"]) for one in durables] == [("desk", "audit", 1)]
            for path in ("destinations", "subscriptions"):
                assert (await here.ask("GET", f"/{path}")).body["total"] == 2
            for path in ("traffic", "users", "queues"):
                assert (await here.ask("GET", f"/{path}")).body == {"total": 0, "items": []}
            (shown,) = (await here.ask("GET", "/connections")).body["items"]
            assert await here.code("DELETE", "/durables/audit?owner=desk") == (409, "E_DURABLE_BUSY")
            assert (await here.ask("DELETE", f"/connections/{shown['connection']}")).body["closed"] > -1
            assert await here.code("DELETE", "/connections/99") == (404, "E_CONNECTION_UNKNOWN")
            trace = await here.code("GET", "/messages/0000000700000001019a3f62547b000/trace")
            assert trace[0] == 400

    run(check())


def test_durable_subscriptions_are_removed_by_owner_and_name() -> None:
    async def check() -> None:
        async with api() as here:
            async with connect(here.local.url, client_id="desk:1") as client:
                await client.subscribe("ticks.>", durable="audit")
                await client.subscribe("ticks.>", durable="team", shared="team")
            names = {one["name"]: one for one in (await here.ask("GET", "/durables")).body["items"]}
            assert names.keys() == {"audit", "team"}
            assert await here.code("DELETE", "/durables/audit") == (400, "E_API_PARAMETER")
            assert (await here.ask("DELETE", "/durables/audit?owner=desk:1")).body == {"removed": "audit"}
            assert await here.code("DELETE", "/durables/audit?owner=desk:1") == (404, "E_DURABLE_UNKNOWN")
            assert (await here.ask("DELETE", "/durables/team?shared=true")).status == 200
            assert (await here.ask("GET", "/durables")).body["total"] == 0

    run(check())


def test_configuration_is_checked_and_reloaded() -> None:
    async def check() -> None:
        async with api() as here:
            checked = (await here.ask("POST", "/configuration/check", {})).body
            assert checked == {"valid": False, "problems": ["b.toml:1: listeners: wrong; put it right"]}
            assert (await here.ask("POST", "/configuration/reload")).body == {"reloaded": True, "problems": []}
            assert here.reloads == ["reload"]

    run(check())


PATHS = {
    "{queue}": "orders.a",
    "{name}": "audit",
    "{number}": "1",
    "{router}": "9",
    "{peer}": "9",
    "{id}": "0000000700000001019a3f62547b0000",
}
BODIES = {
    "backUpStore": {"name": "test_api.py"},
    "addPeer": {"address": "10.0.0.2:7301"},
    "createQueue": {"name": "orders.a"},
    "moveMessages": {"target": "orders.b"},
}
QUERIES = {
    "removeDurable": "?owner=alice/x",
    "explainMessage": "?destination=ticks",
    "explainSelector": "?destination=ticks",
    "findMessages": "?key=order%3D1",
}
OWN_QUEUE = {"createQueue", "deleteQueue", "browseQueue", "purgeQueue", "moveMessages"}
CHANGES = {one.name for one in OPERATIONS if one.method != "GET"}


@pytest.mark.parametrize("user", ["admin", "watcher", "clerk", "nobody", "stranger", ""])
def test_access_of_every_operation(user: str) -> None:
    """The table of rights, as a matrix: what is not allowed answers 401 or 403 and changes nothing."""

    async def check() -> None:
        async with api(guard(BrokerLimits(login_failures_max=1000))) as here:
            client = connect(here.local.url, user="admin", password="admin-pw")
            async with client:
                await client.publish("queue:orders.a", {}, b"1", persistent=True, wait=True)
                refused = set()
                for one in OPERATIONS:
                    path = one.path
                    for name, value in PATHS.items():
                        path = path.replace(name, value)
                    path += QUERIES.get(one.name, "")
                    body = BODIES.get(one.name, {}) if one.method == "POST" else None
                    if user == "admin" and one.name == "closeConnection":
                        continue
                    status = (await here.ask(one.method, path, body, user=user)).status
                    assert status < 500
                    if status in (401, 403):
                        refused.add(one.name)
                        assert status == (401 if user in ("stranger", "") else 403)
                everything = {one.name for one in OPERATIONS}
                allowed = {
                    "admin": everything,
                    "watcher": everything - CHANGES - {"browseQueue"},
                    "clerk": OWN_QUEUE,
                }.get(user, set())
                assert refused == everything - allowed
                if user not in ("admin", "clerk"):
                    waits = here.local.broker.engine.view.mailboxes["queue:orders.a"].messages
                    assert (waits, len(here.local.broker.clients.connections)) == (1, 1)
                assert here.reloads == (["reload"] if user == "admin" else [])

    run(check())


def test_requests_of_foreign_web_pages_are_refused() -> None:
    async def check() -> None:
        async with api() as here:
            assert await here.code("POST", "/queues/a/purge", {}, json_type=False) == (415, "E_API_CONTENT_TYPE")
            form = "Content-Type: application/x-www-form-urlencoded\r\n"
            assert (await here.code("POST", "/queues", b"name=a", headers=form, json_type=False))[0] == 415
            assert await here.code("TRACE", "/queues", json_type=False) == (405, "E_API_METHOD")
            evil = "Origin: https://evil.example\r\n"
            assert await here.code("GET", "/status", headers=evil) == (403, "E_API_ORIGIN")
            own = await here.ask("GET", "/status", headers=f"Origin: http://127.0.0.1:{here.port}\r\n")
            assert own.status == 200
            assert "access-control" not in own.headers.lower()
            for path in ("/queues", "/queues/a"):  # browsers ask so before a POST of JSON, and before any DELETE
                assert (await here.ask("OPTIONS", path, headers=evil)).status == 403
            assert await here.code("DELETE", "/queues/a", headers=evil) == (403, "E_API_ORIGIN")
            assert (await here.ask("DELETE", "/queues/a", json_type=False)).status == 404
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(f"GET {PREFIX}/status HTTP/1.1\r\nHost: evil.example:{here.port}\r\n\r\n".encode())
            assert b" 403 " in (await reader.read()).split(b"\r\n")[0]
            writer.close()

    run(check())


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/nothing", None, (404, "E_API_PATH")),
        ("PUT", "/queues", {}, (405, "E_API_METHOD")),
        ("POST", "/openapi.json", {}, (405, "E_API_METHOD")),
        ("GET", "/queues?limit=0", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues?limit=201", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues?limit=x", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues?limit=1&limit=2", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues?colour=red", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues?&&&=", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues/%ff", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues/a%00b", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues/", None, (400, "E_API_PARAMETER")),
        ("GET", "/queues/a/messages?after=x", None, (400, "E_API_PARAMETER")),
        ("POST", "/queues", {}, (400, "E_API_PARAMETER")),
        ("POST", "/queues", [], (400, "E_API_BODY")),
        ("POST", "/queues", b"{", (400, "E_API_BODY")),
        ("POST", "/queues", b"[" * 20_000, (400, "E_API_BODY")),
        ("POST", "/queues", {"name": 1}, (400, "E_API_PARAMETER")),
        ("POST", "/queues", {"name": "a..b"}, (400, "E_DESTINATION_EMPTY")),
        ("POST", "/queues", {"name": "a.*"}, (400, "E_DESTINATION_WILDCARD")),
        ("POST", "/queues/a/purge", {"messages": [0]}, (400, "E_API_PARAMETER")),
        ("POST", "/queues/a/purge", {"messages": [1] * 300}, (400, "E_API_PARAMETER")),
        ("DELETE", "/queues/a?force=yes", None, (400, "E_API_PARAMETER")),
        ("DELETE", f"/connections/{1 << 40}", None, (400, "E_API_PARAMETER")),
        ("POST", "/network/held/release", {}, (409, "E_NOTHING_HELD")),
    ],
)
def test_what_is_wrong_with_a_request_is_said(method: str, path: str, body: object, expected: tuple[int, str]) -> None:
    async def check() -> None:
        async with api() as here:
            assert await here.code(method, path, body) == expected

    run(check())


def test_bodies_are_bounded() -> None:
    async def check() -> None:
        async with api() as here:
            assert (await here.ask("POST", "/queues", b"x" * (BODY_BYTES_MAX + 1))).status == 413
            chunked = "Transfer-Encoding: chunked\r\n"
            assert (await here.ask("POST", "/queues", b"", headers=chunked)).status == 411

    run(check())


def test_wrong_passwords_are_throttled_and_connections_of_a_user_bounded() -> None:
    async def check() -> None:
        async with api(guard(BrokerLimits(login_failures_max=2)), BrokerLimits(connections_per_user_max=1)) as here:
            async with connect(here.local.url, user="watcher", password="watcher-pw"):
                assert await here.code("GET", "/status", user="watcher") == (429, "E_CONNECTIONS")
            assert (await here.ask("GET", "/status", user="watcher")).status == 200
            codes = [(await here.code("GET", "/status", user="stranger"))[1] for _ in range(3)]
            assert codes == ["E_LOGIN", "E_LOGIN", "E_LOGIN_THROTTLED"]
            token = await here.code("GET", "/status", headers="Authorization: Bearer x\r\n")
            assert token == (429, "E_LOGIN_THROTTLED"), "tokens are guesses as well"
            assert await here.code("GET", "/status", headers="Authorization: Digest x\r\n") == (401, "E_LOGIN")
            answer = await here.ask("GET", "/status")
            assert (answer.status, "WWW-Authenticate: Basic" in answer.headers) == (401, True)

    run(check())


def test_the_document_describes_every_operation() -> None:
    found = document()
    described = {operation["operationId"]: operation for path in found["paths"].values() for operation in path.values()}
    assert described.keys() == {one.name for one in OPERATIONS} | {"openapi"}
    for one in OPERATIONS:
        names = {item["name"] for item in described[one.name].get("parameters", ())}
        assert names == {parameter.name for parameter in one.parameters if parameter.place != "body"}
        assert {name for name in names if f"{{{name}}}" in one.path} == {
            parameter.name for parameter in one.parameters if parameter.place == "path"
        }

    async def check() -> None:
        async with api(guard()) as here:
            assert (await here.ask("GET", "/openapi.json")).body == found

    run(check())
