"""The client connections of a broker as the engine knows them: login, frames, answers, and how a connection ends.

    opened ──Hello──► LogIn ──LoggedIn──► ready ──requests──► closing ──► lost
                         └──LoginRefused──────────────────────┘

What ends a connection is said to the client first; then it closes when that is written. Nothing is added to its output
meanwhile, and for the node the client has left as soon as it closes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidings.errors import LimitError, RemoteProtocolError, SecurityError, TidingsError
from tidings.kernel.events import ControlFrame, PublishCheck
from tidings.kernel.forwarder import Flag, Forwarder
from tidings.node.clients.audited_requests import Action, action_of
from tidings.node.clients.clock_correction import ClientClocks
from tidings.node.clients.session import Connection, Principal
from tidings.node.clients.user_accounts import UserAccounts
from tidings.node.effects import (
    AuditAction,
    AuditRefusal,
    ClientReady,
    CloseClient,
    Effect,
    Inspection,
    Log,
    LogIn,
    ResumeReading,
)
from tidings.node.inputs import LoggedIn, Now
from tidings.node.limits import BrokerLimits
from tidings.node.protocol_session import Bye, Clock, Hello, Inspect, Invalid, Ping, ProtocolSession
from tidings.node.requests import Accepted, Answer, Done, Failed, Refused, Request
from tidings.node.settings import NodeSettings
from tidings.tracking.recording.clock_skew import SkewWatch

BLOCKED = int(Flag.BLOCKED)


class LoginDecision(Protocol):
    """Admission control, as far as it turns publishers away."""

    @property
    def refuses(self) -> bool: ...

    def newcomer(self) -> TidingsError | None:
        """The reason why a connection may not begin to publish; None: it may."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Values announced to clients, and limits that apply to them, when they log in."""

    publishers: Iterator[int]  # numbers of publishers, none twice
    name: str = "tidings"
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    open: bool = True  # no users are configured: every client has full access
    admission: LoginDecision | None = None


@dataclass(slots=True, eq=False)
class ClientSession:
    """One client connection."""

    connection: int
    session: ProtocolSession
    address: str
    user: str = ""
    logged_in: bool = False
    closing: bool = False  # once its output is written
    skew: SkewWatch | None = None  # of a client that gives its messages their times
    actions: dict[int, Action] = field(default_factory=dict)  # administrative ones under way, by receipt


class ClientNode(Protocol):
    """The node as far as clients' sessions need it."""

    connections: dict[int, Connection]
    accounts: UserAccounts

    def connected(self, connection: int, principal: Principal, client_id: str) -> None: ...

    def published_by(self, now_ms: int, connection: int, number: int, address: str) -> None: ...

    def asked(self, now_ms: int, connection: int, request: Request) -> None: ...

    def lost(self, connection: int) -> None: ...


