"""Tidings' kernel: codec, exact matcher, encoded matrix, Bloom filter."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import numpy
import numpy.typing
from numpy.typing import NDArray

import tidings.kernel.events


class AmqpLinkCounters:
    """Credit and the like of one link of AMQP."""

    def __init__(self) -> None: ...

    @property
    def delivery_count(self) -> int: ...

    @delivery_count.setter
    def delivery_count(self, arg: int, /) -> None: ...

    @property
    def credit(self) -> int: ...

    @credit.setter
    def credit(self, arg: int, /) -> None: ...

    @property
    def hot(self) -> bool: ...

    @hot.setter
    def hot(self, arg: bool, /) -> None: ...

    @property
    def under_way(self) -> int: ...

    @under_way.setter
    def under_way(self, arg: int, /) -> None: ...

    @property
    def destination(self) -> str: ...

    @destination.setter
    def destination(self, arg: str, /) -> None: ...

    @property
    def queue(self) -> bool: ...

    @queue.setter
    def queue(self, arg: bool, /) -> None: ...

    @property
    def subscription(self) -> int: ...

    @subscription.setter
    def subscription(self, arg: int, /) -> None: ...

    @property
    def granted(self) -> int: ...

    @granted.setter
    def granted(self, arg: int, /) -> None: ...

    @property
    def sent(self) -> int: ...

    @sent.setter
    def sent(self, arg: int, /) -> None: ...

    @property
    def says_destination(self) -> bool: ...

    @says_destination.setter
    def says_destination(self, arg: bool, /) -> None: ...

    @property
    def presettled(self) -> bool: ...

    @presettled.setter
    def presettled(self, arg: bool, /) -> None: ...

    @property
    def message_bytes_max(self) -> int: ...

    @message_bytes_max.setter
    def message_bytes_max(self, arg: int, /) -> None: ...

    @property
    def touched(self) -> bool: ...

    @touched.setter
    def touched(self, arg: bool, /) -> None: ...

    @property
    def draining(self) -> bool: ...

    @draining.setter
    def draining(self, arg: bool, /) -> None: ...

class AmqpSessionCounters:
    """Windows and ids of one session of AMQP."""

    def __init__(self) -> None: ...

    @property
    def next_incoming_id(self) -> int: ...

    @next_incoming_id.setter
    def next_incoming_id(self, arg: int, /) -> None: ...

    @property
    def remote_incoming_window(self) -> int: ...

    @remote_incoming_window.setter
    def remote_incoming_window(self, arg: int, /) -> None: ...

    @property
    def incoming_window(self) -> int: ...

    @incoming_window.setter
    def incoming_window(self, arg: int, /) -> None: ...

    @property
    def next_outgoing_id(self) -> int: ...

    @next_outgoing_id.setter
    def next_outgoing_id(self, arg: int, /) -> None: ...

    @property
    def next_delivery_id(self) -> int: ...

    @next_delivery_id.setter
    def next_delivery_id(self, arg: int, /) -> None: ...

    @property
    def waiting(self) -> int: ...

    @waiting.setter
    def waiting(self, arg: int, /) -> None: ...

    def take_between(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """Unsettled deliveries of these ids: id, subscription, tag."""

    def take_of(self, subscription: int) -> list[tuple[int, int, int]]:
        """Unsettled deliveries of a subscription: id, subscription, tag."""

class AmqpTransfers:
    """The hot path of one AMQP connection."""

    def __init__(self, publisher: int, broker: int, message_bytes_max: int) -> None: ...

    @property
    def credit_max(self) -> int: ...

    @credit_max.setter
    def credit_max(self, arg: int, /) -> None: ...

    @property
    def frame_bytes_max(self) -> int: ...

    @frame_bytes_max.setter
    def frame_bytes_max(self, arg: int, /) -> None: ...

    @property
    def remote_frame_bytes_max(self) -> int: ...

    @remote_frame_bytes_max.setter
    def remote_frame_bytes_max(self, arg: int, /) -> None: ...

    def add_session(self, channel: int, counters: AmqpSessionCounters) -> None: ...

    def remove_session(self, channel: int) -> None: ...

    def add_link(self, channel: int, handle: int, own_handle: int, counters: AmqpLinkCounters) -> None: ...

    def remove_link(self, channel: int, handle: int) -> None: ...

    def next_id(self, now_ms: int) -> tuple[int, int]:
        """Milliseconds and counter of the next message's id."""

    def take(self, data: bytes, at: int, now_ms: int) -> int:
        """Takes frames of the client that need no Python; returns their bytes."""

    def take_frames(self) -> bytes:
        """For the broker."""

    def give(self, data: bytes, at: int, now_ms: int) -> int:
        """Takes frames of the broker that need no Python; returns their bytes."""

    def take_output(self) -> bytes:
        """For the client."""

    def take_touched(self) -> list[int]:
        """Subscriptions whose credit has changed."""

    def refused(self, receipt: int) -> tuple[int, int, int, bool] | None:
        """
        The message of a receipt that the broker refuses: channel, handle, delivery id, settled.
        """

