"""Hosts as network namespaces on one switch: each has an address, and packets from one to another can be lost.

Needs root. Packets that are lost leave their host for an address that nobody has, so that nobody hears of it: neither
the sender, as with a route that is refused, nor the receiver, as with a cable that is pulled.
"""

import subprocess
from collections.abc import Sequence
from types import TracebackType

NOBODY = "02:00:00:00:00:fe"
INTERFACE = "e0"


class Hosts:
    """`prefix`: of the names of the namespaces; at most 8 letters."""

    def __init__(self, prefix: str, names: Sequence[str], network: str = "10.79.0") -> None:
        self._prefix, self._names, self._network = prefix, tuple(names), network
        self._lost: list[tuple[str, str]] = []

    def namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def address(self, name: str) -> str:
        return f"{self._network}.{self._names.index(name) + 1}"

    def inside(self, name: str) -> tuple[str, ...]:
        """The beginning of a command that is run there."""
        return ("ip", "netns", "exec", self.namespace(name))

    def __enter__(self) -> "Hosts":
        self._remove()
        switch = self.namespace("switch")
        _ip(f"netns add {switch}")
        _ip(f"-n {switch} link add switch type bridge")
        _ip(f"-n {switch} link set switch up")
        for number, name in enumerate(self._names):
            space = self.namespace(name)
            _ip(f"netns add {space}")
            _ip(f"link add {INTERFACE} netns {space} type veth peer name p{number} netns {switch}")
            _ip(f"-n {switch} link set p{number} master switch up")
            _ip(f"-n {space} address add {self.address(name)}/24 dev {INTERFACE}")
            _ip(f"-n {space} link set {INTERFACE} up")
            _ip(f"-n {space} link set lo up")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remove()

    def lose(self, sender: str, receiver: str) -> None:
        """From now on packets from one to the other are lost; those of the other direction are not."""
        place = f"{self.address(receiver)} lladdr {NOBODY} dev {INTERFACE} nud permanent"
        _ip(f"-n {self.namespace(sender)} neigh replace {place}")
        self._lost.append((sender, receiver))

    def heal(self) -> None:
        """All packets arrive again."""
        while self._lost:
            sender, receiver = self._lost.pop()
            _ip(f"-n {self.namespace(sender)} neigh del {self.address(receiver)} dev {INTERFACE}")

    def _remove(self) -> None:
        for name in (*self._names, "switch"):
            subprocess.run(["ip", "netns", "delete", self.namespace(name)], capture_output=True, check=False)


def _ip(arguments: str) -> None:
    done = subprocess.run(["ip", *arguments.split()], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {arguments}: {done.stderr.strip()}"
