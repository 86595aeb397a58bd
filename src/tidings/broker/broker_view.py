"""A broker as inspection and metrics see it: a frozen record of what they read, made when they ask."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidings.broker.client_sockets import ClientSockets
from tidings.broker.failed_handshakes import FailedHandshakes
from tidings.broker.links import BrokerLinks, NoLinks
from tidings.broker.observing import Observer
from tidings.broker.writer import StoreWriter
from tidings.kernel.forwarder import Forwarder
from tidings.node.admission import Admission
from tidings.node.limits import Limits
from tidings.node.settings import Settings
from tidings.node.view import View


@dataclass(frozen=True, slots=True)
class BrokerView:
    name: str
    run: str  # of this process
    settings: Settings
    limits: Limits
    ready: bool
    failure: str  # why only a restart helps; empty: it does what it should
    engine: View
    forwarder: Forwarder
    clients: ClientSockets
    links: BrokerLinks | NoLinks
    refused_logins: Mapping[str, int]  # by code
    waiting_logins: int
    suppressed_lines: Mapping[str, int]  # of the log, by kind
    failed_handshakes: FailedHandshakes
    writer: StoreWriter | None
    observer: Observer | None
    admission: Admission | None

    @property
    def connections_refused(self) -> int:
        """Because there were too many; some before they could say anything."""
        return self.clients.crowd.refused + self.engine.refused
