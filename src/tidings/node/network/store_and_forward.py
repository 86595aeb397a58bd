"""Persistent messages on their way to other brokers: stored, sent on, kept until the next broker has stored them too.

An *item* is a message and the routers it still has to reach. Those of them that lie behind the same neighbour go there
in one copy with a tag; when the neighbour says Taken, it answers for them. When a link is lost, what was not taken is
divided again by the routes there are then, or waits until there is one. So a copy may exist twice, and the router it is
for recognises it by the number that the broker where it entered gave it (`copy_numbers`, `RelayDedup`, which outlives
a restart): it is delivered once.

    accept ──► store ──► todo ──send──► outstanding ──Taken──► gone
                          ▲                │
                          └───link lost────┘

Items leave in the order in which they were stored. After a restart the store is read a page at a time, and nobody knows
the routers of what was not read: so items that are accepted meanwhile wait behind all of it (`_newer`), in memory as
long as there is room, like all others.

    store ──page──► todo ◄──when the last page is read── newer ◄── accept
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heapreplace
from itertools import islice

from tidings.delivery.mailbox import NEW, PERHAPS_SEEN
from tidings.delivery.store import Acked, MailboxAdded, Recovered, Stored
from tidings.errors import StoreError, TidingsError
from tidings.model.message_id import MessageId
from tidings.node.clients.publish_dedup import copy_refused
from tidings.node.completions import (
    ConfirmCopy,
    DeliverRelayed,
    ForwardMessage,
    HoldCopy,
    RelayCompletion,
    RememberEntry,
)
from tidings.node.encoded_message import ID, QUEUE, expires_ms_of
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.mailboxes.stored_backlog import StoredBacklog
from tidings.node.network.copy_numbers import (
    CopyNumber,
    CopyNumbering,
    CopyNumbers,
    TransitItem,
    TransitLink,
    decode_item,
    encode_item,
)
from tidings.node.network.held_copies import EmptyStoreOptions, HeldCopies
from tidings.node.network.relay_dedup import RelayDedup
from tidings.node.plane import NetworkPlane
from tidings.overlay.effects import Router

KIND = "transit"
LOAD_MAX = 256
UNKNOWN: Router = 0  # a destination: whoever wants the message, which is not known yet (first_sync.py)
EXPIRE_MAX = 10_000  # items that are looked at in one tick


class StoreAndForward:
    def __init__(
        self,
        plane: NetworkPlane,
        journal: Journal,
        service: MailboxService,
        router: Router,
        *,
        hops_max: int = 32,
        window_bytes: int = 1 << 20,
        memory_bytes_max: int = 64 << 20,
        load_max: int = LOAD_MAX,
        dedup: RelayDedup | None = None,
        held: HeldCopies | None = None,
    ) -> None:
        self.router, self.destinations_known = router, True
        self.expired = self.abandoned = self.duplicates = self.no_hops = 0
        self._plane, self._journal, self._service = plane, journal, service
        self._hops_max, self._window_bytes, self._memory_bytes_max = hops_max, window_bytes, memory_bytes_max
        self._box = 0  # the number under which the store keeps items
        self._load_max, self._seen = load_max, dedup or RelayDedup()
        self.numbering, self.may_repeat = CopyNumbering(router), self._seen.may_repeat
        self._held = HeldCopies(plane, journal, service, EmptyStoreOptions()) if held is None else held
        self._items: dict[int, TransitItem] = {}
        self._unread = StoredBacklog(load_max)  # stored in an earlier life and not loaded yet
        self._newer: list[TransitItem] = []  # accepted while there is something unread
        self._absent: list[int] = []  # to be sent next, and only in the store
        self._todo: dict[Router, OrderedDict[int, None]] = {}  # by destination, in order
        self._parked: list[int] = []  # crossed too many links, tried again later
        self._unchecked: list[int] = []  # may have expired, in this round of looking
        self._links: dict[Router, TransitLink] = {}
        self._next_hops: Mapping[Router, Router] = {}
        self._next_tag, self._memory_bytes = 1, 0

    def __len__(self) -> int:
        """The number of messages in transit."""
        return len(self._items) + len(self._unread)

    def recover(self, recovered: Recovered) -> None:
        for box in recovered.mailboxes:
            if box.kind == KIND:
                self._box = box.mailbox
                self._unread.recover(recovered.waiting[box.mailbox].seqs)
        self._seen.recover(recovered.notes)

    def wanted(self) -> list[int]:
        """Messages to be loaded from the store: those of an earlier run, and those for the links."""
        return [*self._unread.wanted(), *self._absent] if self._unread or self._absent else []

    # --- messages in ----------------------------------------------------------------------------------------------

    def accept(self, message: bytes, routers: Iterable[Router], expires_ms: int, *, repeated: bool = False) -> None:
        """Take responsibility for a message that enters here, once the batch that is being gathered is on disk.
        `repeated`: its publisher may have sent it before."""
        if not self.destinations_known or UNKNOWN in self._todo:  # behind those that wait for their destinations
            routers = (UNKNOWN,)
        self._store(message, self.numbering.take(routers, repeated=repeated), expires_ms, self._hops_max)

    def _store(self, message: bytes, numbers: CopyNumbers, expires_ms: int, hops: int) -> None:
        self._journal.then(self._keep(message, numbers, expires_ms, hops))

    def _keep(self, message: bytes, numbers: CopyNumbers, expires_ms: int, hops: int) -> ForwardMessage:
        seq = self._service.take_seq()
        self._journal.message(Stored(seq, encode_item(message, numbers), (self._mailbox(),)), len(message))
        return ForwardMessage(seq, message, numbers, expires_ms, hops)

    def keep(self, message: bytes, router: Router, expires_ms: int, *, repeated: bool) -> ForwardMessage:
        """Store a message for a router; `forward` follows when it is on disk. `repeated`: somebody may have seen it."""
        return self._keep(message, self.numbering.take((router,), repeated=repeated), expires_ms, self._hops_max)

    def forward(self, stored: ForwardMessage) -> None:
        """The message is safe: send it on."""
        seq, message, numbers, expires_ms, hops = stored
        item = TransitItem(seq, message[ID], message, len(message), expires_ms, hops, numbers, set(numbers.by_router))
        self._add(item)
        if self._unread:
            self._newer.append(item)
        else:
            self._wait(item)

    def relayed(
        self,
        now_ms: int,
        hops: int,
        numbers: CopyNumbers,
        expires_ms: int,
        message: bytes,
        completion: RelayCompletion,
        group: Hashable = None,
    ) -> None:
        """A copy from a neighbour; `completion` when it is safe here. Copies of one group can be withdrawn together."""
        self._journal.group = group
        try:
            here, number = self.router in numbers.by_router, numbers.at(self.router)
            known = here and self._seen.has_taken(message[ID], number)
            if known:
                self.duplicates += 1
            elif here:
                self._deliver(now_ms, numbers, message, expires_ms)
            self._pass_on(message, numbers.without(self.router) if here else numbers, expires_ms, hops)
            self._journal.then(ConfirmCopy(now_ms, message[ID], number, completion) if known else completion)
        finally:
            self._journal.group = None

    def _pass_on(self, message: bytes, numbers: CopyNumbers, expires_ms: int, hops: int) -> None:
        if numbers.by_router:
            self.no_hops += hops == 0
            self._store(message, numbers, expires_ms, hops)

    def confirm_copy(self, copy: ConfirmCopy) -> StoreError | None:
        """A copy of what is known is safe if that one is: it may have been on its way to disk still, and refused."""
        if self._seen.has_taken(copy.message_id, copy.number):
            if copy.number is not None:
                self._seen.numbers.add(copy.number, copy.now_ms)
            return None
        return copy_refused()

    def missing(self, message_id: bytes) -> StoreError | None:
        """The same for an event that was published here again."""
        return None if message_id in self._seen else copy_refused()

    def forget(self, message_id: bytes, number: CopyNumber | None = None) -> None:
        """The message could not be stored, so it was not taken after all."""
        self._seen.discard(message_id, number)

    def _deliver(self, now_ms: int, numbers: CopyNumbers, message: bytes, expires_ms: int) -> None:
        if 0 < expires_ms <= now_ms:
            self.expired += 1
            return
        number = numbers.at(self.router)
        if self._held.takes() and not message[1] & QUEUE:
            self._seen.add(message[ID], number, now_ms, repeated=numbers.repeated)
            self._journal.message(self._seen, 0)
            self._held.hold(message, number)
            return
        new = self._seen.is_new(message[ID], number, repeated=numbers.repeated)
        if numbers.repeated and (message[1] & QUEUE or self._entered_here(message[ID])):
            new = False
        tries = NEW if new else PERHAPS_SEEN
        self._seen.add(message[ID], number, now_ms, repeated=numbers.repeated)
        self._journal.message(self._seen, 0)
        mailboxes = self._service.mailboxes.for_copy(message, self._plane.match(message))
        offer = self._service.prepare(message, mailboxes, expires_ms, tries=tries)
        self._journal.then(DeliverRelayed(now_ms, offer, number))

    def _entered_here(self, message_id: bytes) -> bool:
        """True if a message that was published again may have been published here first."""
        return (
            MessageId.from_bytes(message_id).broker == self.router or message_id in self._service.publish_dedup.recent
        )

    def held_copy(self, completion: HoldCopy, error: TidingsError | None) -> None:
        seq, message_id, number = completion
        self._held.held(seq, error)
        if error is not None:
            self.forget(message_id, number)

    def deliver_relayed(self, completion: DeliverRelayed, error: TidingsError | None) -> None:
        now_ms, offer, number = completion
        if error is None:
            self._service.offer(*offer)
            self._plane.publish(offer.message, now_ms, None)
        else:
            self.forget(offer.message[ID], number)

    def deliver(self, now_ms: int, message: bytes) -> None:
        """To subscribers here: a message of another broker that is not persistent."""
        expires_ms = expires_ms_of(message)
        if 0 < expires_ms <= now_ms:
            self.expired += 1
            return
        self._plane.publish(message, now_ms, None)
        if mailboxes := self._service.mailboxes.for_message(message, self._plane.match(message)):
            self._service.accept(message, mailboxes, expires_ms=expires_ms, marked=self.may_repeat(message[ID]))

    def saw(self, message_id: bytes) -> bool:
        """A persistent message that entered here will not be delivered again; False: it was here before."""
        if message_id in self._seen:
            self.duplicates += 1
            return False
        self._seen.add(message_id)
        self._journal.message(self._seen, 0)
        self._journal.then(RememberEntry(message_id))
        return True

    def published_again(self, message_id: bytes) -> None:
        """A message was published here that its publisher sent before, perhaps at another broker."""
        for note in self._seen.published_again(message_id):
            self._journal.change(note)

    def loaded(self, messages: dict[int, bytes]) -> None:
        """The store has brought these; the others are not ours."""
        ours = {seq: messages.pop(seq) for seq in list(messages) if seq in self._unread or seq in self._items}
        for seq, blob in ours.items():
            if (item := self._items.get(seq)) is not None and item.message is None:
                item.message = decode_item(blob)[0]
                self._memory_bytes += item.size
        if self._unread:
            self._read_on(ours)

    def lost(self, seqs: AbstractSet[int]) -> None:
        """The store can never bring these: what is behind them must not wait for them."""
        for seq in self._unread.lost(seqs):
            self._journal.later(Acked(self._mailbox(), (seq,)))
        for item in [self._items[seq] for seq in seqs if seq in self._items]:
            self._done_with(item, tuple(item.todo))
            self._maybe_finish(item)
        self._read_on({})

    def _read_on(self, messages: Mapping[int, bytes]) -> None:
        for seq, blob in self._unread.brought(messages):
            message, numbers = decode_item(blob)
            expires_ms, routers = expires_ms_of(message), set(numbers.by_router)
            item = TransitItem(seq, message[ID], message, len(message), expires_ms, self._hops_max, numbers, routers)
            self._add(item)
            self._wait(item)
        if not self._unread:
            newer, self._newer = self._newer, []
            for item in newer:
                self._wait(item)

    # --- the network ----------------------------------------------------------------------------------------------

    def link_up(self, neighbour: Router) -> None:
        self._links[neighbour] = TransitLink()

    def link_down(self, neighbour: Router) -> None:
        link = self._links.pop(neighbour, None)
        if link is not None:
            for item, _ in link.copies.values():
                item.outstanding -= 1
            self._put_back(link.copies.values())

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
        waiting = list(self._todo.pop(router, ()))
        for seq in waiting:
            item = self._items[seq]
            item.todo.discard(router)
            self._maybe_finish(item)
        self.abandoned += len(waiting)
        return len(waiting)

    def take_waiting(self, router: Router, count: int) -> list[tuple[int, bytes, int]]:
        """Messages that wait for the router, with number and expiry; what is only in the store is read first."""
        taken = []
        for seq in list(islice(self._todo.get(router, ()), count)):
            item = self._items[seq]
            if item.message is None:
                self._absent.append(seq)
            else:
                self._done_with(item, (router,), keep=True)
                taken.append((seq, item.message, item.expires_ms))
        return taken

    def put_away(self, seq: int, router: Router, *, back: bool) -> None:
        """A message that was taken waits again (`back`), or need not go to the router any more."""
        item = self._items.get(seq)
        if item is not None and back:
            self._put_back([(item, (router,))])
        elif item is not None:
            item.todo.discard(router)
            self._maybe_finish(item)

    def unpark(self) -> None:
        """About once a second, whatever the wall clock shows, which may be set back: try again what rested."""
        parked, self._parked = self._parked, []
        self._put_back([(item, tuple(item.todo)) for seq in parked if (item := self._items.get(seq)) is not None])

    def expire(self, now_ms: int) -> None:
        """About once a second: what waits for who cannot be reached takes no room longer than it is worth having."""
        self._unchecked = self._unchecked or list(self._items)
        for seq in self._unchecked[-EXPIRE_MAX:]:
            item = self._items.get(seq)
            if item is not None and item.todo and 0 < item.expires_ms <= now_ms:
                self._expire(item)
        del self._unchecked[-EXPIRE_MAX:]

    def forget_silent(self, now_ms: int, silent_ms: float) -> None:
        """About once a second: forget which copies came of broker runs that are long over."""
        for note in self._seen.numbers.forget_silent(now_ms, silent_ms):
            self._journal.later(note)

    def waiting(self, router: Router) -> int:
        """The number of messages for a router that wait to be sent."""
        return len(self._todo.get(router, ()))

    def waiting_for(self) -> dict[Router, int]:
        """Routers that something waits for, unsent, and how much."""
        return {router: len(waiting) for router, waiting in self._todo.items() if router != UNKNOWN}

    # --- messages out ---------------------------------------------------------------------------------------------

    def pump(self, now_ms: int) -> None:
        """Send what there are routes, and room, for; by each link in the order in which it was stored."""
        self._absent = []
        if self.destinations_known and UNKNOWN in self._todo:
            self._resolve()
        by_hop: dict[Router, list[Router]] = {}
        for router in self._todo:
            hop = self._next_hops.get(router)
            if hop is not None and hop in self._links:
                by_hop.setdefault(hop, []).append(router)
        for hop, routers in by_hop.items():
            self._send_in_order(now_ms, hop, self._links[hop], routers)

    def _resolve(self) -> None:
        """Give what was stored for whoever wants it the destinations that are known now."""
        for seq in list(self._todo[UNKNOWN]):
            item = self._items[seq]
            if item.message is None:
                self._absent.append(seq)
                if len(self._absent) == self._load_max:
                    return
                continue
            if routers := self._plane.destinations(item.message):
                numbers = self.numbering.take(routers, repeated=item.numbers.repeated)
                self._store(item.message, numbers, item.expires_ms, self._hops_max)
            self._done_with(item, (UNKNOWN,))
            self._maybe_finish(item)

    def _send_in_order(self, now_ms: int, hop: Router, link: TransitLink, routers: list[Router]) -> None:
        """Send what waits for any of these routers, which all lie behind this link."""
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
                if self._items[seq].message is None:  # the store must bring it, and what follows it
                    following = islice(self._todo[router], self._load_max)
                    self._absent += [one for one in following if self._items[one].message is None]
                break

    def _send(self, now_ms: int, hop: Router, link: TransitLink, item: TransitItem) -> bool:
        if 0 < item.expires_ms <= now_ms:
            self._expire(item)
            return True
        if item.hops == 0:
            self._park(item)
            return True
        if item.message is None:
            return False
        routers = tuple(sorted(router for router in item.todo if self._next_hops.get(router) == hop))
        origin, epoch, repeated, by_router = item.numbers
        numbers = [by_router[router] for router in routers]
        hops, tag, message = item.hops - 1, self._next_tag, item.message
        if not self._plane.relay(hop, list(routers), numbers, origin, epoch, repeated, hops, tag, message, now_ms):
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

    def _expire(self, item: TransitItem) -> None:
        self.expired += 1
        self._done_with(item, tuple(item.todo))
        self._maybe_finish(item)

    def _park(self, item: TransitItem) -> None:
        """It went in circles while routes changed: let them settle."""
        self._done_with(item, tuple(item.todo), keep=True)
        item.hops = self._hops_max
        self._parked.append(item.seq)

    # --- books ----------------------------------------------------------------------------------------------------

    def _add(self, item: TransitItem) -> None:
        self._items[item.seq] = item
        self._memory_bytes += item.size
        if self._memory_bytes > self._memory_bytes_max:
            self._memory_bytes -= item.size
            item.message = None

    def _wait(self, item: TransitItem) -> None:
        """To be sent, behind all others."""
        for router in item.todo:
            waiting = self._todo.get(router)
            if waiting is None:
                waiting = self._todo[router] = OrderedDict()
            waiting[item.seq] = None

    def _put_back(self, copies: Iterable[tuple[TransitItem, tuple[Router, ...]]]) -> None:
        """To be sent again, each before those that were stored after it."""
        changed: set[Router] = set()
        for item, routers in copies:
            item.todo.update(routers)
            for router in routers:
                self._todo.setdefault(router, OrderedDict())[item.seq] = None
            changed.update(routers)
        for router in changed:
            self._todo[router] = OrderedDict.fromkeys(sorted(self._todo[router]))

    def _done_with(self, item: TransitItem, routers: tuple[Router, ...], *, keep: bool = False) -> None:
        for router in routers:
            waiting = self._todo.get(router)
            if waiting is not None:
                waiting.pop(item.seq, None)
                if not waiting:
                    del self._todo[router]
        if not keep:
            item.todo.difference_update(routers)

    def _maybe_finish(self, item: TransitItem) -> None:
        if not item.todo and not item.outstanding and item.seq in self._items:
            del self._items[item.seq]
            if item.message is not None:
                self._memory_bytes -= item.size
            self._journal.change(Acked(self._mailbox(), (item.seq,)))

    def _mailbox(self) -> int:
        if not self._box:
            self._box = self._service.mailboxes.take_number()
            self._journal.change(MailboxAdded(self._box, KIND, KIND))
        return self._box