def amqp_read_plain(content: bytes, destination: str, queue: bool, now_ms: int) -> tuple[int, bytes] | None:
    """
    A plain message of AMQP in the native format, without an id, and its form; None: it is not a plain one.
    """

def amqp_write_plain(message: bytes, attempt: int, now_ms: int, says_destination: bool) -> bytes | None:
    """
    A message that was checked before, as AMQP's sections; None: it is not a plain one.
    """

class BlockRing:
    """
    Blocks of messages, sent in turn again and again, each with a system call of its own.
    """

    def __init__(self, blocks: Sequence[tuple[bytes, int]]) -> None:
        """Each with the number of its messages."""

    def send(self, socket: int, messages_max: int) -> int:
        """
        Sends the rest of what was begun, then blocks of at most `messages_max` messages together, as far as the socket takes them; returns the messages of those begun. OSError if the connection is gone.
        """

    @property
    def busy(self) -> bool:
        """A block is begun and not finished."""

    @property
    def messages(self) -> int:
        """Of the block that is sent next, or is under way."""

class Bloom:
    def __init__(self, bits: int, hashes: int, seed: int = 0) -> None: ...

    @property
    def bits(self) -> int: ...

    @property
    def hashes(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

    def add(self, ids: Annotated[NDArray[numpy.uint8], dict(shape=(None, 16), order='C', device='cpu', writable=False)]) -> None: ...

    def contains(self, ids: Annotated[NDArray[numpy.uint8], dict(shape=(None, 16), order='C', device='cpu', writable=False)], found: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def unite(self, other: Bloom) -> None: ...

    def fill(self) -> float: ...

    def to_bytes(self) -> bytes: ...

    @staticmethod
    def from_bytes(data: bytes) -> Bloom: ...

class BoxTree:
    """
    Boxes by id, and the questions which may contain, lie within or meet another.
    """

    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    def add(self, id: int, box: Sequence[tuple[str, bytes | None, bytes | None]]) -> None: ...

    def remove(self, id: int) -> None: ...

    def containing(self, box: Sequence[tuple[str, bytes | None, bytes | None]]) -> list[int]:
        """Boxes that may contain this one."""

    def within(self, box: Sequence[tuple[str, bytes | None, bytes | None]]) -> list[int]:
        """Boxes that may lie within this one."""

    def meeting(self, box: Sequence[tuple[str, bytes | None, bytes | None]]) -> list[int]:
        """Boxes that may have something in common with it."""

    @property
    def depth(self) -> int: ...

def wait_bounds() -> list[float]:
    """
    The upper bounds of the classes of waiting times, seconds; the last class has none.
    """

class Pace:
    """
    Counts the reads of all connections, and the further reads of one of them that need not be reported.
    """

    def __init__(self, small_bytes: int, held_up_ms: int) -> None: ...

    @property
    def reads(self) -> int: ...

    @reads.setter
    def reads(self, arg: int, /) -> None: ...

    @property
    def connection(self) -> int: ...

    @connection.setter
    def connection(self, arg: int, /) -> None: ...

    @property
    def left(self) -> int: ...

    @left.setter
    def left(self, arg: int, /) -> None: ...

    @property
    def on_read(self) -> Callable[[], None] | None: ...

    @on_read.setter
    def on_read(self, call: Callable[[], None] | None, /) -> None: ...

    def wait_counts(self) -> list[float]:
        """Messages by class of their waiting time in a socket."""

    @property
    def wait_seconds(self) -> float:
        """The waiting times of those messages together."""

    def counts(self, connection: int) -> bool:
        """True if a small read of this connection need not be reported."""

class ClientInput:
    """Input from a client's socket."""

    def __init__(self, forwarder: Forwarder, pace: Pace, rest: Callable[[int, bool, int], None]) -> None: ...

    def buffer(self, sizehint: int) -> memoryview: ...

    def take(self, size: int) -> None: ...

    def close(self) -> None: ...

    def watch_arrivals(self, socket: int) -> None:
        """Samples of waiting times are taken from this socket; -1: from none."""

    def skip_sample(self) -> None:
        """What has waited until the next read is no sample."""

    @property
    def number(self) -> int: ...

    @number.setter
    def number(self, arg: int, /) -> None: ...

    @property
    def heard_ms(self) -> int: ...

    @heard_ms.setter
    def heard_ms(self, arg: int, /) -> None: ...

    @property
    def watched(self) -> bool: ...

    @watched.setter
    def watched(self, arg: bool, /) -> None: ...

def decode_message(data: object) -> tuple[bool, bool, int, bytes, str, tuple[str | None, str | None, str | None, int | None, int | None, int | None], dict[str, bool | int | float | str | bytes], bytes]: ...

def decode_fields(payload: bytes) -> dict[str, bool | int | float | str | bytes] | None:
    """The fields of a control frame; None: they are not in order."""

def encode_message(persistent: bool, queue: bool, priority: int, id: bytes, destination: str, headers: tuple[str | None, str | None, str | None, int | None, int | None, int | None], properties: object, body: bytes) -> bytes: ...

def encode_messages(messages: list[tuple[bool, bool, int, bytes, str, tuple[str | None, str | None, str | None, int | None, int | None, int | None], dict[str, bool | int | float | str | bytes], bytes]]) -> bytes:
    """Each message after its length as u32."""

class MessageBatch:
    """The bytes of one socket read, decoded in one call."""

    @staticmethod
    def from_frames(data: object, payload_bytes_max: int = 1048576, stop_at_control: bool = False, derived: int = 31) -> MessageBatch: ...

    @staticmethod
    def from_messages(data: object, message_bytes_max: int = 1048576, derived: int = 31) -> MessageBatch:
        """Messages, each after its length as u32."""

    @staticmethod
    def from_column(data: object, ends: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], message_bytes_max: int = 1048576, derived: int = 31) -> MessageBatch:
        """Messages one after the other, the i-th ends at ends[i]."""

    def __len__(self) -> int: ...

    @property
    def broken(self) -> int:
        """Number of broken entries."""

    @property
    def consumed(self) -> int: ...

    @property
    def fatal(self) -> tuple[str, str, int] | None:
        """Why decoding stopped: code, reason, position in the buffer."""

    def error(self, i: int) -> tuple[str, str, int] | None:
        """Code, reason and position in the message if entry i is broken."""

    def is_message(self, i: int) -> bool: ...

    def offset(self, i: int) -> int: ...

    def payload(self, i: int) -> bytes: ...

    def frame(self, i: int) -> tuple[int, int, int, bytes]:
        """
        The frame's type, flags and session, and what stands before the message.
        """

    def message(self, i: int) -> tuple[bool, bool, int, bytes, str, tuple[str | None, str | None, str | None, int | None, int | None, int | None], dict[str, bool | int | float | str | bytes], bytes]: ...

    def attributes(self, i: int) -> dict[str, bool | int | float | str | bytes]: ...

def predicate_check(blob: object) -> None:
    """
    Raises CodecError unless the blob is a valid predicate; its program is judged by Program.
    """

def predicate_parts(blob: bytes) -> tuple[list[list[tuple[int, bool, str, object]]], bytes]:
    """
    Of each conjunction the constraints: operator, negated, name, operand; and the program.
    """

def holds(constraint: object, value: object | None) -> bool:
    """
    True if an encoded constraint holds for a value (None: the attribute is missing).
    """

class Budget:
    """
    The work that may be done for one message, in steps of about a nanosecond.
    """

    def __init__(self, steps: int = 16777216) -> None: ...

    @property
    def exhausted(self) -> bool:
        """True if the last filter was given up."""

    @property
    def taken(self) -> int:
        """Steps taken since it was made."""

MESSAGE_STEPS: int = 16777216

FILTER_STEPS: int = 1024

def like(pattern: str, text: str, budget: Budget) -> bool:
    """
    True if a text matches a LIKE pattern; no answer if the budget is exhausted.
    """

class Program:
    """A selector in postfix form, checked once, evaluated over batches."""

    def __init__(self, program: object) -> None: ...

    def evaluate(self, batch: MessageBatch) -> bytes:
        """One byte an entry: 0 false, 1 true, 2 unknown, 3 no message."""

    def evaluate_one(self, batch: MessageBatch, i: int, budget: Budget) -> bool | None:
        """The truth of entry i; None: unknown, or the budget is exhausted."""

class Encoder:
    def __init__(self, bits: int, hashes: int, key: int, graded: bool) -> None: ...

    def vectors(self, batch: MessageBatch) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, None))]: ...

    def elements(self, batch: MessageBatch) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]]: ...

