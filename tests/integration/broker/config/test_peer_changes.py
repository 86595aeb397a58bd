from pathlib import Path

import pytest

from tidings.broker.config.network import PeerTable
from tidings.broker.config.peer_changes import FILE, PeerChanges, load, save
from tidings.errors import ConfigError, UsageError

TWO, THREE, FOUR = (PeerTable(f"10.0.0.{n}:7301", n) for n in (2, 3, 4))
FILE_PEERS = (TWO, THREE)


def test_added_and_removed_peers_survive_a_restart(tmp_path: Path) -> None:
    assert load(tmp_path) == PeerChanges()
    changes = PeerChanges().with_added(FOUR, FILE_PEERS).with_removed("10.0.0.2:7301", FILE_PEERS)
    save(tmp_path, changes)
    assert load(tmp_path) == changes
    assert changes.applied(FILE_PEERS) == (THREE, FOUR)


def test_what_was_changed_can_be_changed_back() -> None:
    changes = PeerChanges().with_removed("2", FILE_PEERS).with_added(TWO, FILE_PEERS)
    assert changes == PeerChanges()
    assert PeerChanges().with_added(FOUR, FILE_PEERS).with_removed("4", FILE_PEERS) == PeerChanges()


def test_a_peer_that_the_file_names_later_is_not_named_twice() -> None:
    changes = PeerChanges().with_added(FOUR, FILE_PEERS)
    assert changes.applied((*FILE_PEERS, PeerTable("10.0.0.4:9", 4))) == (*FILE_PEERS, PeerTable("10.0.0.4:9", 4))


@pytest.mark.parametrize(
    ("peer", "code"),
    [(TWO, "E_PEER_KNOWN"), (PeerTable("10.0.0.9:1", 3), "E_PEER_KNOWN"), (PeerTable("there", 9), "E_PEER_ADDRESS")],
)
def test_peers_that_cannot_be_added(peer: PeerTable, code: str) -> None:
    with pytest.raises(UsageError, match=code):
        PeerChanges().with_added(peer, FILE_PEERS)


@pytest.mark.parametrize("text", ["0", "9", "10.0.0.9:7301", ""])
def test_unknown_peers_cannot_be_removed(text: str) -> None:
    with pytest.raises(UsageError, match="E_PEER_UNKNOWN"):
        PeerChanges().with_removed(text, FILE_PEERS)


@pytest.mark.parametrize("text", ["", "[]", '{"added": [{"x": 1}], "removed": []}', '{"added": []}'])
def test_a_damaged_file_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match="not a list of changed peers"):
        load(tmp_path)
