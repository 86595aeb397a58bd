"""A broker as a process: start, signals, reload, shutdown.

    SIGTERM, SIGINT   stop accepting, finish pending work and exit; a second one exits at once
    SIGHUP            reload configuration, users and certificates; if one of them is invalid, nothing changes

Exiting at once is safe: every message confirmed as persistent is on disk by then. Exit status: 0 ended by a signal,
1 failed, 2 invalid configuration.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import uvloop

from tidings.broker import logs
from tidings.broker.config import broker_id
from tidings.broker.config.changes import changes
from tidings.broker.config.locations import with_lines
from tidings.broker.config.policies import policies_of
from tidings.broker.config.quotas import quotas_of
from tidings.broker.config.tables import Configuration, ListenerTable, type_rules
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.connections.file_limit import raise_file_limit, remedy
from tidings.broker.http.http_pages import HttpPages
from tidings.broker.http.server import HttpHandler
from tidings.broker.links.links import BrokerLinks
from tidings.broker.logs import note
from tidings.broker.management.api import ManagementApi
from tidings.broker.management.call import BrokerControl
from tidings.broker.management.operations import JAEGER, PREFIX
from tidings.broker.membership import Membership
from tidings.broker.security.audit import open_audit
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.server import Broker
from tidings.broker.startup import Startup, StartupOptions, prepare
from tidings.broker.store_place import store_place
from tidings.broker.tasks import Tasks
from tidings.broker.tenure import Role, StandbyPages, end_if_lost, is_free, wait_for
from tidings.broker.tracking_thread import TrackingOptions
from tidings.broker.tuning.capacity_observer import Observer, watch
from tidings.broker.tuning.gc_tuning import collect_seldom
from tidings.delivery.store import Store
from tidings.errors import ConfigError, StoreError, TidingsError, UsageError
from tidings.kernel.heap import keep_large_blocks
from tidings.node.protocol_session import ProtocolSession
from tidings.protocols.session import Caller, Gateway, Layer
from tidings.store.sqlite.store import SqliteStore

log = logging.getLogger("tidings.process")
STOP_SECONDS = 15.0
SWITCHED = 75  # status of `run` after a switch-over: the process is to start again
ANSWER_SECONDS = 0.05  # for the answer to who asked for a switch-over
MOVE_SECONDS = 0.2  # for clients to leave at a switch-over
GRACE_SECONDS = 1.0  # for the standby to take over, before the one that handed over starts again

Sessions: TypeAlias = Mapping[str, Callable[[], ProtocolSession]]  # by the name of the protocol
Layers: TypeAlias = Mapping[str, Callable[[tuple[str, ...]], Layer]]  # those with frames around it; takes origins
# Those that are translated.
Gateways: TypeAlias = Mapping[str, Callable[[Configuration, ListenerTable], Callable[[Caller], Gateway]]]


class BrokerMain:
    def __init__(
        self,
        options: StartupOptions,
        sessions: Sessions,
        make_observer: Callable[[], Observer | None] | None = None,
        layers: Layers | None = None,
        gateways: Gateways | None = None,
    ) -> None:
        self._options = options
        self._layers = layers or {}
        self._gateways = gateways or {}
        self._make_observer = make_observer
        self._sessions = sessions
        self._startup = prepare(options, tuple(sessions))
        self._stop = asyncio.Event()
        self._signals = 0
        self._reloading = asyncio.Lock()
        self._tasks = Tasks()
        self._role, self._switching = Role.SINGLE, False

    @property
    def configuration(self) -> Configuration:
        return self._startup.configuration

    async def run(self) -> int:
        """Start, serve and stop; returns the exit status."""
        keep_large_blocks()  # the process is the broker's alone
        if not await self._begin_tenure():
            return 0
        return await self._serve()

    async def _serve(self) -> int:
        configuration = self.configuration
        self._broker = Broker(
            configuration.settings(),
            self._open_store(),
            guard=self._startup.guard(),
            limits=configuration.limits_of(),
            name=configuration.broker.name,
            peers=self._startup.peers,
            tracking=self._tracking(),
            admission=configuration.admission.admission(),
            tuning=configuration.tuning,
        )
        open_audit(configuration.logging.audit)
        self._broker.role = self._role.value
        self._broker.forwarder.stomp_types(type_rules(configuration.types))
        observed = configuration.metrics.capacity or self._broker.admission is not None
        observer = self._make_observer() if self._make_observer and observed else None
        self._broker.observer = observer
        self._pages = HttpPages(self._broker, self._management())
        try:
            await self._pages.start(self._startup)
            if self._role is Role.SINGLE:
                self._watch_signals()
            await self._broker.start(self._listeners())
            if configuration.tuning.rare_garbage_collection:
                collect_seldom()
            self._note_network()
            if observer is not None:
                broker = self._broker
                self._tasks.spawn(watch(observer, broker.counting(), broker.admission))
            self._pages.start_console(self._startup)
            note(log, logging.INFO, "ready", broker=configuration.broker.name, pid=os.getpid())
            await self._stop.wait()
        finally:
            ended = await self._end()
        return SWITCHED if ended and self._switching else 0 if ended else 1

    # --- the lease ------------------------------------------------------------------------------------------------

    async def _begin_tenure(self) -> bool:
        """Acquire the lease of the store; False: the process was asked to end while it waited for it."""
        self._data()
        self._place = store_place(self.configuration)
        self._lease = self._place.lease()
        if not self.configuration.store.standby:
            if not await asyncio.to_thread(self._lease.acquire):
                raise StoreError("E_STORE_LOCKED", f"{self._place.name} is in use by another process")
        elif not await self._stand_by():
            return False
        end_if_lost(self._lease)
        return True

    async def _stand_by(self) -> bool:
        self._watch_signals()
        self._role = Role.STANDBY
        if not await is_free(self._lease):
            pages = StandbyPages(self.configuration.broker.name)
            await pages.start(self.configuration.metrics, self._startup)
            note(log, logging.INFO, "standing by", broker=self.configuration.broker.name, pid=os.getpid())
            try:
                if not await wait_for(self._lease, self._stop):
                    note(log, logging.INFO, "stopped")
                    return False
            finally:
                await pages.stop()
            note(log, logging.INFO, "taking over", epoch=self._lease.epoch)
            self._startup = await self._prepare()  # users, peers and the rest may have changed since
        self._role = Role.ACTIVE
        return True

    def switch_over(self) -> None:
        """Finish what is written, and let a standby have the lease; this process starts again as a standby."""
        if self._role is not Role.ACTIVE:
            reason = "this broker has no standby: start its processes with [store] standby = true"
            raise UsageError("E_NO_STANDBY", reason)
        note(log, logging.INFO, "switching over")
        self._switching = True
        asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._stop.set)

    async def _end(self) -> bool:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._tasks.cancel()
                await self._pages.stop_console()
                if self._switching:
                    reason = "a standby of this broker takes over: connect again"
                    await self._broker.stop("E_MOVED", reason, patience_seconds=MOVE_SECONDS)
                else:
                    await self._broker.stop()
                await self._pages.stop()
        except TimeoutError:
            note(log, logging.ERROR, "shutdown did not finish in time", seconds=STOP_SECONDS)
            return False
        self._lease.release()
        note(log, logging.INFO, "switched over" if self._switching else "stopped")
        return True

    def _management(self) -> dict[str, HttpHandler]:
        broker = self._broker
        if not self.configuration.metrics.api:
            return {}
        membership = Membership(broker, lambda: self._startup, self._apply_peers, self._stop.set)
        control = BrokerControl(
            broker.view,
            lambda: broker.login.guard,
            self.check,
            self.reload,
            membership,
            broker.login.audit,
            self.switch_over,
            self._back_up,
        )
        answer = ManagementApi(broker.management, control).answer
        return {f"{PREFIX}/": answer, f"{JAEGER}/traces/": answer}

    async def _back_up(self, name: str) -> Path:
        if not isinstance(self._store, SqliteStore):
            reason = f"messages are in {self._place.name}; back up the database with PostgreSQL's own programs"
            raise UsageError("E_BACKUP_STORE", reason)
        folder = self._data() / "backups"
        folder.mkdir(mode=0o700, exist_ok=True)
        await asyncio.to_thread(self._store.backup, folder / name)
        return folder / name

    def _data(self) -> Path:
        """The data directory, made if there is none."""
        data = Path(self.configuration.broker.data)
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            problem = f"broker.data: {data} cannot be created ({error.strerror}); name a directory that can"
            with with_lines(self._options.config):
                raise ConfigError([problem]) from None
        return data

    def _open_store(self) -> Store:
        self._store = store = self._place.open(self._lease)
        if self._startup.drawn:
            self._keep_broker_id(self._data(), store)
        return store

    def _keep_broker_id(self, data: Path, store: Store) -> None:
        try:
            broker_id.keep(data, self.configuration.broker.id)
        except ConfigError:
            store.close()
            raise

    def _tracking(self) -> TrackingOptions:
        table = self.configuration.tracking
        judgement = table.judgement()
        if judgement is not None and judgement.problem:
            note(log, logging.WARNING, "tracking is less accurate than configured", reason=judgement.problem)
        return replace(table.options(Path(self.configuration.broker.data)), tenure=self._lease.epoch)

    def _listeners(self) -> list[ListenerSettings]:
        return [
            ListenerSettings(
                self._sessions[table.protocol],
                table.host,
                table.port,
                self._startup.tls if table.tls else None,
                partial(self._layers[table.protocol], table.origins) if table.protocol in self._layers else None,
                self._gateways[table.protocol](self.configuration, table) if table.protocol in self._gateways else None,
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
            note(
                log,
                logging.WARNING,
                "the network's secret file is readable by other users; run chmod 600 on it",
                file=table.secret_file,
            )
        if table.insecure:
            note(log, logging.WARNING, "links accept any peer that can connect: insecure = true")

    # --- signals --------------------------------------------------------------------------------------------------

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_requested, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload_requested)

    def _stop_requested(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals > 1:
            note(log, logging.WARNING, "stopped immediately by a second signal", signal=number.name)
            os._exit(1)
        note(log, logging.INFO, "stopping", signal=number.name)
        self._stop.set()

    def _reload_requested(self) -> None:
        if self._role is Role.STANDBY:
            note(log, logging.INFO, "the configuration is read when this standby takes over")
        else:
            self._tasks.spawn(self._reload())

    async def _reload(self) -> None:
        await self.reload()

    async def _prepare(self) -> Startup:
        new = await asyncio.to_thread(prepare, self._options, tuple(self._sessions))
        if new.users is None and self._startup.users is not None:
            gone = self.configuration.users_file
            raise ConfigError([f"{gone}: the users file is missing; restore it, or restart without users"])
        return new

    async def check(self) -> list[str]:
        """The problems of the configuration files as they are now."""
        try:
            await self._prepare()
        except ConfigError as error:
            return error.problems
        return []

    async def reload(self) -> list[str]:
        """Apply the new configuration as a whole or, if anything in it is invalid, not at all; returns its problems."""
        async with self._reloading:
            try:
                new = await self._prepare()
                open_audit(new.configuration.logging.audit)
            except ConfigError as error:
                for problem in error.problems:
                    note(log, logging.ERROR, "configuration not reloaded", problem=problem)
                return error.problems
            old, self._startup = self._startup, new
            await self._apply(old, new)
            return []

    async def _apply_peers(self) -> None:
        """Let the peers of the files, and those that operators changed, take effect, and nothing else."""
        async with self._reloading:
            new, old = await self._prepare(), self._startup
            peers = new.configuration.network.peers
            network = replace(old.configuration.network, peers=peers)
            self._startup = replace(
                old, configuration=replace(old.configuration, network=network), file_peers=new.file_peers
            )
            if isinstance(self._broker.links, BrokerLinks) and new.peers is not None:
                self._broker.links.renew(new.peers.links)
                self._broker.links.change_peers(new.peers.network)

    async def _apply(self, old: Startup, new: Startup) -> None:
        configuration = new.configuration
        for changed, at_once in changes(old.configuration, configuration):
            if at_once:
                note(log, logging.INFO, "changed", key=changed)
            else:
                note(log, logging.WARNING, "change takes effect after a restart", key=changed)
        logs.set_up(configuration.logging.level, as_json=configuration.logging.json)
        limits = configuration.limits_of()
        self._broker.configure(limits, self._broker.login.guard)
        self._broker.forwarder.stomp_types(type_rules(configuration.types))
        self._broker.replace_policies(policies_of(configuration.policies))
        self._broker.replace_quotas(quotas_of(configuration.quotas))
        self._renew_certificates(new)
        guard, ended = self._broker.login.guard, 0
        if isinstance(guard, UserGuard) and new.users is not None:
            guard.limit(limits)
            guard.jwt = new.jwt
            affected = guard.replace(new.users, new.rules)
            there = (one.principal for one in self._broker.engine.view.connections.values())
            affected |= {principal.name for principal in there if not guard.still(principal)}
            ended = self._broker.clients.end_all(
                "E_ACCESS_CHANGED", "the access rules have changed; log in again", users=affected
            )
        elif new.users is not None:
            self._broker.configure(limits, new.guard())
            ended = self._broker.clients.end_all("E_ACCESS_CHANGED", "users have been configured; log in")
        known = 0 if new.users is None else len(new.users)
        note(log, logging.INFO, "reloaded", users=known, connections_ended=ended, tls=new.tls is not None)

    def _renew_certificates(self, new: Startup) -> None:
        """Use renewed certificates for new connections. Enabling TLS where there was none takes a restart."""
        if new.tls is not None:
            self._broker.renew_tls(new.tls)
        self._pages.renew(new)
        if isinstance(self._broker.links, BrokerLinks) and new.peers is not None:
            self._broker.links.renew(new.peers.links)
            self._broker.links.change_peers(new.peers.network)


def run(
    options: StartupOptions,
    sessions: Sessions,
    make_observer: Callable[[], Observer | None] | None = None,
    layers: Layers | None = None,
    gateways: Gateways | None = None,
) -> int:
    """Run a broker until a signal ends it."""
    logs.set_up("info", as_json=False)

    async def main() -> int:
        process = BrokerMain(options, sessions, make_observer, layers, gateways)
        table = process.configuration.logging
        logs.set_up(table.level, as_json=table.json)
        return await process.run()

    raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            status = runner.run(main())
    except ConfigError as error:
        print("\n".join(error.problems), file=sys.stderr)  # noqa: T201
        return 2
    except TidingsError as error:
        note(log, logging.ERROR, "the broker cannot run", code=error.code, reason=error.reason + remedy(error))
        return 1
    except OSError as error:
        if not (help := remedy(error)):
            raise
        note(log, logging.ERROR, "the broker cannot run", code="E_FILES", reason=f"{error}{help}")
        return 1
    if status == SWITCHED:
        time.sleep(GRACE_SECONDS)
        os.execv(sys.executable, sys.orig_argv)
    return status
