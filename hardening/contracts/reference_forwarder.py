"""The forwarder in plain Python: the same face, no cleverness. What the kernel does must be what this does."""

import struct

from hardening.contracts.reference_matcher import ReferenceMatcher
from hardening.contracts.reference_records import ReferenceConnection, ReferenceSink
from tidings.errors import CodecError
from tidings.kernel.codec import MessageBatch
from tidings.kernel.events import (
    Acknowledged,
    ControlFrame,
    CreditGiven,
    FrameError,
    MessagesDropped,
    OutputRoom,
    PlaneEvent,
    PublishCheck,
    Published,
    SlowConsumer,
    Transacted,
)
from tidings.kernel.forwarder import PERHAPS_SENT, DirectSink
from tidings.matching.matcher import per_message
from tidings.model.codec import decode_message, decode_predicate, encode_frame
from tidings.model.event_type_topics import ROOT
from tidings.protocols.native.frames import FrameType

HEADER = 8
OUTPUT, EVENTS, BLOCKED = 1, 2, 4
ANSWERS_BYTES_MAX = 64 << 10
UNREAD_NOTICES_MAX = 64
REASONS = ("oldest", "newest", "stalled", "far")  # in the order of notices to a subscriber


class ReferenceForwarder:
    """Without the memory limits, which are the kernel's own affair."""

    def __init__(
        self, *, output_bytes_max: int = 1 << 20, login_frame_bytes_max: int = 64 << 10, stall_ms: int = 1000
    ) -> None:
        self._output_bytes_max = output_bytes_max
        self._login_frame_bytes_max = login_frame_bytes_max
        self._stall_ms = stall_ms
        self._connections: dict[int, ReferenceConnection] = {}
        self._sinks: dict[int, ReferenceSink] = {}
        self._matcher = ReferenceMatcher()
        self._events: list[PlaneEvent] = []
        self._dirty: list[ReferenceConnection] = []
        self._resumable: list[ReferenceConnection] = []
        self._next = 0
        self._untold: list[ReferenceSink] = []  # whose subscribers must be told of drops
        drops = [f"dropped_{reason}" for reason in REASONS]
        self._counts = dict.fromkeys(("received", "delivered", "expired", "unmatched", *drops), 0)

    # --- connections ----------------------------------------------------------------------------------------------

    def open(self) -> int:
        self._next += 1
        self._connections[self._next] = ReferenceConnection(self._next, self._login_frame_bytes_max)
        return self._next

    def close(self, connection: int) -> None:
        gone = self._connections.pop(connection)
        for sink in self._sinks.values():
            sink.waiters = [one for one in sink.waiters if one is not gone]
        self._dirty = [one for one in self._dirty if one is not gone]
        self._resumable = [one for one in self._resumable if one is not gone]

    def log_in(self, connection: int, frame_bytes_max: int, checks_destinations: bool) -> None:
        one = self._connections[connection]
        one.logged_in, one.frame_bytes_max, one.checks = True, frame_bytes_max, checks_destinations

    def allow(self, connection: int, destination: str) -> None:
        self._connections[connection].allowed.add(destination)

    def skip(self, connection: int) -> None:
        one = self._connections[connection]
        self._cut(one, HEADER + int.from_bytes(one.tail[:4], "little"))

    def transacted(self, connection: int, session: int, on: bool) -> None:
        sessions = self._connections[connection].transacted
        (sessions.add if on else sessions.discard)(session)

    def hold(self, connection: int) -> None:
        self._connections[connection].held = True

    def release(self, connection: int) -> None:
        one = self._connections[connection]
        if one.held:
            one.held = False
            self._maybe_resumable(one)

    # --- sinks ----------------------------------------------------------------------------------------------------

    def subscribe(self, sink: DirectSink) -> int:
        one = self._connections[sink.connection]
        allowed = max(sink.credit, 0) if sink.credit else None
        made = ReferenceSink(one, sink.subscription, allowed, sink.policy, sink.backlog_bytes_max, sink.no_local)
        return self._add(sink.predicate, made)

    def mailbox(self, predicate: bytes) -> int:
        return self._add(predicate, ReferenceSink(None))

    def _add(self, predicate: bytes, sink: ReferenceSink) -> int:
        self._next += 1
        self._matcher.add(self._next, decode_predicate(predicate))
        self._sinks[self._next] = sink
        return self._next

    def unsubscribe(self, sink: int) -> None:
        self._matcher.remove(sink)
        gone = self._sinks.pop(sink)
        self._untold = [one for one in self._untold if one is not gone]
        self._release_waiters(gone)

    def credit(self, sink: int, more: int, now_ms: int) -> None:
        one = self._sinks[sink]
        if one.credit is not None:
            one.credit += more
        self._pump(one, now_ms)

    def take_credit(self, sink: int) -> int:
        one = self._sinks[sink]
        if one.credit is None:
            return 0
        left, one.credit = one.credit, 0
        return left

    def sink_counts(self, sink: int) -> tuple[int, int, int, bool]:
        one = self._sinks[sink]
        return one.delivered, one.dropped, one.bytes, one.stalled

    # --- input ----------------------------------------------------------------------------------------------------

    def feed_bytes(self, connection: int, data: bytes, now_ms: int) -> int:
        one = self._connections[connection]
        if not one.broken:
            one.tail += data
            self._parse(one, now_ms)
            self._look_ahead(one, now_ms)
        return self._flags(one)

    def handled(self, connection: int, now_ms: int) -> int:
        self._connections[connection].waiting = False
        return self.resume(connection, now_ms)

    def resume(self, connection: int, now_ms: int) -> int:
        one = self._connections[connection]
        self._parse(one, now_ms)
        self._look_ahead(one, now_ms)
        return self._flags(one)

    def _flags(self, one: ReferenceConnection) -> int:
        one.blocked = not (self._reading(one) or self._reads_ahead(one))
        output = OUTPUT if self._dirty or self._resumable else 0
        return output | (EVENTS if self._events else 0) | (BLOCKED if one.blocked else 0)

    @staticmethod
    def _reading(one: ReferenceConnection) -> bool:
        return not (one.broken or one.waiting or one.held or one.choked or one.reasons)

    def _reads_ahead(self, one: ReferenceConnection) -> bool:
        if one.broken or one.waiting or one.choked or one.seen_all:
            return False
        return any(sink.connection is one and sink.starving for sink in self._sinks.values())

    def _maybe_wake(self, one: ReferenceConnection) -> None:
        if one.blocked and self._reads_ahead(one):
            one.blocked = False
            self._resumable.append(one)

    def _look_ahead(self, one: ReferenceConnection, now_ms: int) -> None:
        """Give the credit that stands behind publications of a connection that is pushed back."""
        if self._reading(one) or not self._reads_ahead(one):
            return
        while len(one.tail) - one.seen >= HEADER:
            size, type = int.from_bytes(one.tail[one.seen : one.seen + 4], "little"), one.tail[one.seen + 4]
            if type in (FrameType.SUBSCRIBE, FrameType.UNSUBSCRIBE) or size > one.frame_bytes_max:
                one.seen_all = True
                return
            end = one.seen + HEADER + size
            if end > len(one.tail):
                return
            if type == FrameType.CREDIT and size == 8 and self._give_credit(one, one.tail[end - 8 : end], now_ms):
                one.tail = one.tail[: end - 4] + bytes(4) + one.tail[end:]
            one.seen = end

    @staticmethod
    def _cut(one: ReferenceConnection, size: int) -> None:
        one.tail = one.tail[size:]
        one.seen_all = one.seen_all and size <= one.seen
        one.seen = max(one.seen - size, 0)

    def _parse(self, one: ReferenceConnection, now_ms: int) -> None:
        while self._reading(one) and len(one.tail) >= HEADER:
            size = int.from_bytes(one.tail[:4], "little")
            if size > one.frame_bytes_max:
                self._fail(one, "E_CODEC_LIMIT")
                break
            if len(one.tail) < HEADER + size:
                break
            type, flags, session = one.tail[4], one.tail[5], int.from_bytes(one.tail[6:8], "little")
            if self._frame(one, type, flags, session, one.tail[HEADER : HEADER + size], now_ms) and not one.broken:
                self._cut(one, HEADER + size)
        if one.receipts:
            numbers = [len(one.receipts), *one.receipts]
            one.receipts = []
            self._put(one, encode_frame(FrameType.RECEIPTS, b"".join(n.to_bytes(4, "little") for n in numbers)))
            self._maybe_choke(one)

    def _frame(
        self, one: ReferenceConnection, type: int, flags: int, session: int, payload: bytes, now_ms: int
    ) -> bool:
        """False: to be looked at again."""
        if type == FrameType.PUBLISH:
            return self._publish(one, flags, session, payload, now_ms)
        if type == FrameType.DELIVER:
            try:
                decode_message(payload[16:])
                self._fail(one, "E_CODEC_TRUNCATED" if len(payload) < 16 else "E_FRAME_UNEXPECTED")
            except CodecError as error:
                self._fail(one, error.code)
            return True
        if type == FrameType.CREDIT and len(payload) == 8 and one.logged_in:
            if not self._give_credit(one, payload, now_ms):
                self._events.append(CreditGiven(one.number, *struct.unpack("<II", payload)))
            return True
        if type == FrameType.ACK and one.logged_in and len(payload) >= 9:
            subscription, verdict, count = struct.unpack_from("<IBI", payload)
            if len(payload) == 9 + 8 * count:
                tags = [*struct.unpack_from(f"<{count}Q", payload, 9)]
                self._events.append(Acknowledged(one.number, session, subscription, verdict, tags))
                return True
        one.waiting = True
        self._events.append(ControlFrame(one.number, type, flags, session, payload))
        return True

    def _give_credit(self, one: ReferenceConnection, payload: bytes, now_ms: int) -> bool:
        """Grant credit; True if the subscription is a direct sink."""
        subscription, more = struct.unpack("<II", payload)
        for number, sink in self._sinks.items():
            if sink.connection is one and sink.subscription == subscription:
                self.credit(number, more, now_ms)
                return True
        return False

    def _publish(self, one: ReferenceConnection, flags: int, session: int, payload: bytes, now_ms: int) -> bool:
        receipt, message = int.from_bytes(payload[:4], "little"), payload[4:]
        try:
            if len(payload) < 4:
                raise CodecError("E_CODEC_TRUNCATED", "no receipt", position=0)
            decoded = decode_message(message)
        except CodecError as error:
            self._fail(one, error.code)
            return True
        if not one.logged_in:
            self._fail(one, "E_FRAME_UNEXPECTED")
            return True
        destination = decoded.destination
        if one.checks and f"{'queue' if destination.queue else 'topic'}:{destination.name}" not in one.allowed:
            one.waiting = True
            self._events.append(PublishCheck(one.number, session, receipt, destination.queue, destination.name))
            return False
        self._counts["received"] += 1
        expires_ms = decoded.expiration_ms or 0
        if (
            session
            or session in one.transacted
            or decoded.deliver_at_ms
            or (destination.name.startswith(ROOT) and not destination.queue)
        ):
            self._events.append(Transacted(one.number, session, receipt, message))
            return True
        if 0 < expires_ms <= now_ms:
            self._counts["expired"] += 1
        else:
            matched = self._match(message)
            for number in matched:
                if self._sinks[number].connection is not None:
                    self._deliver(self._sinks[number], one, 1 + (flags & 1), expires_ms, message, now_ms)
            mailboxes = [number for number in matched if self._sinks[number].connection is None]
            if mailboxes or destination.queue:
                again = bool(flags & PERHAPS_SENT)
                self._events.append(Published(one.number, receipt, again, expires_ms, message, mailboxes))
                return True
            self._counts["unmatched"] += not matched
        if receipt:
            one.receipts.append(receipt)
        return True

    def _match(self, message: bytes) -> list[int]:
        size = len(message).to_bytes(4, "little")
        return [
            int(number) for number in per_message(self._matcher.match(MessageBatch.from_messages(size + message)))[0]
        ]

    def _fail(self, one: ReferenceConnection, code: str) -> None:
        one.broken, one.tail = True, b""
        self._cut(one, 0)
        self._events.append(FrameError(one.number, code, "", 0, 0))

    # --- deliveries -----------------------------------------------------------------------------------------------

    def match(self, message: bytes) -> list[int]:
        return [number for number in self._match(message) if self._sinks[number].connection is None]

    def publish(self, message: bytes, now_ms: int, connection: int | None) -> None:
        publisher = None if connection is None else self._connections.get(connection)
        expires_ms = decode_message(message).expiration_ms or 0
        if 0 < expires_ms <= now_ms:
            self._counts["expired"] += 1
            return
        for number in self._match(message):
            if self._sinks[number].connection is not None:
                self._deliver(self._sinks[number], publisher, 1, expires_ms, message, now_ms)

    def _deliver(
        self,
        sink: ReferenceSink,
        publisher: ReferenceConnection | None,
        attempt: int,
        expires_ms: int,
        message: bytes,
        now_ms: int,
    ) -> None:
        one = sink.connection
        assert one is not None
        if sink.no_local and one is publisher:
            return
        if sink.full and not self._make_way(sink, one, publisher):
            return
        if not sink.backlog:
            sink.moved_ms = now_ms
        sink.backlog.append((_delivery(sink.subscription, attempt, 0, message), expires_ms))
        if len(sink.backlog) == 1:
            self._pump(sink, now_ms, relax=False)
        pushes = sink.full and sink.policy == "push-back" and not sink.stalled
        if pushes and publisher is not None and publisher not in sink.waiters:
            sink.waiters.append(publisher)
            publisher.reasons.append(sink)
        if sink.backlog:
            self._maybe_wake(one)

    def _make_way(self, sink: ReferenceSink, one: ReferenceConnection, publisher: ReferenceConnection | None) -> bool:
        if sink.policy == "push-back" and not sink.stalled and publisher is not None:
            return True
        if sink.policy == "drop-oldest":
            while sink.full and sink.backlog:
                sink.backlog.popleft()
                self._drop(sink, "oldest")
            return True
        if sink.policy == "disconnect" and not sink.leaving:
            sink.leaving = True
            self._events.append(SlowConsumer(one.number, sink.subscription))
        waited = "stalled" if sink.stalled else "far"
        self._drop(sink, waited if sink.policy == "push-back" else "newest")
        return False

    def _drop(self, sink: ReferenceSink, reason: str) -> None:
        sink.dropped += 1
        self._counts[f"dropped_{reason}"] += 1
        if not sink.leaving:
            sink.untold[reason] = sink.untold.get(reason, 0) + 1
            if sink not in self._untold:
                self._untold.append(sink)

    def _tell_drops(self) -> None:
        for sink in self._untold.copy():
            one = sink.connection
            assert one is not None
            if one.unread_notices >= UNREAD_NOTICES_MAX:
                continue
            for reason in sorted(sink.untold, key=REASONS.index):
                self._events.append(MessagesDropped(one.number, sink.subscription, sink.untold[reason], reason))
                one.unread_notices += 1
            sink.untold.clear()
            self._untold.remove(sink)

    def _pump(self, sink: ReferenceSink, now_ms: int, *, relax: bool = True) -> None:
        one = sink.connection
        assert one is not None
        while sink.backlog and sink.credit != 0 and len(one.output) < self._output_bytes_max:
            sink.moved_ms = now_ms
            frame, expires_ms = sink.backlog.popleft()
            if 0 < expires_ms <= now_ms:
                self._counts["expired"] += 1
                continue
            if sink.credit is not None:
                sink.credit -= 1
            sink.delivered += 1
            self._counts["delivered"] += 1
            self._put(one, frame)
        if relax and sink.bytes <= sink.bytes_max // 2:
            sink.stalled = False
            self._release_waiters(sink)
        if relax:
            self._maybe_wake(one)

    def _release_waiters(self, sink: ReferenceSink) -> None:
        waiters, sink.waiters = sink.waiters, []
        for publisher in waiters:
            publisher.reasons.remove(sink)
            self._maybe_resumable(publisher)

    def _maybe_resumable(self, one: ReferenceConnection) -> None:
        if not (one.reasons or one.held or one.choked):
            self._resumable.append(one)

    # --- output ---------------------------------------------------------------------------------------------------

    def deliver(
        self, connection: int, subscription: int, attempts: list[int], tags: list[int], messages: list[bytes]
    ) -> None:
        for attempt, tag, message in zip(attempts, tags, messages, strict=True):
            self._counts["delivered"] += 1
            self._put(self._connections[connection], _delivery(subscription, attempt, tag, message))

    def send(self, connection: int, data: bytes) -> None:
        self._put(self._connections[connection], data)
        self._maybe_choke(self._connections[connection])

    def _put(self, one: ReferenceConnection, data: bytes) -> None:
        one.output += data
        if one not in self._dirty:
            self._dirty.append(one)

    def _maybe_choke(self, one: ReferenceConnection) -> None:
        one.choked = one.choked or len(one.output) > self._output_bytes_max + ANSWERS_BYTES_MAX

    def room(self, connection: int) -> int:
        one = self._connections[connection]
        one.wants_room = one.wants_room or len(one.output) >= self._output_bytes_max
        return max(self._output_bytes_max - len(one.output), 0)

    def take(self, connection: int, bytes_max: int, now_ms: int) -> bytes:
        one = self._connections[connection]
        taken, one.output = one.output[:bytes_max], one.output[bytes_max:]
        one.unread_notices = 0 if taken else one.unread_notices
        for sink in self._sinks.values():
            if sink.connection is one and sink.backlog:
                self._pump(sink, now_ms)
        if one.wants_room and len(one.output) <= self._output_bytes_max // 2:
            one.wants_room = False
            self._events.append(OutputRoom(one.number))
        if one.choked and len(one.output) <= self._output_bytes_max:
            one.choked = False
            self._maybe_resumable(one)
            self._maybe_wake(one)
        return taken

    def take_dirty(self) -> list[int]:
        dirty, self._dirty = self._dirty, []
        return [one.number for one in dirty if one.writable]

    def set_writable(self, connection: int, writable: bool) -> None:
        one = self._connections[connection]
        one.writable = writable
        if writable and one.output and one not in self._dirty:
            self._dirty.append(one)

    def output_bytes(self, connection: int) -> int:
        return len(self._connections[connection].output)

    def take_resumable(self) -> list[int]:
        resumable, self._resumable = self._resumable, []
        return [one.number for one in resumable]

    def check_stalls(self, now_ms: int) -> None:
        for sink in self._sinks.values():
            if sink.connection is None or sink.stalled or not sink.full or now_ms - sink.moved_ms < self._stall_ms:
                continue
            sink.stalled = True
            self._release_waiters(sink)
        self._tell_drops()

    def events(self) -> list[PlaneEvent]:
        events, self._events = self._events, []
        return events

    def stats(self) -> dict[str, int]:
        return dict(self._counts)


def _delivery(subscription: int, attempt: int, tag: int, message: bytes) -> bytes:
    head = subscription.to_bytes(4, "little") + attempt.to_bytes(4, "little") + tag.to_bytes(8, "little")
    return encode_frame(FrameType.DELIVER, head + message)
