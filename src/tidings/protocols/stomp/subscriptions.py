"""A STOMP session's subscriptions: from headers to requests, and how its client calls them (docs/protocols.md)."""

from dataclasses import dataclass
from typing import TypeAlias

from tidings.delivery.mailbox import SlowPolicy
from tidings.errors import RemoteProtocolError
from tidings.node.requests import AckMode, Forget, Subscribe, SubscribeWait, Unsubscribe
from tidings.protocols.stomp.destinations import canonical, is_temporary, temporary_names
from tidings.protocols.stomp.frames import StompFrame, StompVersion

# Names that other brokers use for the same are understood too.
DURABLE = ("durable-subscription-name", "activemq.subscriptionName")
SHARED = ("shared-subscription-name",)
NO_LOCAL = ("no-local", "activemq.noLocal")
EXCLUSIVE = ("exclusive", "activemq.exclusive")
PREFETCH = ("prefetch-count", "activemq.prefetchSize")
POLICY = "slow-policy"
WAIT = "wait"
ID_MAX = 1_024  # characters
NUMBER_DIGITS_MAX = 19
NUMBERS, SPREAD = 1 << 30, 0x9E3779B1  # of subscriptions; the golden ratio keeps neighbours far apart
MODES = ("auto", "client-individual", "client")  # of acknowledgement

Key: TypeAlias = str | tuple[str]  # the id or, without one, the destination in a tuple


@dataclass(frozen=True, slots=True)
class Subscribed:
    number: int
    id: str | None  # 1.0 may do without
    destination: str
    mode: str  # auto, client, client-individual
    shared: bool

    @property
    def cumulative(self) -> bool:
        return self.mode == "client"

    @property
    def acks(self) -> int:
        """The acknowledgement mode for the forwarder."""
        return MODES.index(self.mode)


class StompSubscriptions:
    def __init__(self) -> None:
        self.temporary = ""  # what the names of this connection's temporary destinations begin with
        self._known: dict[Key, Subscribed] = {}
        self._numbers: dict[int, Subscribed] = {}
        self._latest = "", ""  # destination and how the node writes it: many subscriptions in a row have the same
        self._next = 1

    def begin(self, publisher: int, broker: int) -> None:
        """The client has logged in. Acknowledgements name a message by the subscription's number: one of an earlier
        connection must not mean another message here, so numbers begin where no connection near this one has any."""
        self.temporary = temporary_names(broker, publisher)
        self._next = publisher * SPREAD % NUMBERS + 1

    def add(self, frame: StompFrame, version: StompVersion, receipt: int) -> tuple[Subscribed, Subscribe]:
        destination = needed(frame, "destination")
        key = _key(frame, version)
        if key in self._known:
            raise RemoteProtocolError(
                "E_SUBSCRIPTION_EXISTS", f"subscription {_called(key)!r} exists on this connection"
            )
        mode = frame.headers.get("ack", "auto")
        if mode not in MODES:
            raise RemoteProtocolError("E_STOMP_HEADER", "ack must be auto, client or client-individual")
        durable, shared = _first(frame, DURABLE), _first(frame, SHARED)
        id = frame.headers.get("id")
        if destination != self._latest[0]:
            self._latest = destination, canonical(destination, self.temporary)
        destination, named = self._latest
        subscribed = Subscribed(self._next, id, destination, mode, bool(shared))
        request = Subscribe(
            receipt=receipt,
            subscription=subscribed.number,
            destination=named,
            selector=frame.headers.get("selector", ""),
            ack=AckMode.AUTO if mode == "auto" else AckMode.CLIENT,
            durable=durable,
            shared=shared,
            credit=_prefetch(frame),
            policy=_policy(frame),
            no_local=_flag(frame, NO_LOCAL),
            exclusive=_flag(frame, EXCLUSIVE),
            window=True,
            wait=_wait(frame),
            temporary=is_temporary(destination),
        )
        self._next += 1
        self._known[key] = self._numbers[subscribed.number] = subscribed
        return subscribed, request

    def remove(
        self, frame: StompFrame, version: StompVersion, receipt: int
    ) -> tuple[Subscribed | None, tuple[Unsubscribe | Forget, ...]]:
        """End a subscription; with the name of a durable one, delete that, whether it is in use here or not."""
        durable = _first(frame, DURABLE)
        key = None if durable and "id" not in frame.headers else self._meant(_key(frame, version))
        subscribed = self._known.pop(key, None) if key is not None else None
        if subscribed is None:
            if not durable:
                called = "" if key is None else _called(key)
                raise RemoteProtocolError("E_SUBSCRIPTION_UNKNOWN", f"no subscription {called!r} on this connection")
            return None, (Forget(receipt, durable, shared=bool(_first(frame, SHARED))),)
        del self._numbers[subscribed.number]
        if durable:
            shared = subscribed.shared or bool(_first(frame, SHARED))
            return subscribed, (Unsubscribe(0, subscribed.number), Forget(receipt, durable, shared=shared))
        return subscribed, (Unsubscribe(receipt, subscribed.number),)

    def _meant(self, key: Key) -> Key:
        """In 1.0 a destination ends a subscription that has an id too; of several, the oldest."""
        if isinstance(key, str) or key in self._known:
            return key
        return next((known for known, one in self._known.items() if one.destination == key[0]), key)

    def by_number(self, number: str) -> Subscribed | None:
        if not (number.isascii() and number.isdigit()) or number.startswith("0") or len(number) > NUMBER_DIGITS_MAX:
            return None
        return self._numbers.get(int(number))


