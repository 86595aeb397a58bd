"""A broker as a process: start, signals, reload, shutdown.

    SIGTERM, SIGINT   take nothing more, finish what is under way, end; a second one ends at once
    SIGHUP            read configuration, users and certificates again; what is wrong with them changes nothing

Ending at once is safe: whatever was confirmed as persistent is on disk by then. Exit status: 0 ended as asked,
1 failed, 2 configured wrongly.
"""

import asyncio
import errno
import logging
import os
import resource
import signal
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import uvloop

from tidings.broker import config, logs, own_number, users
from tidings.broker.access import Rules
from tidings.broker.config_changes import changes
from tidings.broker.config_network import peers_of
from tidings.broker.config_places import placed
from tidings.broker.config_rules import exposed, is_loopback
from tidings.broker.config_tables import Configuration, ConsoleTable, ListenerTable, type_rules
from tidings.broker.console_child import ConsoleChild, command
from tidings.broker.garbage import search_seldom
from tidings.broker.guard import Guard, OpenGuard
from tidings.broker.http_endpoint import HttpEndpoint, Page
from tidings.broker.joining import joining
from tidings.broker.links import BrokerLinks
from tidings.broker.listening import Listener
from tidings.broker.logs import note
from tidings.broker.metrics import Metrics
from tidings.broker.network_status import network_page
from tidings.broker.observing import Observer, watch
from tidings.broker.peers import Peers
from tidings.broker.server import Broker
from tidings.broker.session import Caller, Gateway, Layer, Session
from tidings.broker.sqlite_store import SqliteStore
from tidings.broker.tasks import Tasks
from tidings.broker.tls import server_context
from tidings.broker.tracking_thread import TrackingOptions
from tidings.broker.user_guard import UserGuard
from tidings.errors import ConfigError, TidingsError

log = logging.getLogger("tidings.process")
STOP_SECONDS = 15.0
CONSOLE_LEAVES_SECONDS = 5.0  # that of a broker which was killed here ends a moment after it
STORE = "messages.db"

Sessions: TypeAlias = Mapping[str, Callable[[], Session]]  # by the name of the protocol
Layers: TypeAlias = Mapping[str, Callable[[tuple[str, ...]], Layer]]  # those with frames around it; takes origins
Gateways: TypeAlias = Mapping[str, Callable[[Configuration], Callable[[Caller], Gateway]]]  # those that are translated


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says; it overrides the file."""

    config: Path | None = None
    data: str | None = None
    port: int | None = None  # of the first listener, and without a file the only one
    join: str | None = None  # host:port of a broker whose network this one joins; empty: it begins one
    routing: str = ""  # with `join`: the scheme of that network


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that can be wrong, checked and ready to be used."""

    configuration: Configuration
    rules: Rules
    users: users.Users | None  # None: there is no users file
    tls: ssl.SSLContext | None
    peers: Peers | None  # None: the broker stands alone
    drawn: bool  # whether the broker has a number that is to be kept, and is not yet


def prepare(options: Options, protocols: tuple[str, ...]) -> Prepared:
    """Read the files; a ConfigError if anything in them will not do."""
    configuration = config.load(options.config, protocols=protocols)
    with _lines(options.config):
        return _prepared(options, configuration)


@contextmanager
def _lines(file: Path | None) -> Iterator[None]:
    """What is found wrong inside, after the configuration was read, is told with the line that it is about."""
    try:
        yield
    except ConfigError as error:
        if file is None:
            raise
        raise ConfigError(placed(error.problems, str(file), file.read_text(encoding="utf-8-sig"))) from None


def _prepared(options: Options, configuration: Configuration) -> Prepared:
    if options.data is not None:
        configuration = replace(configuration, broker=replace(configuration.broker, data=options.data))
    if options.port is not None:
        first, *others = configuration.listeners
        if options.config is None:
            others = []  # two brokers on one machine must not need a file
        configuration = replace(configuration, listeners=(replace(first, port=options.port), *others))
    if options.join is not None:
        configuration = joining(configuration, options.join, bare=options.config is None, routing=options.routing)
    configuration, drawn = own_number.numbered(configuration)
    if configuration.users.file and configuration.users_file.is_dir():
        raise ConfigError([f"users.file: {configuration.users_file} is a directory; name a file"])
    there = configuration.users_file.exists() or bool(configuration.users.file)
    known = users.load(configuration.users_file) if there else None
    _check_exposure(configuration, known, str(options.config or "the defaults"))
    tls = server_context(configuration.tls) if configuration.encrypts else None
    peers = peers_of(configuration.network, configuration.broker.id)
    return Prepared(configuration, Rules.of(configuration.access), known, tls, peers, drawn)


