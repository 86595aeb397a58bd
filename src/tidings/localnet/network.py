"""A network of brokers on this machine, one process each, built from a topology.

    network = LocalNetwork.create(folder, graph)
    network.start()                 # processes that outlive this one
    LocalNetwork.load(folder).stop()

Everything about it is in the folder: the secret and, for each member, its configuration, data and log. Routers are
numbered in the order of the topology, from 1; of each link the end that comes first dials. Under Hermes brokers make
links of their own, and the topology only lists the members: the first founds the overlay, the others join it there.
"""

import hashlib
import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidings.broker.config.environment import without_settings
from tidings.errors import ConfigError, UsageError
from tidings.localnet.member import SECRET, Member, Peer, Routing, write_secret
from tidings.localnet.namespaces import AddressPlan
from tidings.overlay.topology.draw import to_text
from tidings.overlay.topology.graph import Graph
from tidings.overlay.topology.toml_format import from_toml, to_toml

TOPOLOGY, PROCESSES, NAMESPACES = "topology.toml", "processes.json", "namespaces"
STOP_SECONDS = 10.0
PORT_MAX = 65535
LOG_BYTES = 4096  # at the end of a log, in which its last line is looked for


@dataclass(frozen=True, slots=True)
class LocalOptions:
    host: str = "127.0.0.1"
    port: int = 7400  # of the first member's clients; after all of these come those of links, then of statuses
    routing: Routing = field(default_factory=Routing)
    publishers: tuple[str, ...] | None = None  # under covering: the members whose clients publish; None: all
    delays: bool = False  # what is sent by a link is held back as long as the topology says
    namespaces: bool = False  # each member in one, with links of the topology's bandwidth; needs root


