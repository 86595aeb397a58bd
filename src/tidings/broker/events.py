"""What the forwarding plane leaves to Python: requests, messages for mailboxes, and what it cannot judge itself."""

import logging
import time
from typing import TYPE_CHECKING

from tidings.broker.connection import ClientConnection
from tidings.broker.inspection import inspect
from tidings.broker.session import Bye, Clock, Hello, Inspect, Invalid, Ping
from tidings.broker.writer import Lone
from tidings.errors import RemoteProtocolError, SecurityError, TidingsError
from tidings.kernel.clock import now_ms
from tidings.kernel.events import (
    Acknowledged,
    ClockDrift,
    ControlFrame,
    CreditGiven,
    FrameError,
    MemoryShort,
    OutputRoom,
    PlaneEvent,
    PublishCheck,
    Published,
    PublishedToRouters,
    PublishedToScheme,
    SlowConsumer,
    Transacted,
)
from tidings.kernel.forwarder import Flag
from tidings.node.requests import Ack, Credit, Failed, Refused

if TYPE_CHECKING:
    from tidings.broker.server import Broker

log = logging.getLogger("tidings.broker")

BLOCKED = int(Flag.BLOCKED)
ACK_CUMULATIVE = 1  # flag of an ACK frame: and all before
ACK_FLAGS_MAX = 63  # all that there are
TURN_SECONDS_MAX = 2e-3  # for the requests of one client, before others are read