def _check_exposure(configuration: Configuration, known: users.Users | None, name: str) -> None:
    """Nobody becomes reachable for everybody by accident."""
    if known is not None:
        return
    problems = []
    remedy = f"add one: tidings user add NAME --file {configuration.users_file}"
    if configuration.access:
        problems.append(f"{name}: access: there are rules but no users; {remedy}")
    if configuration.tls.client_ca:
        problems.append(f"{name}: tls.client_ca: certificates name users, and there are none; {remedy}")
    if not configuration.users.allow_anonymous:
        if configuration.console.enabled and not is_loopback(configuration.console.host):
            host = configuration.console.host
            problems.append(f"{name}: console.host: {host} can be reached from other machines, with no users; {remedy}")
        problems += [
            f"{name}: listeners: {listener.host} can be reached from other machines and there are no users; "
            f"{remedy}, or write allow_anonymous = true in [users]"
            for listener in exposed(configuration)
        ]
    if problems:
        raise ConfigError(problems)


class Process:
    def __init__(
        self,
        options: Options,
        sessions: Sessions,
        make_observer: Callable[[], Observer] | None = None,
        layers: Layers | None = None,
        gateways: Gateways | None = None,
    ) -> None:
        self._options = options
        self._layers = layers or {}
        self._gateways = gateways or {}
        self._make_observer = make_observer
        self._sessions = sessions
        self._prepared = prepare(options, tuple(sessions))
        self._stop = asyncio.Event()
        self._signals = 0
        self._reloading = asyncio.Lock()
        self._tasks = Tasks()
        self._console: ConsoleChild | None = None
        self._front: HttpEndpoint | None = None  # at the address of metrics and console, while there is no console

    @property
    def configuration(self) -> Configuration:
        return self._prepared.configuration

    async def run(self) -> int:
        """From start to end; returns the exit status."""
        configuration = self.configuration
        self._broker = Broker(
            configuration.settings(),
            self._open_store(),
            guard=self._guard(),
            limits=configuration.limits_of(),
            name=configuration.broker.name,
            peers=self._prepared.peers,
            tracking=self._tracking(),
        )
        self._broker.forwarder.stomp_types(type_rules(configuration.types))
        self._broker.admission = configuration.admission.admission()
        observed = configuration.metrics.capacity or self._broker.admission is not None
        observer = self._make_observer() if self._make_observer and observed else None
        self._broker.observer = observer
        metrics = Metrics(self._broker, observer)
        network = partial(network_page, self._broker)
        pages: dict[str, Callable[[], Page]] = {
            "/metrics": metrics.metrics,
            "/health": metrics.health,
            "/network": network,
        }
        seen = {path: self._broker.aside.doing(page) for path, page in pages.items()}
        self._endpoint = HttpEndpoint(seen, self._broker.handshakes.failed)
        try:
            metrics_port = 0
            if configuration.metrics.enabled:
                metrics_port = await self._start_metrics(seen)
            self._watch_signals()
            await self._broker.start(self._listeners())
            search_seldom()
            self._note_network()
            if observer is not None:
                self._tasks.spawn(watch(self._broker, observer))
            if configuration.console.enabled:
                self._console = ConsoleChild(self._console_command(metrics_port), self._console_pair(), self._front)
                self._console.start()
            note(log, logging.INFO, "ready", broker=configuration.broker.name, pid=os.getpid())
            await self._stop.wait()
        finally:
            ended = await self._end()
        return 0 if ended else 1

    async def _start_metrics(self, pages: Mapping[str, Callable[[], Page]]) -> int:
        """Returns the port of `_endpoint`. If a console has the same address it fetches the pages from there."""
        table = self.configuration.metrics
        tls = self._prepared.tls if table.tls else None
        if self.configuration.pages_share_port:
            waiting = Page("the console is not up: try again in a moment\n", status=503)
            self._front = HttpEndpoint({**pages, "/": lambda: waiting}, self._broker.handshakes.failed)
            patience = CONSOLE_LEAVES_SECONDS
            shown = await self._front.start(table.host, table.port, tls, patience_seconds=patience)
            port = await self._endpoint.start("127.0.0.1", 0)
        else:
            shown = port = await self._endpoint.start(table.host, table.port, tls)
        note(log, logging.INFO, "metrics", host=table.host, port=shown, tls=tls is not None)
        return port

    def _console_pair(self) -> tuple[str, str] | None:
        tls = self.configuration.tls
        return (tls.certificate, tls.key) if self.configuration.console.tls else None

    def _console_command(self, metrics_port: int) -> list[str]:
        configuration = self.configuration
        plain = (one for one in self._broker.listening if one.listener.protocol == "native" and not one.listener.tls)
        listening = next(plain)
        host = listening.listener.host
        reached = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return command(
            f"tidings://{reached}:{listening.port}",
            configuration.console.host,
            configuration.console.port,
            configuration.console.names,
            metrics=f"127.0.0.1:{metrics_port}" if configuration.pages_share_port and metrics_port else "",
            anonymous=self._prepared.users is not None or configuration.users.allow_anonymous,
        )

    async def _end(self) -> bool:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._tasks.cancel()
                if self._console is not None:
                    await self._console.stop()
                await self._broker.stop()
                await self._endpoint.stop()
                if self._front is not None:
                    await self._front.stop()
        except TimeoutError:
            note(log, logging.ERROR, "not stopped in time", seconds=STOP_SECONDS)
            return False
        note(log, logging.INFO, "stopped")
        return True

    def _open_store(self) -> SqliteStore:
        data = Path(self.configuration.broker.data)
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            problem = f"broker.data: {data} cannot be made ({error.strerror}); name a directory that can"
            with _lines(self._options.config):
                raise ConfigError([problem]) from None
        store = SqliteStore(data / STORE)
        if self._prepared.drawn:
            self._keep_number(data, store)
        return store

    def _keep_number(self, data: Path, store: SqliteStore) -> None:
        try:
            own_number.keep(data, self.configuration.broker.id)
        except ConfigError:
            store.close()
            raise

    def _tracking(self) -> TrackingOptions:
        table = self.configuration.tracking
        judgement = table.judgement()
        if judgement is not None and judgement.problem:
            note(log, logging.WARNING, "tracking is less accurate than wanted", reason=judgement.problem)
        return table.options(Path(self.configuration.broker.data))

    def _guard(self) -> Guard:
        prepared = self._prepared
        if prepared.users is None:
            note(log, logging.WARNING, "no users: everybody who can connect may do everything")
            return OpenGuard()
        file = prepared.configuration.users_file
        if file.stat().st_mode & 0o077:
            note(log, logging.WARNING, "others can read the users file: chmod 600 it", file=file)
        console = prepared.configuration.console
        pages = [console] if console.enabled and not is_loopback(console.host) else []
        reached: list[ListenerTable | ConsoleTable] = [*exposed(prepared.configuration), *pages]
        for one in reached:
            if not one.tls:
                where = f"{one.host}:{one.port}"
                note(log, logging.WARNING, "passwords and messages can be read on their way: no TLS", listener=where)
        return UserGuard(prepared.users, prepared.rules, prepared.configuration.limits_of())

    def _listeners(self) -> list[Listener]:
        return [
            Listener(
                self._sessions[table.protocol],
                table.host,
                table.port,
                self._prepared.tls if table.tls else None,
                partial(self._layers[table.protocol], table.origins) if table.protocol in self._layers else None,
                self._gateways[table.protocol](self.configuration) if table.protocol in self._gateways else None,
                table.protocol,
            )
            for table in self.configuration.listeners
        ]

    def _note_network(self) -> None:
        table, links = self.configuration.network, self._broker.links
        if not isinstance(links, BrokerLinks):
            return
        if table.accept:
            note(log, logging.INFO, "links", network=table.name, host=table.host, port=links.port)
        if table.secret_file and Path(table.secret_file).stat().st_mode & 0o077:
            note(log, logging.WARNING, "others can read the network's secret: chmod 600 it", file=table.secret_file)
        if table.insecure:
            note(log, logging.WARNING, "links are open to everybody who can reach them: insecure = true")

    # --- signals --------------------------------------------------------------------------------------------------

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._asked_to_reload)

    def _asked_to_stop(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals > 1:
            note(log, logging.WARNING, "stopped by force", signal=number.name)
            os._exit(1)
        note(log, logging.INFO, "stopping", signal=number.name)
        self._stop.set()

    def _asked_to_reload(self) -> None:
        self._tasks.spawn(self.reload())

    async def reload(self) -> None:
        """All of it or, if anything is wrong, nothing."""
        async with self._reloading:
            try:
                new = await asyncio.to_thread(prepare, self._options, tuple(self._sessions))
                if new.users is None and self._prepared.users is not None:
                    gone = self.configuration.users_file
                    raise ConfigError([f"{gone}: the users file is gone; put it back, or restart without users"])
            except ConfigError as error:
                for problem in error.problems:
                    note(log, logging.ERROR, "not reloaded", problem=problem)
                return
            old, self._prepared = self._prepared, new
            await self._apply(old, new)

    async def _apply(self, old: Prepared, new: Prepared) -> None:
        configuration = new.configuration
        for changed, at_once in changes(old.configuration, configuration):
            if at_once:
                note(log, logging.INFO, "changed", key=changed)
            else:
                note(log, logging.WARNING, "a restart is needed for this change", key=changed)
        logs.set_up(configuration.logging.level, as_json=configuration.logging.json)
        self._broker.limits = configuration.limits_of()
        self._broker.forwarder.stomp_types(type_rules(configuration.types))
        self._renew_certificates(new)
        guard, ended = self._broker.guard, 0
        if isinstance(guard, UserGuard) and new.users is not None:
            guard.limit(self._broker.limits)
            affected = guard.replace(new.users, new.rules)
            ended = self._broker.end_connections(affected, "E_ACCESS_CHANGED", "what you may do has changed")
        elif new.users is not None:
            self._broker.guard = self._guard()
            ended = self._broker.end_connections(None, "E_ACCESS_CHANGED", "log in: this broker has users now")
        known = 0 if new.users is None else len(new.users)
        note(log, logging.INFO, "reloaded", users=known, connections_ended=ended, tls=new.tls is not None)

    def _renew_certificates(self, new: Prepared) -> None:
        """For all who connect from now on. Who has no TLS does not get it by this: that takes a restart."""
        if new.tls is not None:
            self._broker.renew_tls(new.tls)
            self._endpoint.renew(new.tls)
            if self._front is not None:
                self._front.renew(new.tls)
        if self._console is not None and (pair := self._console_pair()) is not None:
            self._console.renew(pair)
        if isinstance(self._broker.links, BrokerLinks) and new.peers is not None:
            self._broker.links.renew(new.peers.links)


def run(
    options: Options,
    sessions: Sessions,
    make_observer: Callable[[], Observer] | None = None,
    layers: Layers | None = None,
    gateways: Gateways | None = None,
) -> int:
    """Run a broker until a signal ends it."""
    logs.set_up("info", as_json=False)

    async def main() -> int:
        process = Process(options, sessions, make_observer, layers, gateways)
        table = process.configuration.logging
        logs.set_up(table.level, as_json=table.json)
        return await process.run()

    _raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    except ConfigError as error:
        print("\n".join(error.problems), file=sys.stderr)  # noqa: T201
        return 2
    except TidingsError as error:
        note(log, logging.ERROR, "the broker cannot run", code=error.code, reason=error.reason + _remedy(error))
        return 1
    except OSError as error:
        if not (remedy := _remedy(error)):
            raise
        note(log, logging.ERROR, "the broker cannot run", code="E_FILES", reason=f"{error}{remedy}")
        return 1


def _remedy(error: BaseException | None) -> str:
    """What helps if files were too many, wherever that was noticed."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return f"; this process may open {limit} files: allow more (ulimit -n, or LimitNOFILE in systemd)"
        error = error.__cause__ or error.__context__
    return ""


def _raise_file_limit() -> None:
    """Each connection takes a file descriptor; the usual soft limit of 1024 is far too low."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
