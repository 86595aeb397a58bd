"""Shared context of the links of one AMQP connection."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tidings.model.message_id import MessageId, MessageIdSource
from tidings.protocols.native.peer import NativePeer

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
