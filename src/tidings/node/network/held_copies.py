"""Holds what other brokers kept for this one while it was away, if it came back with an empty store.

With its store a broker loses its durable subscriptions. If it took what waits for it at once, that would match nobody
and be lost, though it was confirmed. A broker that begins with a new store and was never there before gets nothing
before somebody has subscribed here. So a persistent copy that arrives earlier means that the store was replaced: this
copy and all that follow are kept on disk, in a mailbox of their own, and acknowledged to the neighbour. They are
released in order, marked as redelivered, after `wait_ms`, when an operator confirms it (`confirm`), or when the broker
is started with the policy `take`. That nobody has subscribed since the store was new is noted in it, for later runs.

    copy ──► store ──► held ──release──► loaded ──► matched ──► mailboxes, subscribers

What is held survives a restart; the wait begins again then.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from tidings.delivery.mailbox import PERHAPS_SEEN
from tidings.delivery.store import Acked, MailboxAdded, Note, Recovered, Stored
from tidings.errors import TidingsError
from tidings.node.completions import HoldCopy, ReleaseCopy
from tidings.node.encoded_message import ID, expires_ms_of
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.copy_numbers import CopyNumber
from tidings.node.plane import NetworkPlane
from tidings.overlay.effects import Report, Router

KIND = "held"
FRESH_NOTE = "store-unclaimed"  # there while nobody has subscribed since the store was new


class EmptyStorePolicy(Enum):
    """The treatment of messages that waited for a broker, if its store is new."""

    WAIT = "wait"  # hold them for a time, in which durable subscribers come back
    HOLD = "hold"  # until an operator confirms, by a start with `take`
    TAKE = "take"


@dataclass(frozen=True, slots=True)
class EmptyStoreOptions:
    policy: EmptyStorePolicy = EmptyStorePolicy.WAIT
    wait_ms: float = 60_000.0


class HeldCopies:
    def __init__(
        self,
        plane: NetworkPlane,
        journal: Journal,
        service: MailboxService,
        options: EmptyStoreOptions,
        *,
        load_max: int = 256,
    ) -> None:
        self.expired = 0
        self._plane, self._journal, self._service = plane, journal, service
        self._options, self._load_max = options, load_max
        self._box = 0  # the number under which the store keeps them
        self._fresh = False  # the store is new, and nobody has subscribed here since
        self._noted = False  # the store says so
        self._new = False  # nothing was ever written to it when this run began
        self._holding = False
        self._since: float | None = None  # when holding began in this run, by the links' clock
        self._confirmed = False  # by an operator
        self._releasing = False
        self._resting = False  # the store refused what was released: until the next tick
        self._seqs: dict[int, None] = {}  # in order
        self._coming = self._going = 0  # copies on their way to disk, and to mailboxes

    def __len__(self) -> int:
        return len(self._seqs) + self._coming + self._going

    def recover(self, recovered: Recovered, *, new: bool) -> None:
        """`new`: nothing was ever written to the store."""
        self._new = new
        if new:
            self._journal.change(Note(FRESH_NOTE, b"1"))
        self._noted = new or FRESH_NOTE in recovered.notes
        self._fresh = self._noted and self._options.policy is not EmptyStorePolicy.TAKE
        for box in recovered.mailboxes:
            if box.kind == KIND:
                self._box = box.mailbox
                self._seqs = dict.fromkeys(recovered.waiting[box.mailbox].seqs)
                self._holding = bool(self._seqs)

    def subscribed(self) -> None:
        """Somebody here wants something: what arrives from now on may be for this subscriber."""
        self._fresh = False
        self._claim()

    @property
    def last_seq(self) -> int:
        """Of what was stored here, by this broker's runs so far."""
        return self._service.last_seq

    def store_is_old(self, peer: Router) -> Report:
        """A neighbour knows a later state of this broker's store."""
        self._service.doubt()
        if self.replaced():
            text = f"the store is new, but broker {peer} knows an earlier one of this broker"
            return Report("E_STORE_REPLACED", text)
        text = f"the store is older than when broker {peer} last heard of it, as after a restored backup: "
        text += "what was stored and acknowledged since is lost, and what waits is given marked as redelivered"
        return Report("E_STORE_RESTORED", text)

    def confirm(self) -> bool:
        """An operator says that all durable subscriptions are there again; False: nothing is held."""
        self._confirmed = self._holding
        return self._holding

    def _claim(self) -> None:
        if self._noted:
            self._noted = False
            self._journal.later(Note(FRESH_NOTE, b""))

    def replaced(self) -> bool:
        """A neighbour knows an earlier store of this broker. True: this one is new in this run; holding begins with the
        next copy, whoever has subscribed meanwhile."""
        if self._new and self._options.policy is not EmptyStorePolicy.TAKE:
            self._fresh = True
        return self._new

    def takes(self) -> bool:
        """True if a copy that arrives is to be held."""
        self._holding |= self._fresh
        self._fresh = False
        return self._holding

    def hold(self, message: bytes, number: CopyNumber | None) -> None:
        if not self._box:
            self._box = self._service.mailboxes.take_number()
            self._journal.change(MailboxAdded(self._box, KIND, KIND))
        seq = self._service.take_seq()
        self._coming += 1
        self._journal.message(Stored(seq, message, (self._box,)), len(message))
        self._journal.then(HoldCopy(seq, message[ID], number))

    def held(self, seq: int, error: TidingsError | None) -> None:
        """The fate of a copy is known."""
        self._coming -= 1
        if error is None:
            self._seqs[seq] = None

    def tick(self, now: float) -> list[Report]:
        """About once a second: release what was held for long enough. Returns what operators are to know."""
        self._resting = False
        if not self._holding:
            return []
        policy, wait_ms = self._options.policy, self._options.wait_ms
        if self._since is None:
            self._since = now
            until = "an operator releases them (tidings net release)"
            if policy is EmptyStorePolicy.WAIT:
                until = f"its durable subscribers had {wait_ms / 1000:g} s to come back"
            text = f"the store is new, but other brokers kept messages for this one: they are held until {until}"
            return [Report("E_EMPTY_STORE", text)]
        if self._releasing and not len(self):
            self._releasing = self._holding = self._confirmed = False
            self._claim()
            return [Report("HELD_RELEASED", "the messages held since the store was replaced are given to subscribers")]
        waited = policy is EmptyStorePolicy.WAIT and now - self._since >= wait_ms
        self._releasing = policy is EmptyStorePolicy.TAKE or self._confirmed or waited
        return []

    def wanted(self) -> list[int]:
        """Messages to be loaded from the store."""
        if not self._releasing or self._going or self._resting:
            return []
        return list(islice(self._seqs, self._load_max))

    def loaded(self, now_ms: int, messages: dict[int, bytes]) -> None:
        """The store has brought these; the others are not held here. What is behind a gap is loaded again."""
        ours = {seq: messages.pop(seq) for seq in list(messages) if seq in self._seqs}
        for seq in self.wanted():
            if seq not in ours:
                return
            self._release(now_ms, seq, ours[seq])

    def _release(self, now_ms: int, seq: int, message: bytes) -> None:
        del self._seqs[seq]
        expires_ms = expires_ms_of(message)
        if 0 < expires_ms <= now_ms:
            self.expired += 1
            self._journal.later(Acked(self._box, (seq,)))
            return
        self._going += 1
        self._journal.message(Acked(self._box, (seq,)), 0)
        mailboxes = self._service.mailboxes.for_message(message, self._plane.match(message))
        offer = self._service.prepare(message, mailboxes, expires_ms, tries=PERHAPS_SEEN)
        self._journal.then(ReleaseCopy(now_ms, seq, offer))

    def released(self, completion: ReleaseCopy, error: TidingsError | None) -> None:
        now_ms, seq, offer = completion
        self._going -= 1
        if error is None:
            self._service.offer(*offer)
            self._plane.publish(offer.message, now_ms, None)
        else:
            self._resting = True
            self._seqs = dict.fromkeys(sorted([seq, *self._seqs]))

    def lost(self, seqs: AbstractSet[int]) -> None:
        """The store can never bring these."""
        for seq in [seq for seq in self._seqs if seq in seqs]:
            del self._seqs[seq]
            self._journal.later(Acked(self._box, (seq,)))
