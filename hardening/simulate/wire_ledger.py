"""The ledger of the wire workload: all that clients sent and were given, to be judged by its checkers."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Protocol

from hardening.simulate.checkers import fail
from tidings.delivery.store import Record, Stored
from tidings.errors import TidingsError
from tidings.kernel.codec import encode_message
from tidings.model.codec import ID
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.network.copy_numbers import decode_item
from tidings.node.requests import AckMode, Request, Subscribe, Verdict
from tidings.sim.broker import Action, SimBroker
from tidings.sim.calendar import Calendar
from tidings.sim.client import SimClient
from tidings.sim.host import Host

TOPIC = "wire"


@dataclass(eq=False)
class Transfer:
    """A transaction: what was acknowledged in it, and what was sent."""

    client: SimClient
    receipt: int  # of its commit; 0: it was rolled back, or left
    taken: list[tuple[int, bytes]]  # tags and ids
    sent: list[bytes] = field(default_factory=list)

    @property
    def committed(self) -> bool:
        return bool(self.receipt) and self.receipt in self.client.done

    @property
    def refused(self) -> bool:
        return not self.receipt or any(one.receipt == self.receipt for one in self.client.failures)


@dataclass(eq=False)
class Sent:
    place: int  # in the order of all that was sent
    id: bytes
    destination: str
    router: int
    persistent: bool
    client: SimClient
    receipt: int
    transfer: Transfer | None = None

    @property
    def accepted(self) -> bool:
        return self.receipt in self.client.receipts if self.transfer is None else self.transfer.committed


@dataclass(eq=False)
class Given:
    """One delivery of a mailbox, and what its consumer said of it."""

    client: SimClient
    tag: int
    attempt: int
    id: bytes
    verdict: Verdict | None = None
    sure: bool = False  # the broker has read the verdict
    receipt: int = 0  # of a question whether the verdict is on disk; 0: none was asked
    transfer: Transfer | None = None  # the verdict is part of it
    at: float = 0.0  # when it came
    said_at: float = 0.0  # the verdict

    @property
    def order(self) -> tuple[int, int]:
        return self.client.life, self.tag


@dataclass(eq=False)
class Box:
    """A queue or a durable subscription and all that its consumers were given."""

    router: int
    kind: str  # "queue", "durable", "shared"
    name: str
    given: list[Given] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name} at router {self.router}"

    def request(self, *, credit: int) -> Subscribe:
        options: dict[str, Any] = {"ack": AckMode.CLIENT, "credit": credit, "paused": not credit}
        if self.kind == "queue":
            return Subscribe(1, 1, f"queue:{self.name}", **options)
        options |= {"durable": self.name} | ({"shared": self.name} if self.kind == "shared" else {})
        return Subscribe(1, 1, TOPIC, **options)

    def wants(self, sent: Sent) -> bool:
        if self.kind == "queue":
            return sent.destination == f"queue:{self.name}" and sent.router == self.router
        return sent.destination == TOPIC


class Doors(Protocol):
    """Brokers as clients see them: those of a network, or processes of which one serves at a time."""

    @property
    def calendar(self) -> Calendar: ...

    @property
    def hosts(self) -> Mapping[int, Host]: ...

    def broker(self, router: int) -> SimBroker | None: ...

    def frozen(self, router: int) -> bool: ...

    def call(self, router: int, act: Action) -> None: ...


class Ledger:
    def __init__(self, brokers: Doors, rng: Random) -> None:
        self.brokers, self.rng = brokers, rng
        self.sent: dict[bytes, Sent] = {}
        self.clients: list[SimClient] = []
        self.on_disk: dict[int, set[bytes]] = {router: set() for router in brokers.hosts}  # ids
        self.numbers = count(2)  # of receipts; 1 is a subscription's
        for router, host in brokers.hosts.items():
            host.written = lambda records, router=router: self._written(router, records)  # type: ignore[misc]

    def _written(self, router: int, records: Sequence[Record]) -> None:
        for one in records:
            if isinstance(one, Stored):
                self.on_disk[router].add(one.message_bytes[ID])
                with suppress(TidingsError):  # unless it is no item of store-and-forward
                    self.on_disk[router].add(decode_item(one.message_bytes)[0][ID])

    def message(self, router: int, destination: str, *, persistent: bool, time_ms: float, size: int = 0) -> bytes:
        number = len(self.sent) + next(self.numbers)
        to = Destination.parse(destination)
        id = MessageId(3, router, int(time_ms), number % 65_536)
        return encode_message(Message(to, {"n": number}, bytes(size), id=id, persistent=persistent))

    def note(
        self, message: bytes, destination: str, router: int, client: SimClient, receipt: int, transfer: Transfer | None
    ) -> Sent:
        persistent = bool(message[1] & 1)
        sent = Sent(len(self.sent), message[ID], destination, router, persistent, client, receipt, transfer)
        self.sent[sent.id] = sent
        return sent

    def keeps(self, sent: Sent, boxes: Sequence[Box]) -> bool:
        """True if a receipt for it means that it is on the disk of the broker where it entered."""
        return sent.persistent and any(box.wants(sent) for box in boxes)


class Worker(Protocol):
    """A client that does something each time it is asked to; `steady`: only what leaves nothing undone."""

    def work(self, *, steady: bool = ...) -> None: ...


class Party:
    """A client that comes again when its broker has crashed, or has ended its connection."""

    def __init__(self, ledger: Ledger, router: int, name: str) -> None:
        self.ledger, self.brokers, self.rng, self.router, self.name = ledger, ledger.brokers, ledger.rng, router, name
        self.client: SimClient | None = None

    @property
    def there(self) -> bool:
        """True if its broker can be reached now."""
        return self.brokers.broker(self.router) is not None and not self.brokers.frozen(self.router)

    @property
    def attached(self) -> bool:
        broker, client = self.brokers.broker(self.router), self.client
        return broker is not None and client is not None and broker.clients.get(client.number) is client

    def call(self, act: Callable[[SimBroker, float], list[Any]]) -> None:
        self.brokers.call(self.router, act)

    def connect(self, time_ms: int = 0) -> SimClient:
        made: list[SimClient] = []

        def act(machine: SimBroker, now: float) -> list[Any]:
            made.append(machine.connect(now, self.name, time_ms=time_ms))
            return []

        self.call(act)
        self.client = made[0]
        self.ledger.clients.append(made[0])
        return made[0]

    def ask(self, *requests: Request) -> None:
        client = self.client
        assert client is not None
        for request in requests:
            self.call(lambda machine, now, request=request: machine.request(now, client, request))  # type: ignore[misc]

    def leave(self) -> None:
        client = self.client
        if client is not None and self.attached:
            self.call(lambda machine, now: machine.disconnect(now, client))
        self.client = None


def check_receipt(ledger: Ledger, boxes: Sequence[Box], sent: Sent) -> None:
    """Called in the moment in which a publication is accepted."""
    if ledger.keeps(sent, boxes) and sent.id not in ledger.on_disk[sent.router]:
        fail("receipt-means-written", f"{sent.id.hex()} of router {sent.router} is accepted and not on its disk")
