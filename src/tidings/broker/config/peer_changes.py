"""Peers that operators added and removed while the broker ran, kept in the data directory.

They change what [[network.peers]] says, at every start and reload: those removed are left out and those added are
appended, unless the configuration names them itself.

>>> configured = (PeerTable("10.0.0.2:7301", 2), PeerTable("10.0.0.3:7301", 3))
>>> changes = PeerChanges().with_added(PeerTable("10.0.0.4:7301", 4), configured).with_removed("2", configured)
>>> [peer.router for peer in changes.applied(configured)]
[3, 4]
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tidings.broker.config.network import PeerTable
from tidings.broker.links.addresses import is_address
from tidings.errors import ConfigError, UsageError
from tidings.segments.durable import sync_directory

FILE = "peers.json"
Peers: TypeAlias = tuple[PeerTable, ...]


@dataclass(frozen=True, slots=True)
class PeerChanges:
    added: Peers = ()
    removed: tuple[tuple[str, int], ...] = ()  # address and router, as configured

    def applied(self, configured: Peers) -> Peers:
        kept = [peer for peer in configured if (peer.address, peer.router) not in self.removed]
        return (*kept, *(peer for peer in self.added if not any(_same(peer, one) for one in kept)))

    def with_added(self, peer: PeerTable, configured: Peers) -> "PeerChanges":
        if not all(map(is_address, peer.address.split(","))):
            raise UsageError("E_PEER_ADDRESS", f"{peer.address!r} is not host:port, as in 10.0.0.2:7301")
        if known := [one for one in self.applied(configured) if _same(peer, one)]:
            raise UsageError("E_PEER_KNOWN", f"{_name(known[0])} is a peer already: remove it first to change it")
        there = {(one.address, one.router) for one in configured if one == peer}  # as it was before it was removed
        removed = tuple(one for one in self.removed if one not in there)
        return PeerChanges(self.added if there else (*self.added, peer), removed)

    def with_removed(self, text: str, configured: Peers) -> "PeerChanges":
        """`text`: its address or its id."""
        gone = [one for one in self.applied(configured) if text in (one.address, str(one.router)) and text != "0"]
        if not gone:
            raise UsageError("E_PEER_UNKNOWN", f"{text} is no peer that this broker dials or describes")
        removed = [(one.address, one.router) for one in gone if one in configured]
        return PeerChanges(tuple(one for one in self.added if one not in gone), (*self.removed, *removed))


def _same(one: PeerTable, other: PeerTable) -> bool:
    return one.address == other.address or (one.router == other.router != 0)


def _name(peer: PeerTable) -> str:
    return peer.address or f"broker {peer.router}"


def load(data: Path) -> PeerChanges:
    """The changes in this data directory; a ConfigError if they cannot be read."""
    path = data / FILE
    try:
        found = json.loads(path.read_text())
        return PeerChanges(
            tuple(PeerTable(**one) for one in found["added"]),
            tuple((str(address), int(router)) for address, router in found["removed"]),
        )
    except FileNotFoundError:
        return PeerChanges()
    except (OSError, ValueError, TypeError, KeyError) as error:
        remedy = "restore the file, or remove it: then only the configured peers count"
        raise ConfigError([f"{path}: not a list of changed peers ({error}); {remedy}"]) from None


def save(data: Path, changes: PeerChanges) -> None:
    """Replaces the file, durably and as a whole."""
    path, new = data / FILE, data / f"{FILE}.new"
    document: dict[str, Any] = {"added": [asdict(one) for one in changes.added], "removed": changes.removed}
    with new.open("w") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(data)