class LocalNetwork:
    def __init__(self, folder: Path, graph: Graph, members: dict[str, Member]) -> None:
        self.folder = folder.resolve()  # by which its processes are known, wherever they are asked for from
        self.graph, self.members = graph, members
        self.plan = AddressPlan.of(graph, _prefix(folder)) if (folder / NAMESPACES).exists() else None

    @classmethod
    def create(cls, folder: Path, graph: Graph, options: LocalOptions | None = None) -> "LocalNetwork":
        options = options or LocalOptions()
        running = [name for name, pid in _pids(folder).items() if _is_member(pid, folder.resolve() / f"{name}.toml")]
        if running:
            raise UsageError("E_NET_RUNNING", f"a network is running in {folder}: stop it first")
        members = _members(graph, options)  # what is wrong is said before anything is written
        next(iter(members.values())).text([], options.routing)  # and so is what no broker could be configured with
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TOPOLOGY).write_text(to_toml(graph))
        (folder / NAMESPACES).unlink(missing_ok=True)
        if options.namespaces:
            (folder / NAMESPACES).touch()
        network = cls(folder, graph, members)
        write_secret(folder, secrets.token_hex(32))
        for name in members:
            silent = options.publishers is not None and name not in options.publishers
            more: dict[str, Any] = {"advertise": []} if silent else {}
            network.configure(name, options.routing, delays=options.delays, **more)
        (folder / PROCESSES).write_text("{}")
        return network

    def configure(self, name: str, routing: Routing, *, delays: bool = False, **more: Any) -> None:
        """Write the configuration of a member, with more keys of [network]; a running one reads it when it starts."""
        if routing.pan:
            more |= self._join(name)
        self.members[name].save(self.folder, [] if routing.pan else self._peers(name, delays=delays), routing, **more)

    def _join(self, name: str) -> dict[str, str]:
        """By whom a member joins an overlay that arranges itself; the first has nobody."""
        first = next(iter(self.members.values()))
        return {} if name == first.name else {"join": f"{first.link_host}:{first.link_port}"}

    def _peers(self, name: str, *, delays: bool) -> list[Peer]:
        """Of each link the end that comes first dials; the other only learns of its delay and bandwidth."""
        found = []
        for edge in self.graph.edges():
            a, b, delay_ms = str(edge.a), str(edge.b), edge.latency_ms if delays else 0.0
            bandwidth = round(edge.bandwidth_bytes_s or 0)
            if a == name:
                there = self.members[b]
                host = self.plan.address(b, a) if self.plan else there.link_host
                found.append(Peer(f"{host}:{there.link_port}", there.router, delay_ms, bandwidth_bytes_s=bandwidth))
            elif b == name and (delay_ms or bandwidth):
                found.append(Peer("", self.members[a].router, delay_ms, bandwidth_bytes_s=bandwidth))
        return found

    @classmethod
    def load(cls, folder: Path) -> "LocalNetwork":
        try:
            graph = from_toml((folder / TOPOLOGY).read_text())
            members = {str(node): Member.load(folder / f"{node}.toml") for node in graph}
        except (FileNotFoundError, ConfigError):
            raise UsageError("E_NET_NONE", f"no network in {folder}: create one with `tidings net up`") from None
        return cls(folder, graph, members)

    # --- processes ------------------------------------------------------------------------------------------------

    def start(self, name: str | None = None) -> None:
        """Start all members, or one."""
        if self.plan is not None and not any(self.alive().values()):
            self.plan.build()
        for member in self._chosen(name):
            if self.alive()[member.name]:
                raise UsageError("E_NET_RUNNING", f"{member.name} is running")
            with _uninterrupted():
                self._note(member.name, self._spawn(member))

    def _spawn(self, member: Member) -> int:
        """A process of its own, that goes on when this one ends."""
        log = str(self.folder / f"{member.name}.log")
        command = member.command(self.folder)
        if self.plan is not None:
            command = self.plan.inside(member.name, command)
        return os.posix_spawnp(
            command[0],
            command,
            without_settings(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )

    def stop(self, name: str | None = None, *, kill: bool = False) -> None:
        """Stop all members, or one; `kill` ends them as a power failure would."""
        chosen = [member.name for member in self._chosen(name) if self.alive()[member.name]]
        for one in chosen:
            os.kill(_pids(self.folder)[one], signal.SIGKILL if kill else signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while any(self.alive()[one] for one in chosen):
            if time.monotonic() > deadline:
                for one in [one for one in chosen if self.alive()[one]]:
                    os.kill(_pids(self.folder)[one], signal.SIGKILL)
                deadline += STOP_SECONDS
            time.sleep(0.02)
        for one in chosen:
            self._note(one, 0)
        if self.plan is not None and not any(self.alive().values()):
            self.plan.remove()

    def alive(self) -> dict[str, bool]:
        pids = _pids(self.folder)
        return {
            name: _is_member(pids.get(name, 0), member.config(self.folder)) for name, member in self.members.items()
        }

    def ended(self) -> dict[str, str]:
        """Members that were started and have ended by themselves, and the last that each of them logged."""
        alive, pids = self.alive(), _pids(self.folder)
        return {name: self._last_words(name) for name in self.members if pids.get(name) and not alive[name]}

    def _last_words(self, name: str) -> str:
        with suppress(OSError), (self.folder / f"{name}.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def status(self) -> dict[str, Any]:
        """By member: whether it runs, where, and what it sees; None before it first said so, or if it hangs."""
        alive, found = self.alive(), {}
        for name, member in self.members.items():
            space = self.plan.namespace(name) if self.plan else ""
            seen, hangs = None, False
            try:
                seen = member.ask(space) if alive[name] else None
            except TimeoutError:
                hangs = True
            found[name] = {"running": alive[name], "router": member.router, "url": member.url(), "sees": seen}
            found[name]["hangs"] = hangs
            if space:
                found[name]["namespace"] = space
        return found

    def settled(self) -> bool:
        """True if every member runs and has a route to every other one."""
        return all(
            one["running"] and one["sees"] is not None and len(one["sees"]["routes"]) == len(self.members) - 1
            for one in self.status().values()
        )

    def draw(self) -> str:
        """The topology, and under it a line for each member."""
        lines = [to_text(self.graph), ""]
        for name, one in self.status().items():
            if not one["running"]:
                lines.append(f"{name}: down")
            elif one["sees"] is None:
                lines.append(f"{name}: {'does not answer' if one['hangs'] else 'starting'}, {one['url']}")
            else:
                seen = one["sees"]
                counts = f"{len(seen['links'])} links, {len(seen['routes'])} routes, {seen['in_transit']} in transit"
                space = f", in namespace {one['namespace']}" if "namespace" in one else ""
                lines.append(f"{name}: {one['url']}{space}, {counts}")
        return "\n".join(lines)

    def _chosen(self, name: str | None) -> list[Member]:
        if name is None:
            return list(self.members.values())
        if name not in self.members:
            raise UsageError("E_NET_MEMBER", f"no broker {name!r} in this network")
        return [self.members[name]]

    def _note(self, name: str, pid: int) -> None:
        (self.folder / PROCESSES).write_text(json.dumps({**_pids(self.folder), name: pid}))


def _pids(folder: Path) -> dict[str, int]:
    """By member: the number of its process, 0 if it was stopped."""
    try:
        found: dict[str, int] = json.loads((folder / PROCESSES).read_text())
    except FileNotFoundError:
        return {}
    return found


def _members(graph: Graph, options: LocalOptions) -> dict[str, Member]:
    names = [str(node) for node in graph]
    host, port, size = options.host, options.port, len(names)
    _check(names, options)
    members = {}
    for number, name in enumerate(names, 1):
        if options.namespaces:  # each has all ports for itself
            members[name] = Member(name, number, host, port, "0.0.0.0", port + 1, port + 2)
        else:
            ports = port + number - 1, port + size + number - 1, port + 2 * size + number - 1
            members[name] = Member(name, number, host, ports[0], host, *ports[1:])
    return members


def _check(names: list[str], options: LocalOptions) -> None:
    if not names:
        raise UsageError("E_TOPOLOGY", "the topology has no brokers: list them in `nodes` or `links`")
    last = options.port + (3 if options.namespaces else 3 * len(names)) - 1
    if not 1 <= options.port <= last <= PORT_MAX:
        raise UsageError(
            "E_NET_PORT", f"the network needs ports {options.port} to {last}: valid ports are 1 to {PORT_MAX}"
        )
    if options.routing.pan and (options.delays or options.namespaces):
        scheme = options.routing.routing
        raise UsageError(
            "E_NET_OVERLAY", f"delays and namespaces cannot be used with {scheme}, where brokers create their own links"
        )
    files = [TOPOLOGY, PROCESSES, NAMESPACES, SECRET]
    for name in names:
        own = (name, f"{name}.toml", f"{name}.log")
        if set(own) & set(files):
            raise UsageError("E_NET_NAME", f"invalid broker name {name!r}: its files would overwrite another broker's")
        files += own


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals wait: one between the start of a process and the note of its number would leave it to nobody."""
    if threading.current_thread() is not threading.main_thread():  # others do not hear of them
        yield
        return
    came: list[int] = []
    before = {one: signal.signal(one, lambda number, _: came.append(number)) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, signal.SIG_DFL if handler is None else handler)
        for number in came:
            signal.raise_signal(number)


def _prefix(folder: Path) -> str:
    """Of the namespaces: another one for each folder."""
    return "t" + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:5]


def _is_member(pid: int, path: Path) -> bool:
    """True if the process is alive and this member: the system reuses process numbers."""
    if pid <= 0:
        return False
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # a child of ours that has ended would stay as a zombie
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if not command:  # it has ended, or has begun this very moment: then its program is known already
            return bool(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False
    return str(path).encode() in command.split(b"\0")
