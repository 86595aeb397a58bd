"""A channel: the reliable stream of records between two brokers, over datagrams that may be lost.

The broker of consumers opens a channel to a home and gives it a number, its *life*; a later one replaces it, and with
it all that was attached. Both ends cut what they say into frames with numbers, and repeat what the other has not
confirmed. Whoever hears a frame of a life that it does not know answers with a reset: the other end then begins again.

The opener puts its time into its frames, and the home repeats the last one that it has heard. So the opener knows that
the home had heard of it at that time, and does not give it up before `SILENT_MS` after it: what comes later than
`LEASE_MS` may have been given to another consumer meanwhile and is not taken (`lapsed`).

    put ──► open ──take──► unconfirmed ──confirmed──► gone
                              └──tick──► sent again

>>> mine, theirs = QueueChannel(life=7, opens=True, now=0.0), QueueChannel(life=7, opens=False, now=0.0)
>>> mine.put(SyncSettlements(1)); mine.put(SyncSettlements(2))
>>> (frame,) = mine.take(now=0.0)
>>> theirs.arrived(decode_frame(frame), now=1.0)
[SyncSettlements(token=1), SyncSettlements(token=2)]
>>> theirs.arrived(decode_frame(frame), now=1.0)  # a repetition
[]
>>> (answer,) = theirs.take(now=1.0)
>>> mine.arrived(decode_frame(answer), now=2.0), mine.unconfirmed_bytes
([], 0)
"""

from typing import NamedTuple

from tidings.model.reader import Reader, put_varint
from tidings.node.network.datagrams import QUEUE_KINDS
from tidings.node.network_queues.records import QueueRecord, SyncSettlements, decode_records, encode_record

FRAME_BYTES_MAX = 1 << 18
REPEAT_MS = 900.0  # what is not confirmed by then is sent again at the next tick
PING_MS = 2_000.0  # an end that has nothing to say says so
SILENT_MS = 10_000.0  # a home that hears nothing for so long gives up what is attached
LEASE_MS = 8_000.0  # the opener gives up earlier
OPENER, RESET = 1, 2  # flags of a frame
(KIND,) = QUEUE_KINDS  # its first byte
__all__ = ["QueueChannel", "QueueFrame", "SyncSettlements", "decode_frame", "reset_frame"]


class QueueFrame(NamedTuple):
    opener: bool  # the sender opened the channel
    reset: bool  # the sender does not know it
    life: int
    number: int  # 0: only a confirmation
    confirmed: int  # frames of the other end that have come
    clock_ms: int  # the opener's
    data: bytes


def encode_queue_frame(frame: QueueFrame) -> bytes:
    out = bytearray((KIND, (OPENER if frame.opener else 0) | (RESET if frame.reset else 0)))
    for number in (frame.life, frame.number, frame.confirmed, frame.clock_ms):
        put_varint(out, number)
    return bytes(out) + frame.data


def decode_frame(payload: bytes) -> QueueFrame:
    reader = Reader(payload, 1, family="CONTROL")
    flags = reader.varint(OPENER | RESET)
    life, number, confirmed, clock_ms = [reader.varint() for _ in range(4)]
    data = payload[reader.position :]
    return QueueFrame(bool(flags & OPENER), bool(flags & RESET), life, number, confirmed, clock_ms, data)


def reset_frame(frame: QueueFrame) -> bytes:
    """The answer to a frame of an unknown life."""
    return encode_queue_frame(QueueFrame(not frame.opener, True, frame.life, 0, 0, frame.clock_ms, b""))


class QueueChannel:
    def __init__(self, life: int, *, opens: bool, now: float) -> None:
        self.life = life
        self.heard_at = self._said_at = now
        self.unconfirmed_bytes = 0  # of what was put and has not come
        self._opens = opens
        self._clock_ms = 0  # of the opener, as the other end has heard it last; 0: it has heard nothing
        self._next = 1
        self._open = bytearray()
        self._unconfirmed: dict[int, tuple[bytes, float]] = {}  # frames: data, and when they were sent
        self._received = 0
        self._partial = bytearray()  # the beginning of a record
        self._owes = False  # a confirmation is due

    def put(self, record: QueueRecord) -> None:
        """The other end gets this after all before."""
        encoded = encode_record(record)
        self.unconfirmed_bytes += len(encoded)
        self._open += encoded

    def take(self, now: float) -> list[bytes]:
        """Frames to be sent now."""
        frames = []
        for at in range(0, len(self._open), FRAME_BYTES_MAX):
            data = bytes(self._open[at : at + FRAME_BYTES_MAX])
            self._unconfirmed[self._next] = (data, now)
            frames.append(self._frame(now, self._next, data))
            self._next += 1
        self._open.clear()
        if self._owes and not frames:
            frames.append(self._frame(now, 0, b""))
        if frames:
            self._owes, self._said_at = False, now
        return frames

    def tick(self, now: float) -> list[bytes]:
        """About once a second: what must be sent again, or that nothing must."""
        frames = []
        for number, (data, at) in self._unconfirmed.items():
            if now - at >= REPEAT_MS:
                self._unconfirmed[number] = (data, now)
                frames.append(self._frame(now, number, data))
        if not frames and now - self._said_at >= PING_MS:
            frames.append(self._frame(now, 0, b""))
        if frames:
            self._said_at = now
        return frames

    def silent(self, now: float) -> bool:
        return now - self.heard_at >= SILENT_MS

    def arrived(self, frame: QueueFrame, now: float) -> list[QueueRecord]:
        """The records that a frame completes. What comes before its turn is sent again."""
        self.heard_at = now
        self._clock_ms = max(self._clock_ms, frame.clock_ms)
        for number in [one for one in self._unconfirmed if one <= frame.confirmed]:
            data, _ = self._unconfirmed.pop(number)
            self.unconfirmed_bytes -= len(data)
        if frame.number == 0:
            return []
        self._owes = True
        if frame.number != self._received + 1:
            return []
        self._received += 1
        self._partial += frame.data
        records, end = decode_records(self._partial)
        del self._partial[:end]
        return records

    def lapsed(self, now: float, frame: QueueFrame | None = None) -> bool:
        """The home may have given up this end, or may have when it sent the frame."""
        clock_ms = self._clock_ms if frame is None else frame.clock_ms
        return clock_ms > 0 and now - clock_ms >= LEASE_MS

    def _frame(self, now: float, number: int, data: bytes) -> bytes:
        clock_ms = max(1, int(now)) if self._opens else self._clock_ms
        return encode_queue_frame(QueueFrame(self._opens, False, self.life, number, self._received, clock_ms, data))
