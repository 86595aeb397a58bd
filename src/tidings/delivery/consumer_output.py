"""The interface of consumers that are no clients of this broker: those at other brokers, and those that forward."""

from typing import Protocol


class ConsumerOutput(Protocol):
    """Takes what a consumer is given that is no client of this broker."""

    def room(self) -> int:
        """Bytes that it takes now."""

    def deliver(self, now_ms: int, attempts: list[int], tags: list[int], messages: list[bytes]) -> None: ...

    def drained(self) -> None:
        """Nothing more can be delivered (`Consumer.draining`)."""

    def removed(self, code: str, reason: str) -> None:
        """The mailbox is removed."""
