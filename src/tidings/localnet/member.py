"""One broker of a network on this machine: its configuration file, its process, its status.

Everything about it is in the network's folder: `NAME.toml` for `tidings broker`, its data and its log. It says what it
sees of the network at /network of its metrics endpoint.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tidings.broker.config import load as config
from tidings.broker.config.network import ENCODINGS
from tidings.errors import UsageError
from tidings.localnet.namespaces import within
from tidings.node.network.settings import UNICASTS
from tidings.routing.covering.policies import POLICIES
from tidings.routing.registry import SCHEMES

SECRET = "network.secret"
STATUS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Routing:
    """Routing options of a network: keys of [network] that all members share; `settings` has all without a field."""

    routing: str = "bdrp"
    unicast: str = "link-state"
    encoding: str = "graded"
    encoding_exact: bool = True
    policy: str = "selective"
    merge: bool = False
    advertise: tuple[str, ...] = (">",)
    broadcast_above: int = 0
    heartbeat_ms: float = 1000.0
    redial_ms_max: float = 2000.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted = {"routing": SCHEMES, "unicast": UNICASTS, "encoding": ENCODINGS, "policy": POLICIES}
        for name, choices in wanted.items():
            value = getattr(self, name)
            if value not in choices:
                raise UsageError("E_NET_ROUTING", f"{name} must be one of {', '.join(choices)}, not {value!r}")

    @property
    def pan(self) -> bool:
        """True if the brokers choose their links, instead of the topology."""
        return SCHEMES[self.routing].typed or self.settings.get("overlay") == "pan"

    def keys(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in Routing.__slots__ if name != "settings"}
        return own | dict(self.settings) | ({"overlay": "pan"} if self.pan else {})


class Peer(NamedTuple):
    """Another member: where it is dialled (empty: it dials), its number, how long what is sent to it is held back, what
    the link costs (0: its measured latency) and can carry (0: not known)."""

    address: str
    router: int
    delay_ms: float = 0.0
    cost: int = 0
    bandwidth_bytes_s: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    router: int
    host: str  # for clients, and for its status
    port: int
    link_host: str
    link_port: int
    http_port: int

    def url(self) -> str:
        return f"tidings://{self.host}:{self.port}"

    def config(self, folder: Path) -> Path:
        return folder / f"{self.name}.toml"

    def save(self, folder: Path, peers: list[Peer], routing: Routing, **more: Any) -> None:
        """Write its configuration, with more keys of [network]; a ConfigError says what is wrong with it."""
        path = self.config(folder)
        path.write_text(self.text(peers, routing, str(path), **more))

    def text(self, peers: list[Peer], routing: Routing, name: str = "", **more: Any) -> str:
        place = {"name": "local", "host": self.link_host, "port": self.link_port, "secret_file": SECRET}
        keys = place | routing.keys() | more
        lines = [
            f"[broker]\nname = {json.dumps(self.name)}\nid = {self.router}\ndata = {json.dumps(self.name)}",
            f'[[listeners]]\nhost = "{self.host}"\nport = {self.port}',
            f'[metrics]\nhost = "{self.host}"\nport = {self.http_port}',
            "[network]",
            *(f"{name} = {json.dumps(value)}" for name, value in keys.items()),
            *(_peer_table(one) for one in peers),
        ]
        text = "\n".join(lines) + "\n"
        config.parse(text, name or self.name)
        return text

    @classmethod
    def load(cls, path: Path) -> "Member":
        found = config.load(path, environment={})
        network, listener = found.network, found.listeners[0]
        here = (listener.host, listener.port, network.host, network.port, found.metrics.port)
        return cls(found.broker.name, found.broker.number, *here)

    def command(self, folder: Path) -> list[str]:
        return [sys.executable, "-m", "tidings.cli", "broker", "--config", str(self.config(folder))]

    def status(self, namespace: str = "") -> dict[str, Any] | None:
        """Its view of the network; None if it does not answer."""
        try:
            return self.ask(namespace)
        except TimeoutError:
            return None

    def ask(self, namespace: str = "") -> dict[str, Any] | None:
        """Its view of the network; None if it is not running yet; TimeoutError if it runs and does not answer."""

        def fetch() -> dict[str, Any]:
            with urllib.request.urlopen(f"http://{self.host}:{self.http_port}/network", timeout=STATUS_SECONDS) as page:
                found: dict[str, Any] = json.load(page)
                return found

        try:
            return within(namespace, fetch) if namespace else fetch()
        except OSError as error:
            if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
                raise TimeoutError(f"{self.name} does not answer") from None
            return None  # connection refused, or its namespace is gone


def _peer_table(one: Peer) -> str:
    numbers = (f"{name} = {getattr(one, name)}" for name in one._fields[1:])
    return "\n".join(("[[network.peers]]", f'address = "{one.address}"', *numbers))


def write_secret(folder: Path, secret: str) -> None:
    descriptor = os.open(folder / SECRET, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret + "\n")
