"""A link without a source: it names a kept subscription, to find out whether there is one, or to delete it.

Its name is that of the subscription's link. Who shares a subscription may have given its link another name behind a
bar, so what stands before the bar is looked for among the shared ones, those of the container before everybody's.
"""

from tidings.errors import RemoteError, TidingsError
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.context import Context
from tidings.protocols.amqp.engine.link import IncomingDelivery, OutgoingDelivery, SenderLink
from tidings.protocols.amqp.engine.terminus import NEVER, Terminus
from tidings.protocols.native.frames import FrameType
from tidings.protocols.native.peer import Fields

UNSETTLED_STATE = 2  # terminus durability


class ForgetLink:
    def __init__(self, context: Context, link: SenderLink) -> None:
        self._context = context
        self._link = link
        self.channel = link.channel
        self._names: list[Fields] = []  # still to be looked for
        self._found: Fields | None = None
        self._refused = False
        self._closed: bool | None = None  # how the client has detached it

    def attach(self) -> None:
        name = self._link.name
        common = name.partition("|")[0]
        self._names = [{"durable": name}]
        for shared in (f"{self._context.container}|{common}", common):
            self._names.append({"durable": shared, "shared": shared})
        self._look()

    def _look(self) -> None:
        self._context.peer.ask(FrameType.UNSUBSCRIBE, {**self._names[0], "look": True}, self._looked)

    def _looked(self, answer: Fields | RemoteError) -> None:
        if not isinstance(answer, RemoteError):
            self._found = self._names[0]
            self._link.attach(Terminus(durable=UNSETTLED_STATE, expiry_policy=NEVER), None)
            self._maybe_end()
        elif len(self._names) > 1:
            del self._names[0]
            self._look()
        else:
            self._link.refuse(condition_of(answer))
            self._refused = True

    def refuse(self) -> None:
        """The broker refused it."""
        self._refused = True

    def end(self, *, closed: bool) -> None:
        """The client has detached the link; `closed`: and wants the subscription to be deleted."""
        if not self._refused:
            self._closed = closed
            self._maybe_end()

    def _maybe_end(self) -> None:
        if self._found is None or self._closed is None:
            return
        if self._closed:
            self._context.peer.ask(FrameType.UNSUBSCRIBE, self._found, self._gone)
        else:
            self._gone({})

    def _gone(self, answer: Fields | RemoteError) -> None:
        error = condition_of(answer) if isinstance(answer, RemoteError) else None
        self._link.detach(closed=bool(self._closed), error=error)

    def fail(self, error: TidingsError) -> None:
        self._refused = True
        self._link.detach(closed=True, error=condition_of(error))

    def abandon(self) -> None:
        """The session around it is gone."""

    def flow(self) -> None:
        """There are no messages."""

    def updated(self, delivery: OutgoingDelivery) -> None:
        """There are no deliveries."""

    def adopted(self, delivery: OutgoingDelivery) -> None:
        """There are no deliveries."""

    def received(self, delivery: IncomingDelivery, payload: bytes, *, more: bool) -> None:
        """There are no deliveries."""

    def aborted(self, delivery: IncomingDelivery) -> None:
        """There are no deliveries."""
