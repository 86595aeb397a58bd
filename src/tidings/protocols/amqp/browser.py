"""A link by which we show what waits in a queue: a source with the distribution mode `copy`.

As much as the client allows is asked for, a page at a time, from the place behind the last one shown. What is shown
stays in the queue whatever the client says of it. At the end of the queue the client may drain the link to learn that
it is there; otherwise we look now and then whether there is more.
"""

from tidings.errors import RemoteError, SecurityError, TidingsError
from tidings.model.selector import Selector
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.consumer import WINDOW_BYTES, content_of
from tidings.protocols.amqp.context import Context
from tidings.protocols.amqp.engine.link import IncomingDelivery, OutgoingDelivery, SenderLink
from tidings.protocols.amqp.engine.states import StateCode
from tidings.protocols.amqp.engine.terminus import COPY
from tidings.protocols.amqp.source import LinkSource, answer_source, read_source
from tidings.protocols.native.frames import FrameType, unsigned
from tidings.protocols.native.peer import Delivered, Fields

PAGE = 256  # messages that the broker shows at a time
LOOK_AGAIN_TICKS = 2  # half a second


class BrowserLink:
    def __init__(self, context: Context, link: SenderLink, source: LinkSource) -> None:
        self.number = context.next_number()
        self._context = context
        self._link = link
        self._source = source
        self.starved = False  # there is more to ask for than fits into the session's window
        self._seq = self._priority = 0  # of the last one seen
        self._asked = False
        self._ended = False
        self._at_end = False
        self._ticks = 0  # since then
        self._sent = 0

    def attach(self) -> None:
        Selector(self._source.filters.selector)  # a wrong one refuses the link
        queue = self._source.destination
        if not self._context.permits("browse", queue):
            raise SecurityError("E_FORBIDDEN", f"this user may not browse {queue}")
        answer_source(self._link, self._source)

    def refuse(self) -> None:
        """The broker refused it."""
        self._ended = True

    def fail(self, error: TidingsError) -> None:
        self._ended = True
        self._link.detach(closed=True, error=condition_of(error))

    def end(self, *, closed: bool) -> None:
        """The client has detached it."""
        if not self._ended:
            self._ended = True
            self._link.detach(closed=closed)

    def abandon(self) -> None:
        """The session around it is gone."""
        self._ended = True

    # --- pages ----------------------------------------------------------------------------------------------------

    def flow(self) -> None:
        """The client's credit has changed."""
        if self._at_end and self._link.draining:
            self._at_end = False  # it wants to know: look once more
        self._maybe_ask()

    def tick(self) -> None:
        """Every quarter of a second."""
        self._ticks += 1
        if self._at_end and self._ticks >= LOOK_AGAIN_TICKS:
            self._at_end = False
            self._maybe_ask()

    def _maybe_ask(self) -> None:
        if self._ended or self._asked or self._at_end:
            return
        credit = self._link.allowed
        if not credit:
            return
        self.starved = self._link.channel.outgoing_bytes >= WINDOW_BYTES
        if self.starved:
            return
        self._asked = True
        page: Fields = {"subscription": self.number, "queue": self._source.destination, "count": min(credit, PAGE)}
        page |= {"selector": self._source.filters.selector, "seq": self._seq, "priority": self._priority}
        self._context.peer.ask(FrameType.BROWSE, page, self._shown)

    def _shown(self, answer: Fields | RemoteError) -> None:
        self._asked = False
        if self._ended:
            return
        if isinstance(answer, RemoteError):
            if answer.code != "E_QUEUE_UNKNOWN":  # a queue is made when it is first used: until then it is empty
                self._ended = True
                self._link.refuse(condition_of(answer))
                return
            answer = {"seq": self._seq, "priority": self._priority}
        self._seq, self._priority = unsigned(answer, "seq", 63), unsigned(answer, "priority")
        if not answer.get("more"):
            self._at_end, self._ticks = True, 0
            if self._link.draining and self._link.allowed:
                self._link.drained()
        self._maybe_ask()

    # --- deliveries -----------------------------------------------------------------------------------------------

    def deliver(self, delivered: Delivered) -> None:
        if self._ended:
            return
        content = content_of(delivered, self._link, self._context, say_destination=False)
        if not content:
            return
        self._sent += 1
        self._link.send(b"%d" % self._sent, content, settled=self._source.presettled)

    def updated(self, delivery: OutgoingDelivery) -> None:
        """Whatever the client says of a copy, it is done with it."""
        if delivery.remote_settled or delivery.state.code is not StateCode.NONE:
            delivery.settle()

    def adopted(self, delivery: OutgoingDelivery) -> None:
        """The kernel sends nothing by this link."""

    def received(self, delivery: IncomingDelivery, payload: bytes, *, more: bool) -> None:
        """The broker sends."""

    def aborted(self, delivery: IncomingDelivery) -> None:
        """The broker sends."""


def browsed(link: SenderLink, context: Context) -> LinkSource | None:
    """The queue it wants to look into; None: it is a consumer's link. Of a topic `copy` is what everybody gets."""
    terminus = link.remote_source
    if terminus is None or terminus.distribution_mode != COPY or not terminus.address:
        return None
    source = read_source(link, context)
    return source if source.destination.startswith("queue:") else None
