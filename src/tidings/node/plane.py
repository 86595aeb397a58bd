"""The forwarding plane as a node sees it: the kernel's forwarder, or anything with its face."""

from typing import Protocol


class Plane(Protocol):
    def subscribe(
        self,
        connection: int,
        subscription: int,
        predicate: bytes,
        *,
        credit: int,
        policy: str,
        backlog_bytes_max: int,
        no_local: bool,
    ) -> int:
        """A direct sink: messages that match go straight to the connection's output. Returns the sink number."""

    def mailbox(self, predicate: bytes) -> int:
        """A sink whose messages come back as events. Returns the sink number."""

    def unsubscribe(self, sink: int) -> None: ...

    def credit(self, sink: int, more: int, now_ms: int) -> None: ...

    def match(self, message: bytes) -> list[int]:
        """The mailbox sinks that match."""

    def publish(self, message: bytes, now_ms: int, connection: int | None) -> None:
        """Serve the direct sinks that match."""

    def deliver(
        self, connection: int, subscription: int, attempts: list[int], tags: list[int], messages: list[bytes]
    ) -> None: ...

    def room(self, connection: int) -> int:
        """How many bytes may still be delivered to this connection now."""

    def transacted(self, connection: int, session: int, on: bool) -> None: ...

    def hold(self, connection: int) -> None:
        """Stop reading from this connection until `release`."""

    def release(self, connection: int) -> None: ...