class RunList:
    """An exact list of message ids as runs."""

    @staticmethod
    def of(ids: Annotated[NDArray[numpy.uint8], dict(shape=(None, 16), order='C', device='cpu', writable=False)]) -> RunList: ...

    @staticmethod
    def from_bytes(data: bytes) -> RunList: ...

    @staticmethod
    def united(parts: list[bytes]) -> RunList:
        """The ids of several, each once."""

    def to_bytes(self) -> bytes: ...

    def contains(self, ids: Annotated[NDArray[numpy.uint8], dict(shape=(None, 16), order='C', device='cpu', writable=False)], found: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def ids(self) -> bytes:
        """All ids in ascending order of broker, publisher and time."""

    @property
    def runs(self) -> int: ...

    @property
    def count(self) -> int: ...

class PublisherNumbering:
    """Numbers of publishers: a count permuted under a key."""

    def __init__(self, key: int) -> None: ...

    def number_of(self, count: int) -> int: ...

    def count_of(self, number: int) -> int: ...

class LineFilter:
    """A Bloom filter of cache lines."""

    @staticmethod
    def from_bytes(data: bytes) -> LineFilter: ...

    @staticmethod
    def of(ids: Annotated[NDArray[numpy.uint8], dict(shape=(None, 16), order='C', device='cpu', writable=False)], seed: int) -> LineFilter: ...

    @staticmethod
    def bytes_for(ids: int) -> int: ...

    def to_bytes(self) -> bytes: ...

    def contains(self, ids: Annotated[NDArray[numpy.uint8], dict(shape=(None, 16), order='C', device='cpu', writable=False)], found: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def fpp(self) -> float: ...

    @property
    def seed(self) -> int: ...

    @property
    def lines(self) -> int: ...

    @property
    def count(self) -> int: ...

class Forwarder:
    """
    From the bytes of a socket read to the output of every sink they match.
    """

    def __init__(self, *, read_bytes: int = 65536, output_bytes_max: int = 1048576, memory_bytes_max: int = 268435456, login_frame_bytes_max: int = 65536, stall_ms: int = 1000) -> None: ...

    @property
    def buffer(self) -> memoryview: ...

    def open(self, protocol: int = 0) -> int: ...

    def close(self, connection: int) -> None: ...

    def log_in(self, connection: int, frame_bytes_max: int, checks_destinations: bool) -> None: ...

    def allow(self, connection: int, destination: str) -> None: ...

    def skip(self, connection: int) -> None: ...

    def transacted(self, connection: int, session: int, on: bool) -> None:
        """Sets if messages of this session wait for a commit."""

    def ignore(self, connection: int) -> None: ...

    def record_in(self, tracker: Tracker) -> None:
        """Records all messages from now on there."""

    def set_subscriber(self, connection: int, subscriber: int) -> None: ...

    def advertise_event(self, connection: int, topic: str, type: str, attributes: Sequence[tuple[str, int, bool]]) -> None:
        """
        Events of this connection to a topic that fit are forwarded without being shown: name, kind in the order of `AttributeType`, and whether it may be missing.
        """

    def withdraw_event(self, connection: int, topic: str) -> None: ...

    def watch_clock(self, connection: int, skew_ms_max: int) -> None: ...

    def hold(self, connection: int) -> None:
        """Parse nothing more of this connection until `release`."""

    def release(self, connection: int) -> None: ...

    def set_allowance(self, connection: int, number: int) -> None:
        """
        What this connection publishes counts for the allowance of this number; 0: for none.
        """

    def refill(self, number: int, messages: int, messages_max: int, bytes: int, bytes_max: int) -> None:
        """
        So much more may be published by those who share this allowance, up to a bound; 0: without end. Made when it is first named.
        """

    def drop_allowance(self, number: int) -> None: ...

    def allowance_counts(self, number: int) -> tuple[int, int, int]:
        """Messages, bytes and waits of this allowance so far."""

    def set_share(self, milliseconds: int) -> None:
        """
        How long the input of one connection is parsed before others come first, by the system's clock; 0: as long as there is some.
        """

    def has_tired(self) -> bool: ...

    def rest(self) -> int:
        """
        The connection whose input has waited longest since its share was used up, to be resumed; -1: none.
        """

    def feed(self, connection: int, size: int, now_ms: int) -> int: ...

    def serve(self, connection: int, size: int, now_ms: int) -> int:
        """As `feed`; writes what comes of it if it is only output."""

    def feed_bytes(self, connection: int, data: bytes, now_ms: int) -> int: ...

    def handled(self, connection: int, now_ms: int) -> int: ...

    def resume(self, connection: int, now_ms: int) -> int: ...

    def events(self) -> list[tidings.kernel.events.PlaneEvent]:
        """Takes what only Python can handle, in order."""

    def has_events(self) -> bool: ...

    def stats(self) -> dict[str, int]: ...

    def by_protocol(self) -> list[tuple[int, int]]: ...

    def destination_counts(self, now_ms: int) -> dict[str, tuple[int, int]]:
        """
        Messages and deliveries by destination since counting began; the empty name is all those beyond the first thousand.
        """

    def feeds(self) -> int:
        """Reads so far, of all connections."""

    def received(self) -> int: ...

    def held_bytes(self) -> int: ...

    def fresh_bytes(self) -> int: ...

    def filters(self) -> int: ...

    def overruns(self) -> int:
        """
        Evaluations of filters that were given up because a message's budget was used up.
        """

    def take_overruns(self) -> list[tuple[int, int]]:
        """
        Mailbox sinks whose filters were given up since the last call, and for how many messages; subscribers of direct sinks are notified.
        """

    def matcher_bytes(self) -> int: ...

    def add_direct_sink(self, connection: int, subscription: int, predicate: bytes, credit: int, policy: int, backlog_bytes_max: int, no_local: bool) -> int: ...

    def mailbox(self, predicate: bytes) -> int:
        """A sink whose messages come back as events. Returns its number."""

    def unsubscribe(self, sink: int) -> None: ...

    def unsubscribe_all(self, sinks: Sequence[int]) -> None: ...

    def take_credit(self, sink: int) -> int:
        """Take back the credit that is left; returns how much that was."""

    def credit(self, sink: int, more: int, now_ms: int) -> None: ...

    def match(self, message: bytes) -> list[int]:
        """The mailbox sinks that match."""

    def publish(self, message: bytes, now_ms: int, connection: int | None) -> None:
        """
        Serve the direct sinks that match; `connection` is the publisher's, if it has one.
        """

    def deliver(self, connection: int, subscription: int, attempts: list[int], tags: list[int], messages: list[bytes]) -> None: ...

    def sink_counts(self, sink: int) -> tuple[int, int, int, bool]:
        """Delivered, dropped, bytes waiting, stalled."""

    def send(self, connection: int, data: bytes) -> None: ...

    def confirm(self, connection: int, receipts: Sequence[int]) -> None:
        """These publications are accepted."""

    def room(self, connection: int) -> int: ...

    def take_dirty(self) -> list[int]: ...

    def take(self, connection: int, bytes_max: int, now_ms: int) -> bytes: ...

    def write_all(self, bytes_max: int, now_ms: int) -> list[tuple[int, bytes, int]]: ...

    def set_socket(self, connection: int, socket: int) -> None:
        """Sets the socket that `write_all` writes its output to; -1: none."""

    def written_ms(self, connection: int) -> int:
        """When there was output for it last."""

    def has_output(self) -> bool: ...

    def output_bytes(self, connection: int) -> int: ...

    def set_writable(self, connection: int, writable: bool) -> None: ...

    def has_resumable(self) -> bool: ...

    def take_resumable(self) -> list[int]: ...

    def check_stalls(self, now_ms: int) -> None: ...

    def speak_stomp(self, connection: int) -> None: ...

    def stomp_version(self, connection: int, version: int) -> None: ...

    def stomp_publisher(self, connection: int, publisher: int, broker: int, temporary: str) -> None: ...

    def stomp_label(self, connection: int, subscription: int, line: bytes, acks: int = 0) -> None:
        """
        The header line that names a subscription; empty: none any more. What its ACK frames mean: 0 nothing, 1 a message, 2 all up to it.
        """

    def stomp_transaction(self, connection: int, name: str, session: int) -> None:
        """The session of a transaction; 0: it has ended."""

    def stomp_receipt(self, connection: int, receipt: int) -> bytes | None:
        """The client's name for a receipt that is answered now."""

    def stomp_types(self, rules: Sequence[tuple[str, bool, str, int]]) -> None: ...

    def join_network(self, router: int, flooding: bool, hands_up: bool, broadcast_above: int, hops_max: int, backlog_bytes_max: int, far_bytes_max: int, vectors: bool, bits: int, hashes: int, key: int, graded: bool) -> None: ...

    def interest(self, router: int, added: Sequence[bytes], removed: Sequence[bytes]) -> None:
        """
        Rows of a router that come and go. An invalid one among those that come: an error, and nothing changes.
        """

    def forget(self, router: int) -> None: ...

    def routes(self, next_hops: Mapping[int, int]) -> None:
        """For every router that can be reached: the neighbour on the way to it."""

    def reverse_paths(self, origins: Mapping[int, Sequence[int]]) -> None:
        """
        Of each neighbour the origins whose broadcasts it takes from here; one that is not named may take all.
        """

    def link(self, connection: int, neighbour: int) -> None: ...

    def unlink(self, neighbour: int) -> None: ...

    def link_waiting(self, neighbour: int) -> int: ...

    def congestion(self) -> tuple[bool, list[int]]:
        """
        Whether subscribers here do not keep up with what other brokers send, and the neighbours whose links do not.
        """

    def set_congested(self, routers: Sequence[int]) -> None:
        """
        Publishers of messages for these destinations wait from now on, and for no others.
        """

    def destinations(self, message: bytes) -> list[int]: ...

    def enter(self, message: bytes, now_ms: int, connection: int | None) -> None:
        """
        Send a message that is not persistent to the other brokers that want it.
        """

    def relay(self, neighbour: int, routers: Sequence[int], numbers: Sequence[int], origin: int, epoch: int, repeated: bool, hops: int, tag: int, message: bytes, now_ms: int) -> bool:
        """
        Send a copy that the neighbour must acknowledge, with a number for each of its routers.
        """

    def event_tree(self, name: str, up: int, calls: bool, neighbours: Sequence[int], parents: Sequence[str]) -> None:
        """
        The tree of a type here: the next hop to its rendezvous node (0: none), whether that asks for all events, and the neighbours and parent types that want all of them.
        """

    def drop_event_tree(self, name: str) -> None: ...

    def event_filter(self, name: str, neighbour: int, parent: str, placed: bytes, filter: bytes) -> int:
        """
        A filter of a neighbour, or (0) of a type that the tree's is a subtype of. Returns its number.
        """

    def drop_event_filter(self, number: int) -> None: ...

    def network_stats(self) -> dict[str, int]: ...

    def take_in_vain(self) -> list[bytes]:
        """
        Some of the messages that were brought here since the last call and that nobody here wanted.
        """

class LoadPump:
    """
    Publishes ready-made messages, one a send, and counts those that a subscriber gets.
    """

    def __init__(self, publishers: Sequence[int], probe: int, others: Sequence[int], frames: Sequence[bytes], mark: bytes, *, number_at: int = -1, stamp_at: int = -1, seed: int = 0) -> None: ...

    def run(self, seconds: float, in_flight: int, rate: float, least: int = 0) -> None:
        """
        Until the time is over and `least` more are sent: with `in_flight` on their way, or, if there is a rate, as a Poisson process.
        """

    def drain(self, patience: float) -> bool:
        """
        Until everything has arrived; False: nothing came for `patience` seconds.
        """

    @property
    def sent(self) -> int: ...

    @property
    def arrived(self) -> int: ...

    def take_latencies(self) -> list[float]:
        """
        Seconds from before the send to the read of each stamped message that arrived since the last call.
        """

class Matcher:
    """The exact matcher: an index over subscribers' predicates."""

    def __init__(self) -> None: ...

    def add(self, id: int, predicate: object) -> None:
        """Adds a subscriber with an encoded predicate."""

    def add_many(self, ids: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], blobs: object, ends: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Adds subscribers whose predicates lie one after the other in `blobs`; the i-th ends at ends[i].
        """

    def remove(self, id: int) -> None: ...

    def match(self, batch: MessageBatch) -> tuple[numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint32]]:
        """
        Offsets and ids: entry i's subscribers are ids[offsets[i]:offsets[i + 1]], each once, in no particular order.
        """

    def __len__(self) -> int: ...

    @property
    def conjunctions(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def derived_mask(self) -> int:
        """The derived attributes that batches must show, as bits."""

    def limit(self, steps: int, in_doubt: bool) -> None:
        """
        Sets the most steps for one message, and if a filter that was given up counts as satisfied.
        """

    @property
    def steps(self) -> int:
        """Steps taken since it was made."""

    @property
    def overruns(self) -> int:
        """Evaluations that were given up since it was made."""

    def take_overruns(self) -> list[tuple[int, int]]:
        """
        Ids of subscribers concerned since the last call, and for how many messages.
        """

class LinearMatcher:
    """
    The same answers without an index: what the matcher is measured against.
    """

    def __init__(self) -> None: ...

    def add(self, id: int, predicate: object) -> None:
        """Adds a subscriber with an encoded predicate."""

    def add_many(self, ids: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], blobs: object, ends: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Adds subscribers whose predicates lie one after the other in `blobs`; the i-th ends at ends[i].
        """

    def remove(self, id: int) -> None: ...

    def match(self, batch: MessageBatch) -> tuple[numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint32]]:
        """
        Offsets and ids: entry i's subscribers are ids[offsets[i]:offsets[i + 1]], each once, in no particular order.
        """

    def __len__(self) -> int: ...

    @property
    def conjunctions(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

    @property
    def derived_mask(self) -> int:
        """The derived attributes that batches must show, as bits."""

class EncodedMatrix:
    def __init__(self, bits: int) -> None: ...

    def add(self, router: int, vectors: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> int: ...

    def remove(self, router: int, vectors: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> int: ...

    def replace(self, router: int, vectors: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None: ...

    def drop(self, router: int) -> bool: ...

    def match(self, messages: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: bool = False, simd: int = 2) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]]: ...

    def vectors(self, router: int, minimal: bool) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def bits(self) -> int: ...

    @property
    def router_count(self) -> int: ...

    @property
    def row_count(self) -> int: ...

    @property
    def active_row_count(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

class ElementMatrix:
    def __init__(self) -> None: ...

    def add(self, router: int, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], elements: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int: ...

    def remove(self, router: int, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], elements: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int: ...

    def drop(self, router: int) -> bool: ...

    def match(self, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], elements: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]]: ...

    @property
    def router_count(self) -> int: ...

    @property
    def row_count(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

def row_scan(rows: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], messages: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> int:
    """Number of pairs that match, compared one by one: the baseline."""

def simd_level() -> int:
    """0 portable, 1 AVX2, 2 AVX-512."""

class MqttLimits:
    """What one MQTT connection may have."""

    def __init__(self) -> None: ...

    @property
    def packet_bytes_max(self) -> int: ...

    @packet_bytes_max.setter
    def packet_bytes_max(self, arg: int, /) -> None: ...

    @property
    def unanswered_max(self) -> int: ...

    @unanswered_max.setter
    def unanswered_max(self, arg: int, /) -> None: ...

    @property
    def in_flight_max(self) -> int: ...

    @in_flight_max.setter
    def in_flight_max(self, arg: int, /) -> None: ...

    @property
    def outgoing_packet_bytes_max(self) -> int: ...

    @outgoing_packet_bytes_max.setter
    def outgoing_packet_bytes_max(self, arg: int, /) -> None: ...

    @property
    def aliases_max(self) -> int: ...

    @aliases_max.setter
    def aliases_max(self, arg: int, /) -> None: ...

    @property
    def credit_step(self) -> int: ...

    @credit_step.setter
    def credit_step(self, arg: int, /) -> None: ...

class MqttPublications:
    """The hot path of one MQTT connection."""

    def __init__(self, publisher: int, broker: int, v5: bool, limits: MqttLimits) -> None: ...

    @property
    def received(self) -> int: ...

    @received.setter
    def received(self, arg: int, /) -> None: ...

    def next_id(self, now_ms: int) -> tuple[int, int]:
        """Milliseconds and counter of the next message's id."""

    def topic(self, alias: int) -> str:
        """The topic of a client's alias; empty: there is none."""

    def set_topic(self, alias: int, topic: str) -> None: ...

    @property
    def unanswered(self) -> int: ...

    def add_unanswered(self, packet_id: int, qos: int) -> int:
        """
        A publication of the client that is to be answered; returns its number.
        """

    def unanswered_id(self, number: int) -> int | None:
        """The packet id of a publication that is not settled; None: it is."""

    def waits_for_pubrec(self, packet_id: int) -> bool: ...

    def settle(self, number: int, packet: bytes = ...) -> None:
        """The answer to a publication in its turn; empty: success."""

    def take(self, data: bytes, at: int, now_ms: int) -> int:
        """Takes packets of the client that need no Python; returns their bytes."""

    def take_frames(self) -> bytes:
        """For the broker."""

    @property
    def persistent(self) -> bool:
        """
        The session outlives its connection: packet ids follow from message ids.
        """

    @persistent.setter
    def persistent(self, arg: bool, /) -> None: ...

    @property
    def waiting(self) -> int: ...

    @waiting.setter
    def waiting(self, arg: int, /) -> None: ...

    @property
    def held(self) -> int: ...

    @held.setter
    def held(self, arg: int, /) -> None: ...

    def set_subscription(self, number: int, qos: int, identifier: int, retain_as_published: bool, limited: bool, plain: bool) -> None:
        """How messages of a subscription leave; plain: they do not need Python."""

    def remove_subscription(self, number: int) -> None: ...

    def use(self, number: int) -> int:
        """
        A message of this subscription is the client's; returns the credit that is due to the broker.
        """

    def alias(self, topic: str) -> int:
        """The alias of a topic of messages out; 0: it has none."""

    @property
    def next_alias(self) -> int: ...

    def add_alias(self, topic: str) -> None: ...

    @property
    def in_flight(self) -> int: ...

    def is_in_flight(self, packet_id: int) -> bool: ...

    def packet_id(self, message_id: bytes) -> int:
        """The packet id for a message."""

    def put(self, packet_id: int) -> None:
        """Python has sent a message with this packet id."""

    def free(self, packet_id: int) -> None: ...

    def acknowledge(self, packet_id: int) -> bool:
        """
        A PUBACK that Python has read. False: not of a message that the kernel has sent.
        """

    def sent(self) -> dict[int, bytes]:
        """Ids of messages that the kernel has sent, by packet id."""

    def add_earlier(self, packet_id: int, message_id: bytes) -> None:
        """An earlier connection of the session was sent this message."""

    def was_sent(self, packet_id: int, message_id: bytes) -> bool:
        """True if an earlier connection was sent it; asked once for each."""

    def give(self, data: bytes, at: int, now_ms: int) -> int:
        """Takes frames of the broker that need no Python; returns their bytes."""

    def take_output(self) -> bytes:
        """For the client."""

def plain_predicate(selector: str, destination: bytes) -> bytes | None:
    """
    The encoded predicate of a plain selector within a destination, which is an encoded constraint.
    """

def now_ms() -> int:
    """Milliseconds since 1970."""

def keep_large_blocks() -> None:
    """
    Sets the process's allocator: large blocks of memory stay in the heap for a while.
    """

class RecentIds:
    """The ids of the last messages: between `least` and twice as many."""

    def __init__(self, least: int = 100000) -> None: ...

    def __contains__(self, id: bytes) -> bool: ...

    def add(self, id: bytes) -> None: ...

class RowAntichain:
    """Rows of interests of which none makes another needless."""

    def __init__(self) -> None: ...

    def add(self, row: bytes, elements: Sequence[int]) -> None:
        """Once more."""

    def add_filter(self, row: bytes, predicate: bytes) -> None:
        """Once more, an exact filter."""

    def remove(self, row: bytes) -> bool:
        """Once less; false if it is not there."""

    def __len__(self) -> int: ...

    def rows(self) -> list[bytes]:
        """Those that are not needless."""

    def take_changes(self) -> tuple[set[bytes], set[bytes]]:
        """
        Those that are not needless now and were at the last call, and the other way round.
        """

    def sizes(self) -> tuple[int, int]:
        """All rows and elements."""

class Tally:
    """Counts of a replay."""

    def __init__(self, router_of: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], marks: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def add(self, offsets: numpy.typing.NDArray[numpy.uint32], found: numpy.typing.NDArray[numpy.uint32]) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint64]]:
        """Of each message the number of brokers, and the xor of their marks."""

    @property
    def matched(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def alone(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def router_messages(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def router_matches(self) -> numpy.typing.NDArray[numpy.int64]: ...

class Tracker:
    """Histories of what passes, filled by the forwarder."""

    def __init__(self, broker: int, exact: bool, runs: bool, bits: int, hashes: int, capacity: int, doublings: int, skew_ms: int, jitter_ms: int, persist_ms: int, retain: bool, forwards: bool, numbering: int) -> None: ...

    def add(self, kind: int, peer: int, ids: bytes, now_ms: int) -> None: ...

    def take(self, now_ms: int, all: bool) -> list[tuple[int, int, int, int, tuple[int, int] | None, tuple[int, ...], int, bool, int, bytes, int, int]]:
        """
        Filters that are full or due: kind, origin, peer, sequence, range, singles, count, full, form, bytes, opened, stored.
        """

    def end(self, kind: int, peer: int, now_ms: int) -> list[tuple[int, int, int, int, tuple[int, int] | None, tuple[int, ...], int, bool, int, bytes, int, int]]: ...

    def end_all(self, now_ms: int) -> list[tuple[int, int, int, int, tuple[int, int] | None, tuple[int, ...], int, bool, int, bytes, int, int]]: ...

    def find(self, kind: int, origin: int, peer: int, id: bytes, moment_ms: int, now_ms: int) -> tuple[int, int, int, bool] | None:
        """
        The filter in memory that matches this time: sequence, number of ids, number of bits, and if it holds the id.
        """

    def choose_keys(self, names: Sequence[str]) -> None:
        """Attributes by whose values messages can be found."""

    def take_keys(self) -> list[tuple[str, bytes, bytes]]:
        """
        Of each of these attributes: hashes of values, 8 bytes each, and ids of the messages, since the last call.
        """

    def know_brokers(self, brokers: Sequence[int]) -> None:
        """Brokers that ids may name; what names another is kept under origin 0."""

    def stragglers(self, origin: int, moment_ms: int, now_ms: int) -> list[int]:
        """
        Subscribers that were given a message of this origin and time long after it.
        """

    @property
    def memory_bytes(self) -> int: ...
