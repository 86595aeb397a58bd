"""Requests made from the OpenAPI document, right and wrong ones: each is answered as the document says, none with 5xx,
and nobody without the right gets anything done. docs/management.md has what `schemathesis` says of it."""

import asyncio
import json
from typing import Any
from urllib.parse import quote, urlencode

from hardening.support.management_api import Api, api, guard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidings.broker.management.openapi import document
from tidings.broker.management.parameters import PRINTABLE
from tidings.node.limits import BrokerLimits

DOCUMENT = document()
OPERATIONS = [
    (method.upper(), path, described)
    for path, methods in DOCUMENT["paths"].items()
    for method, described in methods.items()
    if path != "/openapi.json"
]
KNOWN = ("orders.a", "orders.b", "audit", "1", "9", "0000000700000001019a3f62547b0000")
TEXTS = st.one_of(st.sampled_from(KNOWN), st.text(max_size=30))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema of the document allows."""
    match schema["type"]:
        case "integer":
            return st.integers(schema["minimum"], schema["maximum"])
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(fitting(schema["items"]), max_size=min(5, schema["maxItems"]))
        case _ if schema["pattern"] != PRINTABLE:
            return st.from_regex(schema["pattern"], fullmatch=True).filter(lambda one: len(one) <= schema["maxLength"])
        case _:
            few = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=40)
            return st.one_of(st.sampled_from(KNOWN), few)


def of_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, bytes | None]:
    """Method, path with query, and body."""
    method, path, described = draw(st.sampled_from(OPERATIONS))
    wild = draw(st.sampled_from([None, None, "path", "query", "body"]))  # which part is not as described
    query: list[tuple[str, str]] = []
    for parameter in described.get("parameters", ()):
        value = draw(TEXTS if wild == parameter["in"] else fitting(parameter["schema"]))
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(of_text(value), safe=""))
        elif parameter["required"] or draw(st.booleans()):
            query.append((parameter["name"], of_text(value)))
    if wild == "query" and draw(st.booleans()):
        query.append((draw(TEXTS), draw(TEXTS)))
    body: bytes | None = None
    if "requestBody" in described:
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        if wild == "body":
            body = draw(st.one_of(st.binary(max_size=40), JSON.map(lambda one: json.dumps(one).encode())))
        else:
            values = {
                name: draw(fitting(one))
                for name, one in schema["properties"].items()
                if name in schema["required"] or draw(st.booleans())
            }
            body = json.dumps(values).encode()
    return method, path + (f"?{urlencode(query)}" if query else ""), body


def responses_of(method: str, path: str) -> dict[str, Any]:
    segments = path.partition("?")[0].split("/")
    for one, template, described in OPERATIONS:
        parts = template.split("/")
        if one != method or len(parts) != len(segments):
            continue
        if all(part.startswith("{") or part == there for part, there in zip(parts, segments, strict=True)):
            responses: dict[str, Any] = described["responses"]
            return responses
    return {"404": {}, "405": {}}  # an empty name makes another path


async def ask(here: Api, user: str, request: tuple[str, str, bytes | None]) -> None:
    method, path, body = request
    answer = await here.ask(method, path, body, user=user)
    assert answer.status < 500 or answer.status == 503, (request, answer)
    assert str(answer.status) in responses_of(method, path), (request, answer)
    if answer.status == 200:
        assert user == "admin", (request, answer)
        assert answer.body.keys() >= set(
            responses_of(method, path)["200"]["content"]["application/json"]["schema"]["required"]
        )
    else:
        assert answer.body.keys() == {"code", "reason", "remedy"}, (request, answer)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(["admin", "admin", "nobody", "stranger", ""]), requests()), max_size=20))
def test_every_request_is_answered_as_the_document_says(asked: list[tuple[str, tuple[str, str, bytes | None]]]) -> None:
    async def check() -> None:
        async with api(guard(BrokerLimits(login_failures_max=100_000))) as here:
            for user, request in asked:
                await ask(here, user, request)
            before = here.local.broker.engine.view.mailboxes.keys()
            assert all(name.startswith("queue:") for name in before)

    asyncio.run(check())
