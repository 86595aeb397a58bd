"""Logs users in by each protocol and tries the operations that access rules govern; see `hardening.access.matrix`.

Each operation returns whether it was allowed. Where a refusal is expected, the rule must be its only possible reason.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from proton import Message
from proton.reactor import Copy, DurableSubscription, ReceiverOption
from proton.utils import BlockingConnection, LinkDetached, SendException
from websockets.asyncio.client import connect as open_websocket
from websockets.typing import Subprotocol

from hardening.support.stomp import RawStomp
from tidings.client import Client, connect
from tidings.errors import SecurityError
from tidings.protocols.stomp.frames import StompVersion, encode

SECONDS = 30.0
PLAIN = ("publish", "subscribe", "keep")
Frames = list[tuple[str, dict[str, str]]]


def password_of(user: str) -> str:
    return f"{user}'s password"


def log_in(port: int, user: str, client_id: str = "") -> Client:
    url = f"tidings://127.0.0.1:{port}"
    return connect(url, user=user, password=password_of(user), client_id=client_id, reconnect=False)


def shared_name(topic: str) -> str:
    """Of the shared durable subscription to it, which is everybody's."""
    return f"shared {topic}"


class Door(Protocol):
    operations: tuple[str, ...]

    async def open(self) -> None: ...
    async def ask(self, operation: str, where: str, case: int) -> bool: ...
    async def close(self) -> None: ...


class Native:
    operations: tuple[str, ...] = (*PLAIN, "share", "drop", "transact", "browse", "purge")

    def __init__(self, port: int, user: str) -> None:
        self._client = log_in(port, user, f"{user} natively")

    async def open(self) -> None:
        await self._client

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, operation: str, where: str, case: int) -> bool:
        try:
            await self._do(operation, where, case)
        except SecurityError:
            return False
        return True

    async def _do(self, operation: str, where: str, case: int) -> None:
        client, name = self._client, shared_name(where)
        match operation:
            case "publish":
                await client.publish(where, {"case": case}, wait=True)
            case "transact":
                async with client.transaction() as work:
                    await work.publish(where, {"case": case}, persistent=True, wait=True)
            case "subscribe":
                await (await client.subscribe(where)).close()
            case "keep":
                await (await client.subscribe(where, durable=f"kept {where}")).close()
            case "share":
                await (await client.subscribe(where, shared=name, durable=True)).close()
            case "drop":
                await client.forget(name, shared=True)
            case "browse":
                async for _ in client.queue(where).browse():
                    pass
            case "purge":
                await client.queue(where).purge()


def _verdict(command: str, code: str) -> bool:
    assert command == "RECEIPT" or code == "E_FORBIDDEN", f"{command} {code}"
    return command == "RECEIPT"


class Stomp:
    """Each question over a connection of its own: an error ends it."""

    operations: tuple[str, ...] = (*PLAIN, "share", "drop", "transact")

    def __init__(self, port: int, user: str) -> None:
        self._port, self._user = port, user

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ask(self, operation: str, where: str, case: int) -> bool:
        raw = await RawStomp.open(self._port)
        await raw.connect(**self._login())
        for command, headers in self._frames(operation, where, case):
            await raw.send(command, headers)
        answer = await raw.frame()
        await raw.leave()
        return _verdict(answer.command, answer.headers.get("code", ""))

    def _login(self) -> dict[str, str]:
        name = type(self).__name__
        return {"login": self._user, "passcode": password_of(self._user), "client-id": f"{self._user} by {name}"}

    @staticmethod
    def _frames(operation: str, where: str, case: int) -> Frames:
        address = f"/queue/{where.removeprefix('queue:')}" if where.startswith("queue:") else f"/topic/{where}"
        sent = {"destination": address, "case": str(case)}
        wanted = {"destination": address, "id": "1", "receipt": "r"}
        kept, shared = "durable-subscription-name", "shared-subscription-name"
        both = dict.fromkeys((kept, shared), shared_name(where))
        return {
            "publish": [("SEND", {**sent, "receipt": "r"})],
            "transact": [
                ("BEGIN", {"transaction": "t"}),
                ("SEND", {**sent, "transaction": "t"}),
                ("COMMIT", {"transaction": "t", "receipt": "r"}),
            ],
            "subscribe": [("SUBSCRIBE", wanted)],
            "keep": [("SUBSCRIBE", {**wanted, kept: f"kept {where}"})],
            "share": [("SUBSCRIBE", {**wanted, **both})],
            "drop": [("UNSUBSCRIBE", {"id": "1", "receipt": "r", **both})],
        }[operation]


class WebSocket(Stomp):
    async def ask(self, operation: str, where: str, case: int) -> bool:
        url, protocols = f"ws://127.0.0.1:{self._port}", [Subprotocol("v12.stomp")]
        async with open_websocket(url, subprotocols=protocols) as socket:
            hello = {"accept-version": "1.2", "host": "x", **self._login()}
            for command, headers in [("CONNECT", hello), *self._frames(operation, where, case)]:
                await socket.send(encode(command, headers, StompVersion.V12, b""))
            text = ""
            while text.count("\0") < 2:  # CONNECTED and the answer, in as many pieces as the broker likes
                text += await socket.recv(decode=True)
            lines = text.split("\0")[1].strip().split("\n")
            code = next((line.partition(":")[2] for line in lines if line.startswith("code:")), "")
            return _verdict(lines[0], code)


class Amqp:
    operations: tuple[str, ...] = (*PLAIN, "browse")

    def __init__(self, port: int, user: str) -> None:
        self._port, self._user = port, user

    async def open(self) -> None:
        self._connection = await asyncio.to_thread(self._connect)

    async def close(self) -> None:
        await asyncio.to_thread(self._connection.close)

    def _connect(self) -> BlockingConnection:
        return BlockingConnection(
            f"127.0.0.1:{self._port}",
            timeout=SECONDS,
            user=self._user,
            password=password_of(self._user),
            allow_insecure_mechs=True,
        )

    async def ask(self, operation: str, where: str, case: int) -> bool:
        try:
            await asyncio.to_thread(self._do, operation, where, case)
        except LinkDetached as error:
            if "unauthorized-access" not in str(error):
                raise
            return False
        except SendException:
            return False
        return True

    def _do(self, operation: str, where: str, case: int) -> None:
        queue, name = where.startswith("queue:"), where.removeprefix("queue:")
        address = f"queue://{name}" if queue else f"topic://{name}"
        if operation == "publish":
            sender = self._connection.create_sender(address)
            sender.send(Message(properties={"case": case}))
            sender.close()  # type: ignore[no-untyped-call]
            return
        options: dict[str, ReceiverOption] = {"browse": Copy(), "keep": DurableSubscription()}
        receiver = self._connection.create_receiver(address, credit=0, name=where, options=options.get(operation))
        receiver.close()  # type: ignore[no-untyped-call]


DOORS: dict[str, Callable[[int, str], Door]] = {
    "native": Native,
    "stomp": Stomp,
    "websocket": WebSocket,
    "amqp": Amqp,
}
