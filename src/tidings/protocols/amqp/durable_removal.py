"""A link without a source: it names a kept subscription, to find out whether there is one, or to delete it.

Its name is that of the subscription's link. Who shares a subscription may have given its link another name behind a
bar, so what stands before the bar is looked for among the shared ones, those of the container before everybody's.
"""

from proton import Delivery, Sender

from tidings.errors import RemoteError
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.context import Context, refuse
from tidings.protocols.native.frames import FrameType
from tidings.protocols.native.peer import Fields


class ForgetLink:
    def __init__(self, context: Context, link: Sender) -> None:
        self._context = context
        self._link = link
        self.session = link.session
        self._names: list[Fields] = []  # still to be looked for
        self._found: Fields | None = None
        self._refused = False
        self._closed: bool | None = None  # how the client has detached it
        self.waits_to_end = False  # the client has detached it, and waits for the broker's word
        self._adrift = False

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
        if self._adrift:
            return
        if not isinstance(answer, RemoteError):
            self._found = self._names[0]
            self._link.source.durability = self._link.source.DELIVERIES
            self._link.source.expiry_policy = self._link.source.EXPIRE_NEVER
            self._link.open()
            self._maybe_end()
        elif len(self._names) > 1:
            del self._names[0]
            self._look()
        else:
            refuse(self._link, answer)
            self._refused, self.waits_to_end = True, False
            if self._closed is not None:
                self._let_go()

    def refuse(self) -> None:
        """The broker refused it."""
        self._refused = True

    def end(self, *, closed: bool) -> None:
        """The client has detached the link; `closed`: and wants the subscription to be deleted."""
        if self._refused:
            self._let_go()
            return
        self._closed, self.waits_to_end = closed, True
        self._maybe_end()

    def _maybe_end(self) -> None:
        if self._found is None or self._closed is None:
            return
        if self._closed:
            self._context.peer.ask(FrameType.UNSUBSCRIBE, self._found, self._gone)
        else:
            self._gone({})

    def _gone(self, answer: Fields | RemoteError) -> None:
        self.waits_to_end = False
        if self._adrift:
            return
        if isinstance(answer, RemoteError):
            self._link.condition = condition_of(answer)
        if self._closed:
            self._link.close()
        else:
            self._link.detach()
        self._let_go()

    def abandon(self) -> None:
        """The session around it is gone."""
        self._adrift = True
        self._let_go()

    def drift(self) -> None:
        """The same, before the broker's word has come."""
        self._adrift = True
        del self._link  # Proton has freed it, or will

    def _let_go(self) -> None:
        """See `tidings.protocols.amqp.session`."""
        self._link.free()
        del self._link

    def updated(self, delivery: Delivery) -> None:
        """There are no deliveries."""
