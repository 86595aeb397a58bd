"""Connections of the management API to the engine: each HTTP request is a client that logs in, asks and leaves.

    HTTP request ─► login ─► engine.step(ClientRequest) ─► answer, or browsed messages in the connection's output

So users, access rules, limits and login throttling are those of every other client, and the API can do nothing that a
client could not.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from tidings.broker.connections.output_flush import OutputEnd
from tidings.broker.security.login import LoginClient
from tidings.errors import ConnectionLostError, TidingsError
from tidings.kernel.forwarder import Forwarder
from tidings.model.values import Value
from tidings.node.clients.session import Principal
from tidings.node.inputs import ClientLost, ClientOpened, ClientRequest, Input
from tidings.node.protocol_session import Hello, Received
from tidings.node.requests import Done, Failed, Outcome, Request
from tidings.protocols.native.peer import Delivered, NativePeer, Said


class ManagementSession:
    """Answers become results of futures instead of bytes."""

    name = "management"
    ended = False

    def __init__(self) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.asked: dict[int, asyncio.Future[Done]] = {}

    def opened(self, plane: Forwarder, connection: int) -> None:
        pass

    def heartbeats(self, hello: Hello, longest_ms: int) -> tuple[int, int]:
        return 0, 0

    def receive(self, type: int, flags: int, session: int, payload: bytes) -> Received:
        raise AssertionError("a management connection sends no frames")

    def welcome(self, fields: dict[str, Value]) -> bytes:
        if not self.ready.done():
            self.ready.set_result(None)
        return b""

    def answer(self, answer: Outcome) -> bytes:
        asked = self.asked.pop(answer.receipt, None)
        if asked is not None and not asked.done():
            if isinstance(answer, Done):
                asked.set_result(answer)
            else:
                asked.set_exception(answer.error if isinstance(answer, Failed) else answer.error.alone())
        return b""

    def error(self, error: TidingsError, receipt: int = 0) -> bytes:
        self.fail(error)
        return b""

    def close(self, code: str, reason: str) -> bytes:
        self.fail(ConnectionLostError(code, reason))
        return b""

    def dropped(self, subscription: int, count: int, reason: str) -> bytes:
        return b""

    def ping(self) -> bytes:
        return b""

    def pong(self) -> bytes:
        return b""

    def fail(self, error: TidingsError) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
        for one in self.asked.values():
            if not one.done():
                one.set_exception(error)
        self.asked.clear()


@dataclass(frozen=True, slots=True)
class ManagementServices:
    """The parts of the broker that management connections use."""

    forwarder: Forwarder
    ends: dict[int, OutputEnd]
    step: Callable[[Input], None]
    after: Callable[[], None]  # a step: write its output
    log_in: Callable[[LoginClient, Hello], None]
    principal: Callable[[int], Principal]
    frame_bytes_max: Callable[[], int]


class ManagementConnection:
    protocol = ManagementSession.name

    def __init__(self, broker: ManagementServices, address: str, certificate: str) -> None:
        self.number = -1
        self.address = address
        self.delivered: list[Delivered] = []
        self.asked = False  # the engine, which audits what it is asked
        self._broker, self._certificate = broker, certificate
        self._session = ManagementSession()
        self._peer = NativePeer(broker.frame_bytes_max())
        self._receipts = count(1)

    def certificate_name(self) -> str:
        return self._certificate

    @property
    def principal(self) -> Principal:
        return self._broker.principal(self.number)

    async def open(self, user: str, password: str) -> None:
        """Log in; a TidingsError if that is refused."""
        broker = self._broker
        self.number = broker.forwarder.open()
        broker.ends[self.number] = self
        broker.step(ClientOpened(self.number, self._session, self.address))
        broker.log_in(self, Hello(user, password, "", 0))
        await self._session.ready

    async def ask(self, make: Callable[[int], Request]) -> Done:
        """The answer to a request; the error with which it was refused."""
        self.asked = True
        receipt = next(self._receipts)
        answer: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._session.asked[receipt] = answer
        self._broker.step(ClientRequest(self.number, make(receipt)))
        self._broker.after()
        return await answer

    def flushed(self, data: bytes, left: int) -> bool:
        """Browsed messages, as native frames."""
        if data:
            self._peer.receive(data, self._received)
        return bool(left)

    def _received(self, said: Said) -> None:
        if isinstance(said, Delivered):
            self.delivered.append(said)

    async def messages(self) -> list[Delivered]:
        """The browsed messages, once all output of the connection has come."""
        while self.number >= 0 and self._broker.forwarder.output_bytes(self.number):
            self._broker.after()
            await asyncio.sleep(0.001)
        return self.delivered

    def close(self) -> None:
        if self.number < 0:
            return
        number, self.number = self.number, -1
        try:
            self._broker.step(ClientLost(number))
        finally:
            del self._broker.ends[number]
            self._broker.forwarder.close(number)
        self._session.fail(ConnectionLostError("E_CLOSED", "the management connection was closed"))
        if not self._session.ready.cancelled():
            self._session.ready.exception()  # retrieved: the request has ended
        self._broker.after()
