"""A broker as inspection and metrics see it: a frozen record of what they read, made when they ask."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidings.broker.connections.client_sockets import ClientSockets
from tidings.broker.links.links import BrokerLinks, NoLinks
from tidings.broker.security.guard import Guard
from tidings.broker.security.tls_failures import TlsFailures
from tidings.broker.store_thread import StoreThread
from tidings.broker.tuning.capacity_observer import Observer
from tidings.broker.tuning.receive_windows import WindowControl
from tidings.kernel.client_input import Pace
from tidings.kernel.forwarder import Forwarder
from tidings.node.clients.admission import Admission
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.node.view import View


@dataclass(frozen=True, slots=True)
class BrokerView:
    name: str
    run: str  # of this process
    role: str  # single, or active of a pair
    settings: NodeSettings
    limits: BrokerLimits
    ready: bool
    failure: str  # why only a restart helps; empty: it does what it should
    guard: Guard
    engine: View
    forwarder: Forwarder
    clients: ClientSockets
    links: BrokerLinks | NoLinks
    refused_logins: Mapping[str, int]  # by code
    waiting_logins: int
    suppressed_lines: Mapping[str, int]  # of the log, by kind
    failed_handshakes: TlsFailures
    writer: StoreThread | None
    observer: Observer | None
    admission: Admission | None
    pace: Pace  # of reads, with their waiting times
    windows: WindowControl | None

    @property
    def connections_refused(self) -> int:
        """Because there were too many; some before they could say anything."""
        return self.clients.connection_limits.refused + self.engine.refused