class Events:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._forwarder = broker.forwarder
        self._node = broker.node
        self._clients = broker.clients
        self._lone = Lone()

    def handle(self) -> None:
        """What the kernel has left to Python; if that is much, after a while others come first."""
        broker, node, connections = self._broker, self._node, self._clients.connections
        began = 0.0
        while events := self._forwarder.events():
            for event in events:
                number = event.connection
                connection = connections.get(number)
                if connection is None:
                    broker.links.event(event)
                    continue
                if isinstance(event, Published):
                    lone = self._lone.published(number, broker.naps.pace.reads) and len(events) == 1
                    if lone and not event.perhaps_sent and self._write_alone(event):
                        continue
                    node.publishing.message(
                        number,
                        event.receipt,
                        event.message,
                        event.sinks,
                        expires_ms=event.expires_ms,
                        perhaps_sent=event.perhaps_sent,
                    )
                elif number in node.connections or not connection.closing:  # otherwise it has left
                    try:
                        self._handle_event(connection, event)
                    except Exception:  # a fault of ours must cost one connection, not all of them
                        log.exception("internal error while serving %s", connection.address)
                        self._clients.fail(connection, RemoteProtocolError("E_INTERNAL", "an error inside the broker"))
            if len(events) > 1 or not isinstance(events[0], ControlFrame):  # a request has had its turn
                broker.carry_out(node.turn(now_ms()))
            elif time.perf_counter() - (began := began or time.perf_counter()) > TURN_SECONDS_MAX:
                broker.loop.call_soon(broker.handle_events_later)
                return

    def _write_alone(self, event: Published) -> bool:
        """A publisher waits for this message and hardly anybody for anything else: to disk with it, and the receipt."""
        assert self._broker.writer is not None
        number, receipt = event.connection, event.receipt
        records = self._node.alone.begin(event.message, event.sinks, event.expires_ms)
        try:
            if records is None or not self._broker.writer.write_here(records):
                return False
        except TidingsError as error:
            self._node.publishing.refuse(number, receipt, error)
            return True
        if receipt:
            self._forwarder.confirm(number, (receipt,))
            self._broker.flush()  # the publisher may go on while we see to the deliveries
        self._node.alone.end(now_ms())
        return True

    def _handle_event(self, connection: ClientConnection, event: PlaneEvent) -> None:
        number = connection.number
        match event:
            case Acknowledged():
                self._acknowledged(connection, event)
            case CreditGiven():
                self._node.asked(now_ms(), number, Credit(event.subscription, event.more))
            case ControlFrame():
                self._control(connection, event)
            case Transacted():
                self._node.transacted(now_ms(), number, event.session, event.receipt, event.message)
            case PublishCheck():
                self._ask(connection, event)
            case FrameError():
                wrong = RemoteProtocolError(event.code, event.reason, position=event.position)
                self._clients.fail(connection, wrong, event.receipt)
            case SlowConsumer():
                reason = f"subscription {event.subscription} did not keep up"
                self._clients.end(connection, "E_SLOW_CONSUMER", reason)
            case MemoryShort():
                reason = "memory is short, and this connection did not keep up"
                self._clients.end(connection, "E_SLOW_CONSUMER", reason)
            case PublishedToRouters() | PublishedToScheme():
                self._node.publishing.from_network(now_ms(), event)
            case ClockDrift():
                self._broker.reception.correct(connection, event.sent_ms)
            case OutputRoom():
                self._broker.carry_out(self._node.room(now_ms(), number))

    def _acknowledged(self, connection: ClientConnection, event: Acknowledged) -> None:
        subscription, flags = event.subscription, event.flags
        if flags > ACK_FLAGS_MAX:  # whatever it means, it is not: done with these
            unknown = RemoteProtocolError("E_FRAME_ACK", "an acknowledgement with an unknown flag", position=4)
            self._clients.fail(connection, unknown)
        elif event.session or flags > ACK_CUMULATIVE:
            request = Ack.of(subscription, flags, event.tags, event.session)
            self._node.asked(now_ms(), connection.number, request)
        else:
            client = self._node.connections[connection.number]
            self._node.acknowledged(now_ms(), client, subscription, event.tags, cumulative=flags > 0)

    def _control(self, connection: ClientConnection, event: ControlFrame) -> None:
        try:
            received = connection.session.receive(event.type, event.flags, event.session, event.payload)
        except TidingsError as error:
            self._clients.fail(connection, error)
            return
        match received:
            case Hello():
                self._broker.tasks.spawn(self._broker.reception.log_in(connection, received))
                return  # parsing goes on after the log-in
            case Ping():
                self._forwarder.send(connection.number, connection.session.pong())
            case Inspect():
                self._clients.answer(connection, inspect(self._broker, connection.number, received))
            case Clock(number):
                self._broker.reception.confirmed(connection, number)
            case Bye():
                self._clients.close(connection)
                return
            case Invalid(receipt, wrong):
                self._clients.answer(connection, Failed(receipt, wrong))
            case None:
                pass
            case tuple():
                for request in received:
                    self._broker.carry_out(self._node.request(now_ms(), connection.number, request))
            case request:
                self._broker.carry_out(self._node.request(now_ms(), connection.number, request))
        self._go_on(connection)

    def _go_on(self, connection: ClientConnection) -> None:
        """What parsing stopped at is dealt with."""
        if connection.closing:
            return
        if not self._forwarder.handled(connection.number, now_ms()) & BLOCKED:
            connection.resume_reading()

    def _ask(self, connection: ClientConnection, event: PublishCheck) -> None:
        """May this client publish there? Asked once for each destination."""
        number, client = connection.number, self._node.connections[connection.number]
        principal = client.principal
        destination = f"{'queue' if event.queue else 'topic'}:{event.destination}"
        error: TidingsError | None = SecurityError("E_FORBIDDEN", f"{principal.name} may not publish to {destination}")
        if principal.may("publish", destination):
            error = self._broker.admission.newcomer() if self._broker.admission else None
        if error is None:
            self._forwarder.allow(number, destination)
        else:
            client.spoil(event.session, error)
            self._clients.answer(connection, Refused(event.receipt, error) if event.receipt else Failed(0, error))
            if not connection.closing:  # STOMP's answer is the last thing said
                self._forwarder.skip(number)
        self._go_on(connection)
