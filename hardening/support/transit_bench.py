"""Store-and-forward by itself, for tests: a plane that records what leaves, a journal that is flushed by hand."""

from types import SimpleNamespace
from typing import Any

from tidings.delivery.store import MemoryStore, Record
from tidings.errors import TidingsError
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import Forwarder
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.completer import Completer
from tidings.node.completions import Copy, TakeRelay
from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.copy_numbers import CopyNumbers
from tidings.node.network.held_copies import EmptyStoreOptions, HeldCopies
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.settings import NodeSettings


class Plane(Forwarder):
    """A kernel forwarder whose links only record."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[int, list[int], int, int, bytes]] = []
        self.numbers: list[CopyNumbers] = []
        self.full: set[int] = set()
        self.relay = self._relay  # type: ignore[assignment]

    def _relay(
        self,
        neighbour: int,
        routers: list[int],
        numbers: list[int],
        origin: int,
        epoch: int,
        repeated: bool,
        hops: int,
        tag: int,
        message: bytes,
        now_ms: int,
    ) -> bool:
        if neighbour not in self.full:
            self.sent.append((neighbour, routers, hops, tag, message))
            self.numbers.append(CopyNumbers(origin, epoch, repeated, dict(zip(routers, numbers, strict=True))))
        return neighbour not in self.full

    def take_sent(self) -> list[tuple[int, list[int]]]:
        sent, self.sent = self.sent, []
        return [(neighbour, routers) for neighbour, routers, *_ in sent]


def message(counter: int, size: int = 10, expiration_ms: int | None = None) -> bytes:
    id = MessageId(1, 1, 1, counter)
    return encode_message(
        Message(Destination("t"), {}, bytes(size), id=id, persistent=True, expiration_ms=expiration_ms)
    )


class Relays:
    """Notes what becomes of copies."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []

    def complete(self, relay: TakeRelay, error: TidingsError | None) -> bool:
        self.told.append((relay.copy.tag, "taken" if error is None else error.code))
        return False


class Bench:
    def __init__(self, store: MemoryStore | None = None, **options: Any) -> None:
        self.plane, self.journal = Plane(), Journal()
        outbox = AnswerBatch()
        unused: Any = None
        self.service = MailboxService(self.plane, self.journal, Backpressure(self.plane), NodeSettings(), outbox)
        held_options, load_max = options.pop("empty_store", EmptyStoreOptions()), options.get("load_max", 256)
        self.held = HeldCopies(self.plane, self.journal, self.service, held_options, load_max=load_max)
        self.relays = Relays()
        self.store_and_forward = StoreAndForward(self.plane, self.journal, self.service, 1, held=self.held, **options)
        network: Any = SimpleNamespace(
            store_and_forward=self.store_and_forward, relay_inbox=self.relays, held_copies=self.held
        )
        parts = unused, unused, unused, unused, unused
        self.completer = Completer(self.journal, outbox, self.service, *parts, network, None)
        self.store = store or MemoryStore()
        recovered = self.store.recover()
        self.service.recover(recovered)
        self.store_and_forward.recover(recovered)
        self.held.recover(recovered, new=False)
        self.records: list[Record] = []
        self.reads = True  # the store brings what is wanted
        self.turn()

    def turn(self, now_ms: int = 0, error: TidingsError | None = None) -> None:
        self.store_and_forward.pump(now_ms)
        self.flush(error)
        self.store_and_forward.pump(now_ms)
        if self.reads and (wanted := self.store_and_forward.wanted()):
            self.store_and_forward.loaded(dict(zip(wanted, self.store.read(wanted), strict=True)))
            self.store_and_forward.pump(now_ms)
        while self.reads and error is None and (held := self.held.wanted()):
            self.held.loaded(now_ms, dict(zip(held, self.store.read(held), strict=True)))
            self.flush(None)

    def flush(self, error: TidingsError | None) -> None:
        while flushed := self.completer.flush():
            (persist,) = flushed
            if error is None:
                self.store.append(persist.records)
                self.records += persist.records
            self.completer.finished(persist.ticket, error)

    def relay(
        self, tag: int, routers: list[int], message: bytes, hops: int = 5, *, number: int = 0, repeated: bool = False
    ) -> None:
        """A copy of router 2; without a number it can be recognised by its message's id alone."""
        numbers = CopyNumbers(2, 1 << 16, repeated, dict.fromkeys(routers, number))
        copy = Copy(hops, tag, numbers, 0, message)
        self.store_and_forward.relayed(0, hops, numbers, 0, message, TakeRelay(9, 1, tag, copy))

    def restarted(self, **options: Any) -> "Bench":
        """Its store, in a process that reads nothing yet; there is a way to router 3."""
        again = Bench(MemoryStore(), **options)
        again.store, again.reads = self.store, False
        again.service.recover(self.store.recover())
        again.store_and_forward.recover(self.store.recover())
        again.store_and_forward.routed({3: 2})
        again.store_and_forward.link_up(2)
        return again

    def counters(self) -> list[int]:
        """Of the messages that were sent."""
        return [int.from_bytes(sent[4][18:20]) for sent in self.plane.sent]

    def waiting(self) -> int:
        return sum(map(len, self.store.recover().waiting.values()))
