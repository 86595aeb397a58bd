"""Output to sockets: one write a connection, once in an iteration of the event loop, or at once if there is time."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings.broker.server import Broker

FLUSH_BYTES = 1 << 20  # this much output does not wait for the end of the loop iteration
WRITE_BYTES = 1 << 20  # of one write to one socket


class Flushing:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._forwarder = broker.forwarder
        self._soon = False
        self._writing = False

    def soon(self) -> None:
        if self._forwarder.fresh_bytes() > FLUSH_BYTES:
            self.now()
        else:
            self._next_round()

    def now(self) -> None:
        """One write for each connection with output."""
        if self._writing:  # called by one of those that are written to: what is new may not overtake what others get
            self._next_round()
            return
        self._soon, self._writing = False, True
        try:
            self._write_all()
        finally:
            self._writing = False
        if self._forwarder.has_events():
            self._broker.loop.call_soon(self._broker.handle_events_later)
        elif self._forwarder.has_resumable():  # what was written made room for publishers that wait
            self._broker.loop.call_soon(self._broker.after)

    def _write_all(self) -> None:
        broker, forwarder, connections = self._broker, self._forwarder, self._broker.clients.connections
        for number, data, left in forwarder.write_all(WRITE_BYTES, broker.now_ms()):
            connection = connections.get(number)
            if connection is None:
                broker.links.write(number, data, left)
                continue
            if data:
                connection.write(data)
            if not left:
                if connection.closing:
                    connection.close()
            elif connection.writable:  # there was more than one write takes: go on in the next round
                forwarder.set_writable(number, True)
                self._next_round()

    def _next_round(self) -> None:
        if not self._soon:
            self._soon = True
            self._broker.loop.call_soon(self.now)
