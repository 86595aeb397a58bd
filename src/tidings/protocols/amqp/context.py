"""Shared context of the links of one AMQP connection, and the refusal of a link."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from proton import Array, Data, Link, Sender, Terminus

from tidings.errors import TidingsError
from tidings.model.message_id import MessageId, MessageIdSource
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.sections import AmqpValue, own, reading
from tidings.protocols.native.peer import NativePeer

CREDIT_MAX = 0x7FFF_FFFF
Permits: TypeAlias = Callable[[str, str], bool]


@dataclass(slots=True)
class Context:
    peer: NativePeer
    ids: MessageIdSource
    permits: Permits  # access check of the connected user: operation, destination
    plain_is_queue: bool
    frame_bytes_max: int
    now_ms: int
    container: str = ""
    partial_bytes: int = 0  # of messages that are not complete
    _numbers: int = field(default=0)

    def next_number(self) -> int:
        """For a subscription, or for the name of a temporary queue."""
        self._numbers += 1
        return self._numbers

    def next_id(self) -> MessageId:
        while (found := self.ids.next(self.now_ms)) is None:  # 65 536 in this millisecond
            self.now_ms += 1
        return found

    def next_temporary(self) -> str:
        """A unique name: this broker gives a publisher's number to one connection only."""
        source = self.next_id()
        return f"tmp.{source.broker}.{source.publisher}.{self.next_number()}"


def object_of(data: Data) -> AmqpValue:
    """The value of a field of a terminus; None if it is empty."""
    with reading():
        data.rewind()
        return None if data.next() is None else own(data.get_object())


def capabilities_of(terminus: Terminus) -> tuple[str, ...]:
    given = object_of(terminus.capabilities)
    if given is None:
        return ()
    many = given if isinstance(given, (list, Array)) else [given]
    return tuple(str(one) for one in many)


def credit_of(link: Sender, sent: int) -> int:
    """The messages that the client still allows, after `sent` of them.

    Proton (0.40) counts with a sign. Below zero the client has withdrawn credit for messages that it had not seen,
    which were sent; if fewer were sent, it allows more than the type can hold, which Proton can send but not drain.
    """
    credit: int = link.credit
    return CREDIT_MAX if credit < -sent and not link.drain_mode else max(credit, 0)


def refuse(link: Link, error: TidingsError) -> None:
    """Attach without source or target and detach with the error, as the specification requires."""
    link.source.type = link.target.type = Terminus.UNSPECIFIED
    link.open()
    link.condition = condition_of(error)
    link.close()
