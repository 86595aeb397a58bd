"""The broker's side of STOMP 1.0 to 1.2: one session a connection, no I/O (docs/protocols.md).

    CONNECTING ──CONNECT──► LOGIN ──welcome──► READY ──DISCONNECT──► LEAVING ──receipt──► CLOSED ◄── any ERROR

SEND and MESSAGE frames do not come through here: the forwarding plane reads and writes them by itself. It knows
subscriptions, transactions and receipts by number; the session tells it what the client calls them.
"""

from collections.abc import Callable
from enum import Enum
from itertools import count
from typing import ClassVar, assert_never

from tidings.errors import RemoteProtocolError, TidingsError
from tidings.kernel.forwarder import Forwarder
from tidings.model.values import Value
from tidings.node.clients.subscription_plan import NAME_MAX
from tidings.node.protocol_session import Hello, Received
from tidings.node.requests import Ack, Begin, Commit, Done, Failed, Leave, Outcome, Refused, Rollback, Verdict
from tidings.protocols.stomp.frames import StompFrame, StompVersion, decode, encode, escape, receipt_in
from tidings.protocols.stomp.subscriptions import StompSubscriptions, Subscribed, needed

OWN_RECEIPTS = 1 << 31  # numbers from here on are the session's, those below the forwarding plane's
SESSIONS_MAX = 0xFFFF
BEAT_LEAST_MS = 200  # a client that offers heartbeats more often than that may send them as seldom as that
BEAT_MS = 1_000  # the broker sends a heartbeat at this interval, or a longer one that the client asks for
TEXT_MAX = 1_024  # characters of a receipt's name
VERSIONS = {str(version): version for version in StompVersion}


class StompState(Enum):
    CONNECTING = "connecting"
    LOGIN = "login"
    READY = "ready"
    LEAVING = "leaving"
    CLOSED = "closed"


