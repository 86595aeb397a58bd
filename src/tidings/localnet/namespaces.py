"""Network namespaces: one for each broker, joined by wires of limited bandwidth, on one Linux machine. Needs root.

Every link of a topology is a pair of virtual interfaces with a token bucket filter at both ends, so that it carries
what its bandwidth says in each direction, and counts it: every segment with headers of its own, as on a real wire
(virtual interfaces would take several as one). The plan is plain data, made first and carried out then:

>>> from tidings.overlay.topology.generate import line
>>> plan = AddressPlan.of(line(2, bandwidth_bytes_s=1e6), prefix="t")
>>> plan.address("1", "2"), plan.address("2", "1")
('10.77.0.1', '10.77.0.2')
>>> print(plan.commands[4])
ip link add t0a netns t-1 type veth peer name t0b netns t-2
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from tidings.errors import TidingsError, UsageError
from tidings.overlay.topology.graph import Graph

T = TypeVar("T")
LINKS_MAX = 254
FOLDER = "/run/netns"
SIOCETHTOOL, ETHTOOL_STSO = 0x8946, 0x1F
BURST_BYTES, QUEUE_MS = 16_000, 400  # of the filter: how much at once, how long at most in the queue


@dataclass(frozen=True, slots=True)
class AddressPlan:
    prefix: str
    nodes: tuple[str, ...]
    addresses: dict[tuple[str, str], str]  # (of whom, towards whom)
    interfaces: dict[tuple[str, str], str]
    commands: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, graph: Graph, prefix: str = "tidings") -> "AddressPlan":
        edges = list(graph.edges())
        if len(edges) > LINKS_MAX or len(prefix) > 8:
            raise UsageError("E_NAMESPACES", f"namespaces allow at most {LINKS_MAX} links and a prefix of 8 letters")
        plan = cls(prefix, tuple(str(node) for node in graph), {}, {})
        for name in plan.nodes:
            plan.commands.append(f"ip netns add {plan.namespace(name)}")
        for name in plan.nodes:
            plan.commands.append(f"ip -n {plan.namespace(name)} link set lo up")
        for number, edge in enumerate(edges):
            a, b = str(edge.a), str(edge.b)
            for one, other, end, last in ((a, b, "a", 1), (b, a, "b", 2)):
                plan.interfaces[one, other] = f"{prefix}{number}{end}"
                plan.addresses[one, other] = f"10.77.{number}.{last}"
            plan._link(a, b, edge.bandwidth_bytes_s)
        return plan

    def namespace(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def address(self, name: str, towards: str) -> str:
        return self.addresses[name, towards]

    def _link(self, a: str, b: str, bandwidth_bytes_s: float | None) -> None:
        first, second = self.interfaces[a, b], self.interfaces[b, a]
        self.commands.append(
            f"ip link add {first} netns {self.namespace(a)} type veth peer name {second} netns {self.namespace(b)}"
        )
        for one, other in ((a, b), (b, a)):
            space, interface = self.namespace(one), self.interfaces[one, other]
            self.commands.append(f"ip -n {space} address add {self.addresses[one, other]}/30 dev {interface}")
            self.commands.append(f"ip -n {space} link set {interface} up")
            if bandwidth_bytes_s is not None:
                rate = f"rate {round(bandwidth_bytes_s * 8)}bit burst {BURST_BYTES} latency {QUEUE_MS}ms"
                self.commands.append(f"tc -n {space} qdisc add dev {interface} root tbf {rate}")

    # --- carrying it out ------------------------------------------------------------------------------------------

    def __enter__(self) -> "AddressPlan":
        self.build()
        return self

    def build(self) -> None:
        self.remove()
        for command in self.commands:
            _run(command)
        for name in self.nodes:
            mine = [interface for (one, _), interface in self.interfaces.items() if one == name]
            within(self.namespace(name), partial(_whole_segments, mine))

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Namespaces take their interfaces with them."""
        for name in self.nodes:
            subprocess.run(["ip", "netns", "delete", self.namespace(name)], capture_output=True, check=False)

    def set_link(self, a: str, b: str, *, up: bool) -> None:
        """Pull the cable between two nodes, or put it in again."""
        for one, other in ((a, b), (b, a)):
            _run(f"ip -n {self.namespace(one)} link set {self.interfaces[one, other]} {'up' if up else 'down'}")

    def inside(self, name: str, command: list[str]) -> list[str]:
        """The command, to be run in a broker's namespace."""
        return ["ip", "netns", "exec", self.namespace(name), *command]

    def sent_bytes(self) -> dict[tuple[str, str], int]:
        """Bytes sent by each end of each link, headers of all layers included."""
        return {end: sent for end, (sent, _) in self._sent().items()}

    def sent_packets(self) -> int:
        """Packets sent by all ends of all links."""
        return sum(packets for _, packets in self._sent().values())

    def _sent(self) -> dict[tuple[str, str], tuple[int, int]]:
        sent = {name: within(self.namespace(name), _sent_here) for name in self.nodes}
        return {(one, other): sent[one][interface] for (one, other), interface in self.interfaces.items()}

    def listens(self, name: str, port: int) -> bool:
        """True if a connection to this port of a broker's loopback succeeds."""

        def knock() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        return within(self.namespace(name), knock)


def _sent_here() -> dict[str, tuple[int, int]]:
    """Bytes and packets by interface, in the namespace of this thread."""
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    found = {name.strip(): numbers.split() for name, _, numbers in (line.partition(":") for line in lines)}
    return {name: (int(numbers[8]), int(numbers[9])) for name, numbers in found.items()}


def _whole_segments(interfaces: Iterable[str]) -> None:
    """Large writes are cut into segments before they reach the interface, not by it (`ethtool -K … tso off`)."""
    wish = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STSO, 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for interface in interfaces:
            request = struct.pack("16sP", interface.encode(), ctypes.addressof(wish))
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def within(namespace: str, work: Callable[[], T]) -> T:
    """Do something in a namespace: the sockets it opens are there. A thread of its own enters it, and ends there."""

    def there() -> T:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(f"{FOLDER}/{namespace}", os.O_RDONLY)
        try:
            if libc.setns(descriptor, 0):
                raise TidingsError("E_NAMESPACES", f"{namespace} cannot be entered: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(descriptor)
        return work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(there).result()


def _run(command: str) -> str:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise TidingsError("E_NAMESPACES", f"{command}: {done.stderr.strip()}")
    return done.stdout