class ClientSessions:
    """`asked`: let the node finish a request. `turn`: let it finish all that was asked of it so far."""

    def __init__(
        self,
        plane: Forwarder,
        node: ClientNode,
        settings: NodeSettings,
        options: ClientOptions,
        clocks: ClientClocks,
        out: list[Effect],
        asked: Callable[[Now, Request], None],
        turn: Callable[[Now], None],
    ) -> None:
        self.by_connection: dict[int, ClientSession] = {}
        self.per_user: Counter[str] = Counter()
        self.protocol_errors: Counter[str] = Counter()  # by code
        self.refused = 0  # because there were too many
        self._plane, self._node, self._settings, self._options = plane, node, settings, options
        self._clocks, self._out, self._asked, self._turn = clocks, out, asked, turn
        self._limits, self._open = options.limits, options.open

    def configure(self, limits: BrokerLimits, *, open: bool) -> None:
        self._limits, self._open = limits, open

    # --- from the client ------------------------------------------------------------------------------------------

    def opened(self, connection: int, session: ProtocolSession, address: str) -> None:
        self.by_connection[connection] = ClientSession(connection, session, address)
        session.opened(self._plane, connection)

    def control(self, now: Now, client: ClientSession, frame: ControlFrame) -> None:
        """A frame for the protocol's session; parsing goes on when it is dealt with."""
        try:
            received = client.session.receive(frame.type, frame.flags, frame.session, frame.payload)
        except TidingsError as error:
            self.fail(now, client, error)
            return
        match received:
            case Hello():
                self._out.append(LogIn(client.connection, received))
                return
            case Inspect():
                self._out.append(Inspection(client.connection, received))
                return
            case Bye():
                self.close(now, client)
                return
            case Ping():
                self._plane.send(client.connection, client.session.pong())
            case Clock(number):
                self._confirm_clock(now, client, number)
            case Invalid(receipt, wrong):
                self.answer(now, client, Failed(receipt, wrong))
            case None:
                pass
            case tuple():
                for request in received:
                    self.request(now, client, request)
            case _:
                self.request(now, client, received)
        self.go_on(now, client)

    def request(self, now: Now, client: ClientSession, request: Request) -> None:
        if (action := action_of(request)) is not None:
            client.actions[getattr(request, "receipt", 0)] = action
        self._node.asked(now.wall_ms, client.connection, request)
        self._asked(now, request)

    def go_on(self, now: Now, client: ClientSession) -> None:
        """Continue parsing: the frame at which it stopped has been handled."""
        if not client.closing and not self._plane.handled(client.connection, now.wall_ms) & BLOCKED:
            self._out.append(ResumeReading(client.connection))

    def check_publish(self, now: Now, client: ClientSession, check: PublishCheck) -> None:
        """Check the permission to publish there; called once for each destination."""
        connection = self._node.connections[client.connection]
        principal = connection.principal
        destination = f"{'queue' if check.queue else 'topic'}:{check.destination}"
        error: TidingsError | None = SecurityError("E_FORBIDDEN", f"{principal.name} may not publish to {destination}")
        if principal.may("publish", destination):
            admission = self._options.admission
            error = None if admission is None else admission.newcomer()
        if error is None:
            self._plane.allow(client.connection, destination)
        else:
            connection.spoil(check.session, error)
            self.answer(now, client, Refused(check.receipt, error) if check.receipt else Failed(0, error))
            if not client.closing:  # STOMP's answer is the last thing said
                self._plane.skip(client.connection)
        self.go_on(now, client)

    # --- login ----------------------------------------------------------------------------------------------------

    def logged_in(self, now: Now, client: ClientSession, login: LoggedIn) -> None:
        user, client_id, limits = login.principal.name, login.hello.client_id, self._limits
        if not self._open:
            if self.per_user[user] >= self._node.accounts.connections_max(user, limits.connections_per_user_max):
                self.refuse(now, client, "too many connections of this user")
                return
            # Clients choose their ids. What one user keeps here must not be another's for the asking.
            client_id = f"{user}/{client_id}"
            self._node.accounts.connected(now.steady_ms, client.connection, user)
        client.logged_in, client.user = True, user
        self.per_user[user] += 1
        silence_ms, beat_ms = client.session.heartbeats(login.hello, limits.heartbeat_ms)
        self._out.append(ClientReady(client.connection, user, silence_ms, beat_ms))
        self._node.connected(client.connection, login.principal, client_id)
        admission = self._options.admission
        asks = not self._open or (admission is not None and admission.refuses)
        self._plane.log_in(client.connection, limits.frame_bytes_max, asks)
        client.skew, delta_ms = self._clocks.watch(client.connection, client.session, login.hello, now.wall_ms)
        publisher = next(self._options.publishers)
        self._node.published_by(now.wall_ms, client.connection, publisher, client.address)
        welcome = client.session.welcome(
            {
                "server": self._options.name,
                "broker": self._settings.broker_id,
                "publisher": publisher,
                "time_ms": now.wall_ms,
                "delta_ms": delta_ms,
                "frame_max": limits.frame_bytes_max,
                "heartbeat_ms": silence_ms,
                "brokers": ",".join(self._settings.alternatives),
                "subscriptions_max": self._settings.subscriptions_max,
                "token": login.token,
            }
        )
        self._plane.send(client.connection, welcome)
        self.go_on(now, client)

    def clock_drift(self, now: Now, client: ClientSession, sent_ms: int) -> None:
        """A message came with a time that is off by more than T_s: tell the client, once until it confirms."""
        assert client.skew is not None
        self._clocks.correct(client.connection, client.session, client.skew, sent_ms, now.wall_ms)

    def _confirm_clock(self, now: Now, client: ClientSession, number: int) -> None:
        try:
            self._clocks.confirmed(client.connection, client.skew, number)
        except RemoteProtocolError as error:
            self.fail(now, client, error)

    # --- to the client --------------------------------------------------------------------------------------------

    def answer(self, now: Now, client: ClientSession, answer: Answer) -> None:
        if client.closing and client.session.ended:
            return
        if isinstance(answer, Accepted):
            self._plane.confirm(client.connection, answer.receipts)
            return
        self._audit(client, answer)
        if data := client.session.answer(answer):
            self._plane.send(client.connection, data)
        if client.session.ended:
            self.close(now, client, linger=True)

    def _audit(self, client: ClientSession, answer: Done | Failed | Refused) -> None:
        who, error = (client.user, client.address, client.session.name), getattr(answer, "error", None)
        if error is not None and error.code == "E_FORBIDDEN":
            client.actions.pop(answer.receipt, None)
            self._out.append(AuditRefusal(*who, error.reason))
        elif client.actions and (action := client.actions.pop(answer.receipt, None)) is not None:
            self._out.append(AuditAction(*who, *action, "" if error is None else error.code))

    def dropped(self, client: ClientSession, subscription: int, count: int, reason: str) -> None:
        """Messages of a subscription were dropped; some protocols have no place for that."""
        if not client.closing and (data := client.session.dropped(subscription, count, reason)):
            self._plane.send(client.connection, data)

    def ping(self, client: ClientSession) -> None:
        if not client.closing:
            self._plane.send(client.connection, client.session.ping())

    def refuse(self, now: Now, client: ClientSession, reason: str) -> None:
        self.refused += 1
        error = LimitError("E_CONNECTIONS", reason, fatal=True)
        self._plane.send(client.connection, client.session.error(error))
        self.close(now, client)

    def fail(self, now: Now, client: ClientSession, error: TidingsError, receipt: int = 0) -> None:
        """The client broke the protocol, or a rule: say why, and close."""
        fatal = RemoteProtocolError(error.code, error.reason, position=error.position)
        if not isinstance(error, SecurityError):
            self.protocol_errors[error.code] += 1
            self._out.append(Log("INFO", "protocol error", {"address": client.address, "error": error}))
        self._plane.send(client.connection, client.session.error(fatal, receipt))
        self.close(now, client, linger=True)

    def end(self, now: Now, client: ClientSession, code: str, reason: str) -> None:
        if client.closing:
            return
        self._plane.send(client.connection, client.session.close(code, reason))
        self.close(now, client)

    def close(self, now: Now, client: ClientSession, *, linger: bool = False) -> None:
        """Close after what is in its output, to which nothing is added now."""
        if client.closing:
            return
        client.closing = True
        if linger:
            self._plane.ignore(client.connection)
        self._out.append(CloseClient(client.connection, linger))
        self._node.lost(client.connection)
        self._turn(now)

    def lost(self, now: Now, connection: int) -> None:
        """Its socket is gone."""
        self._node.accounts.lost(now.steady_ms, connection)
        client = self.by_connection.pop(connection, None)
        if client is None:
            return
        if client.logged_in:
            self.per_user[client.user] -= 1
            if not self.per_user[client.user]:
                del self.per_user[client.user]
        self._node.lost(connection)
