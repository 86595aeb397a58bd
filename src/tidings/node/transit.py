"""Persistent messages on their way to other brokers: stored, sent on, kept until the next broker has stored them too.

An *item* is a message and the routers it still has to reach. Those of them that lie behind the same neighbour go there
in one copy with a tag; when the neighbour says Taken, it answers for them. When a link is lost, what was not taken is
divided again by the routes there are then, or waits until there is one. So a copy may exist twice, and the router it is
meant for knows it again by its message's id (`Seen`, which outlives a restart): it is delivered exactly once.

    accept ──► store ──► todo ──send──► outstanding ──Taken──► gone
                          ▲                │
                          └───link lost────┘
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from tidings.delivery.store import Acked, MailboxAdded, Recovered, Stored
from tidings.errors import CodecError, StoreError, TidingsError
from tidings.node.completions import ConfirmCopy, DeliverRelayed, ForwardMessage, RelayCompletion, RememberEntry
from tidings.node.encoded import ID, expires_ms_of
from tidings.node.journal import Journal
from tidings.node.plane import NetworkPlane
from tidings.node.post_office import PostOffice
from tidings.node.repeats import copy_refused
from tidings.node.seen import Seen
from tidings.overlay.effects import Router
from tidings.routing.codec import Reader, put_varint

KIND = "transit"
HEADER_BYTES = 4  # of a stored item: version, 0, the message's priority (as in a message), 0
LOAD_MAX = 256
EXPIRE_MAX = 10_000  # items that are looked at in one tick


@dataclass(slots=True, eq=False)
class _Item:
    seq: int
    id: bytes
    message: bytes | None  # None: only the store has it
    size: int
    expires_ms: int
    hops: int
    todo: set[Router]
    outstanding: int = 0  # copies that are not acknowledged


@dataclass(slots=True)
class _Link:
    bytes: int = 0  # sent and not acknowledged
    copies: dict[int, tuple[_Item, tuple[Router, ...]]] = field(default_factory=dict)  # by tag


class Transit:
    def __init__(
        self,
        plane: NetworkPlane,
        journal: Journal,
        office: PostOffice,
        router: Router,
        *,
        hops_max: int = 32,
        window_bytes: int = 1 << 20,
        memory_bytes_max: int = 64 << 20,
        load_max: int = LOAD_MAX,
    ) -> None:
        self.router = router
        self.expired = self.abandoned = self.duplicates = self.no_hops = 0
        self.wanted: list[int] = []  # what the store must bring
        self._plane, self._journal, self._office = plane, journal, office
        self._hops_max, self._window_bytes, self._memory_bytes_max = hops_max, window_bytes, memory_bytes_max
        self._load_max = load_max
        self._box = 0  # the number under which the store keeps items
        self._seen = Seen()
        self._items: dict[int, _Item] = {}
        self._unread: set[int] = set()  # stored in an earlier life and not loaded yet
        self._todo: dict[Router, dict[int, None]] = {}  # by destination, in order
        self._parked: list[int] = []  # crossed too many links, tried again later
        self._unchecked: list[int] = []  # may have expired, in this round of looking
        self._links: dict[Router, _Link] = {}
        self._next_hops: Mapping[Router, Router] = {}
        self._next_tag = 1
        self._memory_bytes = 0

    def __len__(self) -> int:
        """How many messages are on their way."""
        return len(self._items) + len(self._unread)

    def recover(self, recovered: Recovered) -> None:
        for box in recovered.mailboxes:
            if box.kind == KIND:
                self._box = box.mailbox
                self._unread = set(recovered.waiting[box.mailbox].seqs)
        self.wanted = sorted(self._unread)[: self._load_max]
        self._seen.recover(recovered.notes)

    def take_wanted(self) -> list[int]:
        wanted, self.wanted = self.wanted, []
        return wanted

    # --- messages in ----------------------------------------------------------------------------------------------

    def accept(self, message: bytes, routers: Iterable[Router], expires_ms: int, hops: int | None = None) -> None:
        """Take responsibility, once the batch that is being gathered is on disk."""
        todo = set(routers)
        seq = self._office.take_seq()
        self._journal.message(Stored(seq, encode_item(message, todo), (self._mailbox(),)), len(message))
        left = self._hops_max if hops is None else hops
        self._journal.then(ForwardMessage(seq, message, todo, expires_ms, left))

    def forward(self, stored: ForwardMessage) -> None:
        """The message is safe: send it on."""
        seq, message, routers, expires_ms, hops = stored
        self._add(_Item(seq, message[ID], message, len(message), expires_ms, hops, routers))

    def relayed(
        self,
        now_ms: int,
        hops: int,
        routers: list[Router],
        expires_ms: int,
        message: bytes,
        completion: RelayCompletion,
        group: Hashable = None,
    ) -> None:
        """A copy from a neighbour; `completion` when it is safe here. Copies of one group can be withdrawn together."""
        self._journal.group = group
        try:
            rest = set(routers) - {self.router}
            known = self.router in routers and message[ID] in self._seen
            if known:
                self.duplicates += 1
            elif self.router in routers:
                self._deliver(now_ms, message, expires_ms)
            if rest:
                self.no_hops += hops == 0
                self.accept(message, rest, expires_ms, hops)
            self._journal.then(ConfirmCopy(message[ID], completion) if known else completion)
        finally:
            self._journal.group = None

    def missing(self, message_id: bytes) -> StoreError | None:
        """A copy of what is known is safe if that one is: it may have been on its way to disk still, and refused."""
        return None if message_id in self._seen else copy_refused()

    def forget(self, message_id: bytes) -> None:
        """The message could not be stored, so it was not taken after all."""
        self._seen.discard(message_id)

    def _deliver(self, now_ms: int, message: bytes, expires_ms: int) -> None:
        if 0 < expires_ms <= now_ms:
            self.expired += 1
            return
        self._seen.add(message[ID])
        self._journal.message(self._seen, 0)
        mailboxes = self._office.mailboxes.for_message(message, self._plane.match(message))
        self._journal.then(DeliverRelayed(now_ms, self._office.prepare(message, mailboxes, expires_ms)))

    def deliver_relayed(self, completion: DeliverRelayed, error: TidingsError | None) -> None:
        now_ms, offer = completion
        if error is None:
            self._office.offer(*offer)
            self._plane.publish(offer.message, now_ms, None)
        else:
            self.forget(offer.message[ID])

    def deliver(self, now_ms: int, message: bytes) -> None:
        """To subscribers here: a message of another broker that is not persistent."""
        expires_ms = expires_ms_of(message)
        if 0 < expires_ms <= now_ms:
            self.expired += 1
            return
        self._plane.publish(message, now_ms, None)
        if mailboxes := self._office.mailboxes.for_message(message, self._plane.match(message)):
            self._office.accept(message, mailboxes, expires_ms=expires_ms)

    def saw(self, message_id: bytes) -> bool:
        """A persistent message that entered here will not be delivered again; False: it was here before."""
        if message_id in self._seen:
            self.duplicates += 1
            return False
        self._seen.add(message_id)
        self._journal.message(self._seen, 0)
        self._journal.then(RememberEntry(message_id))
        return True

    def loaded(self, messages: dict[int, bytes]) -> None:
        """The store has brought these; the others are not ours."""
        for seq in [seq for seq in messages if seq in self._unread or seq in self._items]:
            blob = messages.pop(seq)
            message, routers = decode_item(blob)
            item = self._items.get(seq)
            if item is None:
                self._unread.discard(seq)
                expires_ms = expires_ms_of(message)
                self._add(_Item(seq, message[ID], message, len(message), expires_ms, self._hops_max, set(routers)))
            elif item.message is None:
                item.message = message
                self._memory_bytes += len(message)
        self.wanted = sorted(self._unread)[: self._load_max]

    # --- the network ----------------------------------------------------------------------------------------------

    def link_up(self, neighbour: Router) -> None:
        self._links[neighbour] = _Link()

    def link_down(self, neighbour: Router) -> None:
        link = self._links.pop(neighbour, None)
        for item, routers in link.copies.values() if link else ():
            item.outstanding -= 1
            self._undone(item, routers)

    def routed(self, next_hops: Mapping[Router, Router]) -> None:
        self._next_hops = next_hops

    def taken(self, neighbour: Router, tags: Iterable[int]) -> None:
        link = self._links.get(neighbour)
        for tag in tags if link else ():
            assert link is not None
            item, _ = link.copies.pop(tag, (None, ()))
            if item is not None:
                link.bytes -= item.size
                item.outstanding -= 1
                self._maybe_finish(item)

    def abandon(self, router: Router) -> int:
        """The router will not come back: nothing waits for it any longer; how many did."""
        waiting = self._todo.pop(router, {})
        for seq in waiting:
            item = self._items[seq]
            item.todo.discard(router)
            self._maybe_finish(item)
        self.abandoned += len(waiting)
        return len(waiting)

    def unpark(self) -> None:
        """About once a second, whatever the clock on the wall shows, which may be set back: try again what rested."""
        parked, self._parked = self._parked, []
        for seq in parked:
            if seq in self._items:
                self._undone(self._items[seq], self._items[seq].todo)

    def expire(self, now_ms: int) -> None:
        """About once a second: what waits for who cannot be reached takes no room longer than it is worth having."""
        self._unchecked = self._unchecked or list(self._items)
        for seq in self._unchecked[-EXPIRE_MAX:]:
            item = self._items.get(seq)
            if item is not None and item.todo and 0 < item.expires_ms <= now_ms:
                self._expire(item)
        del self._unchecked[-EXPIRE_MAX:]

    def waiting_for(self) -> list[Router]:
        """Routers that something waits for, unsent."""
        return list(self._todo)

    # --- messages out ---------------------------------------------------------------------------------------------

    def pump(self, now_ms: int) -> None:
        """Send what there are routes, and room, for; by each link in the order in which it was stored."""
        by_hop: dict[Router, list[Router]] = {}
        for router in self._todo:
            hop = self._next_hops.get(router)
            if hop is not None and hop in self._links:
                by_hop.setdefault(hop, []).append(router)
        for hop, routers in by_hop.items():
            self._send_in_order(now_ms, hop, self._links[hop], routers)

    def _send_in_order(self, now_ms: int, hop: Router, link: _Link, routers: list[Router]) -> None:
        """What waits for any of these routers, which all lie behind this link."""
        waiting = [router for router in routers if router in self._todo]  # an item that expired or is parked left all
        heads = [(next(iter(self._todo[router])), router) for router in waiting]
        heapify(heads)
        while heads and link.bytes < self._window_bytes:
            seq, router = heads[0]
            first = next(iter(self._todo.get(router, ())), None)
            if first is None:
                heappop(heads)
            elif first != seq:  # that one went with a copy for others
                heapreplace(heads, (first, router))
            elif not self._send(now_ms, hop, link, self._items[seq]):
                break

    def _send(self, now_ms: int, hop: Router, link: _Link, item: _Item) -> bool:
        if 0 < item.expires_ms <= now_ms:
            self._expire(item)
            return True
        if item.hops == 0:
            self._park(item)
            return True
        if item.message is None:
            self.wanted.append(item.seq)
            return False
        routers = tuple(sorted(router for router in item.todo if self._next_hops.get(router) == hop))
        if not self._plane.relay(hop, list(routers), item.hops - 1, self._next_tag, item.message, now_ms):
            return False
        self._done_with(item, routers)
        item.outstanding += 1
        link.copies[self._next_tag] = (item, routers)
        link.bytes += item.size
        self._next_tag += 1
        if self._memory_bytes > self._memory_bytes_max:
            self._memory_bytes -= item.size
            item.message = None
        return True

    def _expire(self, item: _Item) -> None:
        self.expired += 1
        self._done_with(item, tuple(item.todo))
        self._maybe_finish(item)

    def _park(self, item: _Item) -> None:
        """It went in circles while routes changed: let them settle."""
        self._done_with(item, tuple(item.todo), keep=True)
        item.hops = self._hops_max
        self._parked.append(item.seq)

    # --- books ----------------------------------------------------------------------------------------------------

    def _add(self, item: _Item) -> None:
        self._items[item.seq] = item
        self._memory_bytes += item.size
        if self._memory_bytes > self._memory_bytes_max:
            self._memory_bytes -= item.size
            item.message = None
        self._undone(item, item.todo)

    def _undone(self, item: _Item, routers: Iterable[Router]) -> None:
        for router in list(routers):
            item.todo.add(router)
            waiting = self._todo.setdefault(router, {})
            late = bool(waiting) and next(reversed(waiting)) > item.seq
            waiting[item.seq] = None
            if late:  # it goes before those that were stored after it
                self._todo[router] = dict.fromkeys(sorted(waiting))

    def _done_with(self, item: _Item, routers: tuple[Router, ...], *, keep: bool = False) -> None:
        for router in routers:
            waiting = self._todo.get(router, {})
            waiting.pop(item.seq, None)
            if not waiting:
                self._todo.pop(router, None)
        if not keep:
            item.todo.difference_update(routers)

    def _maybe_finish(self, item: _Item) -> None:
        if not item.todo and not item.outstanding and item.seq in self._items:
            del self._items[item.seq]
            if item.message is not None:
                self._memory_bytes -= item.size
            self._journal.change(Acked(self._mailbox(), (item.seq,)))

    def _mailbox(self) -> int:
        if not self._box:
            self._box = self._office.mailboxes.take_number()
            self._journal.change(MailboxAdded(self._box, KIND, KIND))
        return self._box


def encode_item(message: bytes, routers: Iterable[Router]) -> bytes:
    """An item as the store keeps it; a store looks at the priority, which stands where a message has it."""
    out = bytearray((1, 0, message[2], 0))
    ordered = sorted(routers)
    put_varint(out, len(ordered))
    for router in ordered:
        put_varint(out, router)
    return bytes(out) + message


def decode_item(blob: bytes) -> tuple[bytes, list[Router]]:
    """
    >>> decode_item(encode_item(b"1234 and more", [7, 3]))
    (b'1234 and more', [3, 7])
    """
    if blob[:1] != b"\x01":
        raise CodecError("E_TRANSIT_VERSION", "an item of another version", position=0)
    reader = Reader(blob)
    reader.at = HEADER_BYTES
    routers = [reader.varint(2**32 - 1) for _ in range(reader.count())]
    return blob[reader.at :], routers