def needed(frame: StompFrame, name: str) -> str:
    try:
        return frame.headers[name]
    except KeyError:
        raise RemoteProtocolError("E_STOMP_HEADER", f"{frame.command} needs the header {name}") from None


def _key(frame: StompFrame, version: StompVersion) -> Key:
    if version is StompVersion.V10 and "id" not in frame.headers:
        return (needed(frame, "destination"),)
    id = needed(frame, "id")
    if len(id) > ID_MAX:
        raise RemoteProtocolError("E_STOMP_HEADER", f"the id header is longer than {ID_MAX} characters")
    return id


def _called(key: Key) -> str:
    return (key if isinstance(key, str) else key[0])[:100]


def _first(frame: StompFrame, names: tuple[str, ...]) -> str:
    for name in names:
        if name in frame.headers:
            return frame.headers[name]
    return ""


def _prefetch(frame: StompFrame) -> int:
    text = _first(frame, PREFETCH)
    if text and not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise RemoteProtocolError("E_STOMP_HEADER", f"{PREFETCH[0]} must be a number of messages")
    return int(text or 0)


def _flag(frame: StompFrame, names: tuple[str, ...]) -> bool:
    text = _first(frame, names)
    if not text:
        return False
    text = text.strip().lower()
    if text not in ("", "true", "false"):
        raise RemoteProtocolError("E_STOMP_HEADER", f"{names[0]} must be true or false")
    return text == "true"


def _wait(frame: StompFrame) -> SubscribeWait:
    try:
        return SubscribeWait(frame.headers.get(WAIT, SubscribeWait.BROKER.value))
    except ValueError:
        offered = ", ".join(wait.value for wait in SubscribeWait)
        raise RemoteProtocolError("E_STOMP_HEADER", f"{WAIT} must be one of {offered}") from None


def _policy(frame: StompFrame) -> SlowPolicy:
    if POLICY not in frame.headers:
        return SlowPolicy.PUSH_BACK
    try:
        return SlowPolicy(frame.headers[POLICY])
    except ValueError:
        offered = ", ".join(policy.value for policy in SlowPolicy)
        raise RemoteProtocolError("E_STOMP_HEADER", f"{POLICY} must be one of {offered}") from None
