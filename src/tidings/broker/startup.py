"""Reads and checks the command line and the files of a broker before anything is opened."""

import logging
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

from tidings.broker.config import broker_id, peer_changes
from tidings.broker.config import load as config
from tidings.broker.config.installed_packages import check_installed
from tidings.broker.config.joining import joining
from tidings.broker.config.locations import with_lines
from tidings.broker.config.network import PeerTable, peers_of
from tidings.broker.config.tables import Configuration
from tidings.broker.links.links import Peers
from tidings.broker.logs import note
from tidings.broker.security import users
from tidings.broker.security.access import AccessRules
from tidings.broker.security.exposure_check import check_exposure, note_exposure
from tidings.broker.security.guard import Guard, OpenGuard
from tidings.broker.security.jwt_login import JwtVerifier
from tidings.broker.security.login_tokens import LoginTokens
from tidings.broker.security.tls import server_context
from tidings.broker.security.user_guard import UserGuard
from tidings.errors import ConfigError

log = logging.getLogger("tidings.process")


@dataclass(frozen=True, slots=True)
class StartupOptions:
    """Options of the command line, which override the file."""

    config: Path | None = None
    data: str | None = None
    port: int | None = None  # of the first listener, and without a file the only one
    join: str | None = None  # host:port of a broker whose network this one joins; empty: it begins one
    routing: str = ""  # with `join`: the scheme of that network
    metrics_port: int | None = None  # of the page with metrics and health
    standby: bool = False  # as `store.standby`


@dataclass(frozen=True, slots=True)
class Startup:
    """Checked configuration, users, rules and certificates, ready to be used."""

    configuration: Configuration
    rules: AccessRules
    users: users.Users | None  # None: there is no users file
    jwt: JwtVerifier | None  # None: there are no logins by token
    tls: ssl.SSLContext | None
    peers: Peers | None  # None: the broker has no network
    drawn: bool  # the broker has a new number that must still be written
    file_peers: tuple[PeerTable, ...]  # of the network, as the file names them, without changes of operators

    def guard(self) -> Guard:
        """The guard for these users; logs unsafe settings."""
        if self.users is None:
            note(log, logging.WARNING, "no users configured: every client has full access")
            return OpenGuard()
        note_exposure(self.configuration)
        tokens = LoginTokens.kept_in(Path(self.configuration.broker.data))
        return UserGuard(self.users, self.rules, self.configuration.limits_of(), tokens=tokens, jwt=self.jwt)


def prepare(options: StartupOptions, protocols: tuple[str, ...]) -> Startup:
    """Read and check the files; a ConfigError lists every problem."""
    configuration = config.load(options.config, protocols=protocols)
    with with_lines(options.config):
        return _checked(options, configuration)


def _checked(options: StartupOptions, configuration: Configuration) -> Startup:
    if options.data is not None:
        configuration = replace(configuration, broker=replace(configuration.broker, data=options.data))
    if options.port is not None:
        first, *others = configuration.listeners
        if options.config is None:
            others = []  # two brokers on one machine must not need a file
        configuration = replace(configuration, listeners=(replace(first, port=options.port), *others))
    if options.join is not None:
        configuration = joining(configuration, options.join, bare=options.config is None, routing=options.routing)
    if options.metrics_port is not None:
        metrics, console = replace(configuration.metrics, port=options.metrics_port), configuration.console
        if configuration.pages_share_port:
            console = replace(console, port=options.metrics_port)
        configuration = replace(configuration, metrics=metrics, console=console)
    if options.standby:
        configuration = replace(configuration, store=replace(configuration.store, standby=True))
    check_installed(configuration)
    configuration, drawn = broker_id.numbered(configuration)
    if configuration.users.file and configuration.users_file.is_dir():
        raise ConfigError([f"users.file: {configuration.users_file} is a directory; name a file"])
    has_users = configuration.users_file.exists() or bool(configuration.users.file)
    known = users.load(configuration.users_file) if has_users else None
    jwt = JwtVerifier(configuration.jwt) if configuration.jwt.keys else None
    if jwt is not None and known is None:
        known = users.Users({})
    check_exposure(configuration, known, str(options.config or "the defaults"))
    tls = server_context(configuration.tls) if configuration.encrypts else None
    file_peers = configuration.network.peers
    configuration = _with_changed_peers(configuration)
    peers = peers_of(configuration.network, configuration.broker.id)
    return Startup(configuration, AccessRules.of(configuration.access), known, jwt, tls, peers, drawn, file_peers)


def _with_changed_peers(configuration: Configuration) -> Configuration:
    network = configuration.network
    if not network.name or network.overlay == "pan":
        return configuration
    applied = peer_changes.load(Path(configuration.broker.data)).applied(network.peers)
    return replace(configuration, network=replace(network, peers=applied))