class StompSession:
    name = "stomp"

    def __init__(self) -> None:
        self.state = StompState.CONNECTING
        self.version = StompVersion.V12
        self._plane: Forwarder | None = None
        self._connection = -1
        self._receipts: dict[int, str] = {}  # own numbers, not answered yet
        self._next_receipt = count(OWN_RECEIPTS)
        self._frame: StompFrame | None = None  # the one at hand
        self._asked: str | None = None  # the receipt of one that cannot be read
        self._beats = (0, 0)  # the client's offer and request
        self._silence_ms = 0  # longest silence of the client
        self._last_receipt = 0  # of DISCONNECT
        self._subscriptions = StompSubscriptions()
        self._transactions: dict[str, int] = {}

    @property
    def ended(self) -> bool:
        return self.state is StompState.CLOSED

    def opened(self, plane: Forwarder, connection: int) -> None:
        self._plane, self._connection = plane, connection
        plane.speak_stomp(connection)

    # --- from the client ------------------------------------------------------------------------------------------

    def receive(self, type: int, flags: int, session: int, payload: bytes) -> Received:
        """Decode a frame into a request; any error in it ends the connection."""
        self._frame = None
        try:
            self._frame = frame = decode(payload, self.version)
        except TidingsError:
            self._asked = receipt_in(payload)
            raise
        if frame.command in ("CONNECT", "STOMP"):
            if self.state is not StompState.CONNECTING:
                raise RemoteProtocolError("E_STOMP_COMMAND", "the client is already connected")
            return self._connect(frame)
        if self.state is not StompState.READY:
            raise RemoteProtocolError("E_STOMP_COMMAND", "the first frame must be CONNECT or STOMP")
        if frame.command not in self._COMMANDS:
            raise RemoteProtocolError("E_STOMP_COMMAND", f"unknown command {frame.command[:32]!r}")
        if frame.body and self.version is not StompVersion.V10:
            raise RemoteProtocolError("E_STOMP_FRAME", f"{frame.command} must not have a body")
        received = self._COMMANDS[frame.command](self, frame)
        self._frame = None
        return received

    def _connect(self, frame: StompFrame) -> Hello:
        offered = frame.headers.get("accept-version", "1.0").replace(" ", "").split(",")
        known = [VERSIONS[one] for one in offered if one in VERSIONS]
        if not known:
            raise RemoteProtocolError("E_VERSION", f"this broker speaks STOMP {', '.join(VERSIONS)}")
        self.version = max(known)
        beats = _beats(frame.headers.get("heart-beat", "0,0"))
        self._beats = (
            (0, 0) if self.version is StompVersion.V10 else beats
        )  # 1.0 has none, and CONNECTED agrees to none
        client = frame.headers.get("client-id", "").strip()
        if len(client) > NAME_MAX or any(character < " " for character in client):
            reason = f"client-id: at most {NAME_MAX} characters and no control characters"
            raise RemoteProtocolError("E_STOMP_HEADER", reason)
        user, password = frame.headers.get("login", ""), frame.headers.get("passcode", "")
        if self.version is StompVersion.V10:
            user, password = user.strip(), password.strip()
        self.state = StompState.LOGIN
        assert self._plane is not None
        self._plane.stomp_version(self._connection, self.version)
        return Hello(user, password, client, self._beats[0])

    def heartbeats(self, hello: Hello, longest_ms: int) -> tuple[int, int]:
        """The longest silence of the client, and of the broker; 0: any."""
        offered, wanted = self._beats
        # What a client offers is asked for, so that one that has gone is noticed as soon as it made possible.
        self._silence_ms = min(max(offered, BEAT_LEAST_MS), longest_ms) if offered else longest_ms
        return max(offered, self._silence_ms) if offered else 0, max(wanted, BEAT_MS) if wanted else 0

    def _subscribe(self, frame: StompFrame) -> Received:
        subscribed, request = self._subscriptions.add(frame, self.version, self._receipt(frame))
        if subscribed.id is not None:
            assert self._plane is not None
            line = f"subscription:{escape(subscribed.id, self.version)}\n".encode()
            self._plane.stomp_label(self._connection, subscribed.number, line, subscribed.acks)
        return request

    def _unsubscribe(self, frame: StompFrame) -> Received:
        subscribed, requests = self._subscriptions.remove(frame, self.version, self._receipt(frame))
        if subscribed is not None:
            assert self._plane is not None
            self._plane.stomp_label(self._connection, subscribed.number, b"")
        return requests

    def _ack(self, frame: StompFrame) -> Ack:
        if frame.command == "NACK" and self.version is StompVersion.V10:
            raise RemoteProtocolError("E_STOMP_COMMAND", "STOMP 1.0 has no NACK")
        text = needed(frame, "id" if self.version is StompVersion.V12 else "message-id")
        *_, subscription, tag = ("", *text.split("-"))
        subscribed = self._subscriptions.by_number(subscription)
        if subscribed is None or not (tag.isascii() and tag.isdigit()) or len(tag) > 19 or not int(tag):
            raise RemoteProtocolError("E_STOMP_ACK", f"message {text[:100]!r} is not waiting for an acknowledgement")
        self._check_owner(frame, subscribed)
        verdict = Verdict.DONE
        if frame.command == "NACK":
            verdict = Verdict.DEAD if frame.headers.get("requeue") == "false" else Verdict.RETRY
        session = self._session(frame) if "transaction" in frame.headers else 0
        tags, receipt = (int(tag),), self._receipt(frame)
        return Ack(subscribed.number, tags, subscribed.cumulative, verdict, session, receipt, with_commit=session > 0)

    def _check_owner(self, frame: StompFrame, subscribed: Subscribed) -> None:
        """In 1.1 an acknowledgement names its subscription besides."""
        if self.version is StompVersion.V11 and needed(frame, "subscription") != subscribed.id:
            raise RemoteProtocolError("E_STOMP_ACK", "the message was not sent to this subscription")

    def _begin(self, frame: StompFrame) -> Begin:
        name = needed(frame, "transaction")
        if name in self._transactions:
            raise RemoteProtocolError("E_STOMP_TRANSACTION", f"transaction {name[:100]!r} has begun already")
        if len(name) > NAME_MAX:
            raise RemoteProtocolError(
                "E_STOMP_TRANSACTION", f"the name of a transaction is longer than {NAME_MAX} characters"
            )
        if len(self._transactions) == SESSIONS_MAX:
            raise RemoteProtocolError(
                "E_STOMP_TRANSACTION", f"a connection can have at most {SESSIONS_MAX} transactions"
            )
        taken = set(self._transactions.values())
        session = next(number for number in count(1) if number not in taken)
        self._transactions[name] = session
        assert self._plane is not None
        self._plane.stomp_transaction(self._connection, name, session)
        return Begin(self._receipt(frame), session)

    def _commit(self, frame: StompFrame) -> Commit:
        receipt = self._receipt(frame) or next(self._next_receipt)  # that it failed must be known as its failure
        return Commit(receipt, self._end_transaction(frame), drops_late=True, or_leaves=True)

    def _abort(self, frame: StompFrame) -> Rollback:
        return Rollback(self._receipt(frame), self._end_transaction(frame))

    def _session(self, frame: StompFrame) -> int:
        name = needed(frame, "transaction")
        if name not in self._transactions:
            raise RemoteProtocolError("E_STOMP_TRANSACTION", f"transaction {name[:100]!r} has not begun")
        return self._transactions[name]

    def _end_transaction(self, frame: StompFrame) -> int:
        session = self._session(frame)
        name = frame.headers["transaction"]
        del self._transactions[name]
        assert self._plane is not None
        self._plane.stomp_transaction(self._connection, name, 0)
        return session

    def _disconnect(self, frame: StompFrame) -> Received:
        """Nothing more is delivered; the connection ends when all that was sent before has its receipts."""
        self.state = StompState.LEAVING
        self._last_receipt = self._receipt(frame) or next(self._next_receipt)
        return Leave(self._last_receipt)

    def _receipt(self, frame: StompFrame) -> int:
        """A number for the receipt that the frame asks for; 0: it asks for none."""
        text = frame.headers.get("receipt")
        if text is None:
            return 0
        if len(text) > TEXT_MAX:
            raise RemoteProtocolError("E_STOMP_HEADER", f"the receipt header is longer than {TEXT_MAX} characters")
        number = next(self._next_receipt)
        self._receipts[number] = text
        return number

    # Functions, not methods: a session that held its own methods would be freed only when somebody looks for circles.
    _COMMANDS: ClassVar[dict[str, Callable[["StompSession", StompFrame], Received]]] = {
        "SUBSCRIBE": _subscribe,
        "UNSUBSCRIBE": _unsubscribe,
        "ACK": _ack,
        "NACK": _ack,
        "BEGIN": _begin,
        "COMMIT": _commit,
        "ABORT": _abort,
        "DISCONNECT": _disconnect,
    }

    # --- to the client --------------------------------------------------------------------------------------------

    def welcome(self, fields: dict[str, Value]) -> bytes:
        self.state = StompState.READY
        self._frame = None
        publisher, broker = fields["publisher"], fields["broker"]
        assert isinstance(publisher, int)
        assert isinstance(broker, int)
        assert self._plane is not None
        self._subscriptions.begin(publisher, broker)
        self._plane.stomp_publisher(self._connection, publisher, broker, self._subscriptions.temporary)
        headers = {"version": str(self.version), "session": f"{broker}-{publisher}", "server": str(fields["server"])}
        if self.version is not StompVersion.V10:
            headers["heart-beat"] = f"{BEAT_MS},{self._silence_ms}"
        # CONNECTED knows no escapes, as CONNECT does not: its values have none to need.
        return encode("CONNECTED", headers, StompVersion.V10)

    def answer(self, answer: Outcome) -> bytes:
        match answer:
            case Done(receipt, _):
                if receipt and receipt == self._last_receipt:
                    self.state = StompState.CLOSED
                text = self._receipts.pop(receipt, None)
                return b"" if text is None else encode("RECEIPT", {"receipt-id": text}, self.version)
            case Failed(receipt, error) | Refused(receipt, error):
                if error.code == "E_QUEUE_GONE" and receipt < OWN_RECEIPTS:  # a SEND: its temporary reply queue is gone
                    text = self._text(receipt)
                    return b"" if text is None else encode("RECEIPT", {"receipt-id": text}, self.version)
                return self.error(error, receipt)
            case _:
                assert_never(answer)

    def _text(self, receipt: int) -> str | None:
        """The client's name of a receipt, removed because it is answered now."""
        if receipt >= OWN_RECEIPTS:
            return self._receipts.pop(receipt, None)
        assert self._plane is not None
        name = self._plane.stomp_receipt(self._connection, receipt) if receipt else None
        return None if name is None else name.decode(errors="replace")  # whatever the client wrote there

    def error(self, error: TidingsError, receipt: int = 0) -> bytes:
        """ERROR is always the last frame."""
        text = self._text(receipt)
        if text is None:
            text = self._asked if self._frame is None else self._frame.headers.get("receipt")
        self.state = StompState.CLOSED
        where = "" if error.position is None else f" (at {error.position})"
        headers = {"message": f"{error.code}: {error.reason}{where}", "code": error.code}
        if error.code == "E_VERSION":
            headers["version"] = ",".join(VERSIONS)
        if text is not None:
            headers["receipt-id"] = text
        body = f"{error.code}: {error.reason}{where}\n".encode()
        if self._frame is not None:
            body += f"in {self._frame.command[:32]}\n".encode()
        headers |= {"content-type": "text/plain", "content-length": str(len(body))}
        return encode("ERROR", headers, self.version, body)

    def dropped(self, subscription: int, count: int, reason: str) -> bytes:
        """Of a broker's frames ERROR ends the connection, and the others have no place for it."""
        return b""

    def ping(self) -> bytes:
        return b"\n"

    def pong(self) -> bytes:
        return b"\n"

    def close(self, code: str, reason: str) -> bytes:
        self._frame = self._asked = None
        return self.error(RemoteProtocolError(code, reason))


def _beats(text: str) -> tuple[int, int]:
    parts = text.replace(" ", "").split(",")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        raise RemoteProtocolError("E_STOMP_HEADER", "heart-beat must be two numbers of milliseconds, such as 0,1000")
    return int(parts[0]), int(parts[1])
