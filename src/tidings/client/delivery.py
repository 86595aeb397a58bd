"""A delivered message with its attempt count and its acknowledgement."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from tidings.client.bodies import decode_body
from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import ACK_CUMULATIVE, ACK_DEAD, ACK_RETRY


class Settler(Protocol):
    """Sends the verdict on a delivery to the broker; implemented by `Subscription`."""

    async def settle(self, delivery: "Delivery", flags: int) -> None: ...


class Delivery:
    """One delivery of one message."""

    __slots__ = ("_subscription", "_tag", "attempt", "generation", "message")

    def __init__(self, subscription: Settler, message: Message, attempt: int, tag: int, generation: int) -> None:
        self.message = message
        self.attempt = attempt
        self.generation = generation  # of the connection it came by: tags mean nothing on another one
        self._subscription = subscription
        self._tag = tag

    @property
    def destination(self) -> Destination:
        return self.message.destination

    @property
    def properties(self) -> Mapping[str, Value]:
        return self.message.properties

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def content(self) -> Any:
        """The body by its content type: a str for text, values for JSON, otherwise bytes; E_BODY if it is not so."""
        return decode_body(self.message.body, self.message.properties)

    @property
    def reply_to(self) -> Destination | None:
        """The destination for replies."""
        return self.message.reply_to

    @property
    def correlation_id(self) -> str | None:
        """The id that connects a reply with its request."""
        return self.message.correlation_id

    @property
    def priority(self) -> int:
        """0 to 9; 4 unless its publisher chose another."""
        return self.message.priority

    @property
    def timestamp(self) -> datetime:
        """The time of publication, in UTC."""
        ms = self.message.timestamp_ms
        return datetime.fromtimestamp((self.message.id.ms if ms is None else ms) / 1000, UTC)

    @property
    def id(self) -> MessageId:
        return self.message.id

    @property
    def message_id(self) -> MessageId:
        """The id that its publisher's receipt has, and under which it can be traced."""
        return self.message.id

    @property
    def redelivered(self) -> bool:
        """True if it may have been delivered before, to this client or to another one on the subscription."""
        return self.attempt > 1

    @property
    def tag(self) -> int:
        return self._tag

    async def ack(self, *, cumulative: bool = False) -> None:
        """Acknowledge it (`cumulative`: and all before it). It is not delivered again."""
        await self._subscription.settle(self, ACK_CUMULATIVE if cumulative else 0)

    async def retry(self) -> None:
        """Return it for redelivery to this or another consumer."""
        await self._subscription.settle(self, ACK_RETRY)

    async def reject(self) -> None:
        """Move it to the dead letters: it cannot be processed."""
        await self._subscription.settle(self, ACK_DEAD)

    def need_tag(self) -> int:
        if not self._tag:
            raise UsageError("E_ACK_NOT_WANTED", "messages of this subscription need no acknowledgement")
        return self._tag

    def __repr__(self) -> str:
        again = f", attempt={self.attempt}" if self.redelivered else ""
        return f"Delivery({self.message!r}{again})"
