"""The management API of a broker in this process, and a client that says what it asks byte by byte."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tidings.broker.http.server import HttpEndpoint
from tidings.broker.management.api import ManagementApi
from tidings.broker.management.call import BrokerControl
from tidings.broker.management.operations import PREFIX
from tidings.broker.membership import Membership
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.guard import Guard
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users, add
from tidings.broker.startup import StartupOptions, prepare
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.testing.local_broker import Local, local_broker

CHEAP = Cost(n=16, r=8, p=1)


class Answer(NamedTuple):
    status: int
    headers: str
    body: Any


class Api(NamedTuple):
    local: Local
    port: int
    reloads: list[str]

    async def ask(
        self, method: str, path: str, body: object = None, *, user: str = "", headers: str = "", json_type: bool = True
    ) -> Answer:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"{method} {PREFIX}{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Length: {len(data)}\r\n"
        if user:
            head += f"Authorization: Basic {base64.b64encode(f'{user}:{user}-pw'.encode()).decode()}\r\n"
        if json_type:
            head += "Content-Type: application/json\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"{head}{headers}\r\n".encode() + data)
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        top, _, found = answer.partition(b"\r\n\r\n")
        text = found.decode()
        return Answer(int(top.split(b" ")[1]), top.decode(), json.loads(text) if text.startswith("{") else text)

    async def code(self, method: str, path: str, body: object = None, **options: Any) -> tuple[int, str]:
        """Status and code of a refusal, which says what to do."""
        answer = await self.ask(method, path, body, **options)
        assert answer.body.keys() == {"code", "reason", "remedy"}
        assert all(answer.body.values())
        return answer.status, answer.body["code"]


@asynccontextmanager
async def api(guard: Guard | None = None, limits: BrokerLimits | None = None) -> AsyncIterator[Api]:
    reloads: list[str] = []

    async def check() -> list[str]:
        return ["b.toml:1: listeners: wrong; put it right"]

    async def reload() -> list[str]:
        reloads.append("reload")
        return []

    async def apply() -> None:
        reloads.append("peers")

    async def back_up(name: str) -> Path:
        return Path(__file__)  # as if it were the copy

    async with local_broker(guard=guard, limits=limits) as here:
        broker = here.broker
        membership = Membership(broker, lambda: prepare(StartupOptions(), ("native",)), apply, lambda: None)
        control = BrokerControl(
            broker.view,
            lambda: broker.login.guard,
            check,
            reload,
            membership,
            broker.login.audit,
            lambda: None,
            back_up,
        )
        endpoint = HttpEndpoint({}, None, {f"{PREFIX}/": ManagementApi(broker.management, control).answer})
        port = await endpoint.start("127.0.0.1", 0)
        try:
            yield Api(here, port, reloads)
        finally:
            await endpoint.stop()
        assert broker.engine.view.connections.keys() <= broker.clients.connections.keys()  # none stays behind


def rule(user: str, operations: set[str], pattern: str) -> Rule:
    return Rule(user, DestinationPattern.parse(pattern), frozenset(operations))


def guard(limits: BrokerLimits | None = None) -> UserGuard:
    users = Users({})
    for name in ("admin", "watcher", "clerk", "nobody"):
        users = add(users, name, f"{name}-pw", frozenset({"staff"}), CHEAP)
    everything = {"publish", "subscribe", "browse", "manage", "trace"}
    rules = AccessRules(
        (
            rule("admin", everything, ">"),
            rule("admin", everything, "queue:>"),
            rule("watcher", {"monitor"}, ">"),
            rule("clerk", {"publish", "browse", "manage"}, "queue:orders.>"),
        )
    )
    return UserGuard(users, rules, limits or BrokerLimits())
