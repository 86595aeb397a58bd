"""The parameters of [network] that are changed while brokers run, and the reasons why others are not.

Every key of the table is in `CHANGES` or in `NOT_ROLLED`; a test holds that. A change is made by restarting one broker
after the other. Files that it names are in the folder of the network (`FILES`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardening.support.certificates import Authority

PLAIN = {"encoding_exact": False}  # rows are made of everything, so that the encoding matters
COVERING = {"routing": "covering"}
HERMES = {"routing": "hermes", "overlay": "pan"}
OTHER_SECRET, ENCODING_KEY, CERTIFICATE, AUTHORITY = "other.secret", "encoding.key", "broker-*.pem", "authority.pem"


@dataclass(frozen=True, slots=True)
class Change:
    key: str
    before: Any
    after: Any
    others: Mapping[str, Any] = field(default_factory=dict)  # keys of [network] that stay as they are
    with_it: Mapping[str, Any] = field(default_factory=dict)  # keys that only make sense together with the new value
    label: str = ""  # what else tells it from other changes of the same key

    @property
    def name(self) -> str:
        """Its name in results."""
        return f"{self.key} {_text(self.before)} to {_text(self.after)}{self.label}"

    @property
    def old(self) -> dict[str, Any]:
        return {**self.others, self.key: self.before}

    @property
    def new(self) -> dict[str, Any]:
        return {**self.others, **self.with_it, self.key: self.after}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(value) if isinstance(value, list) else str(value) or "none"


CHANGES = (
    Change("encoding", "graded", "vectors", PLAIN),
    Change("encoding", "vectors", "graded-vectors", PLAIN),
    Change("encoding", "elements", "graded", PLAIN),
    Change("encoding_bits", 256, 512, PLAIN | {"encoding": "vectors"}),
    Change("encoding_hashes", 7, 5, PLAIN | {"encoding": "vectors"}),
    Change("encoding_pieces_max", 4, 16, PLAIN),
    Change("encoding_alternatives_max", 64, 2, PLAIN),
    Change("in_vain_max", 1.0, 0.0, PLAIN),
    Change("encoding_exact", True, False),
    Change("encoding_exact", False, True),
    Change("encoding_key_file", "", ENCODING_KEY, PLAIN, label=", all encoded"),
    Change("encoding_key_file", "", ENCODING_KEY),
    Change("routing", "bdrp", "covering"),
    Change("routing", "covering", "bdrp"),
    Change("unicast", "link-state", "distance-vector"),
    Change("unicast", "distance-vector", "link-state"),
    Change("policy", "selective", "lazy", COVERING),
    Change("policy", "none", "active", COVERING),
    Change("advertise", [">"], ["t.>"], COVERING),
    Change("merge", False, True, COVERING),
    Change("merge_in_vain_max", 0.0, 0.2, COVERING | {"merge": True}),
    Change("cover_advertisements", False, True, COVERING),
    Change("pruning_phi", 0.9, 0.3, COVERING),
    Change("pruning_count_small", 0, 4, COVERING),
    Change("pruning_window_ms", 60_000.0, 1_000.0, COVERING),
    Change("pruning_window_size", 10_000, 10, COVERING),
    Change("pruning_bucket_depth", 20.0, 1.0, COVERING),
    Change("broadcast_above", 0, 1),
    Change("hops_max", 32, 8),
    Change("heartbeat_ms", 200.0, 400.0),
    Change("redial_ms_max", 200.0, 1000.0),
    Change("gather_ms", 0.0, 20.0),
    Change("backlog_bytes_max", 8 << 20, 1 << 16),
    Change("congestion", "drop", "push-back"),
    Change("far_bytes_max", 64 << 20, 1 << 20, {"congestion": "push-back"}),
    Change("window_bytes", 1 << 20, 1 << 10),
    Change("unsynchronised", "hold", "refuse"),
    Change("coalesce_ms", 20.0, 500.0),
    Change("retain_ms", 604_800_000.0, 3_600_000.0),
    Change("empty_store", "wait", "hold"),
    Change("empty_store_ms", 60_000.0, 1_000.0),
    Change("name", "one", "other"),
    Change("secret_file", "network.secret", OTHER_SECRET),
    Change("certificate", "", CERTIFICATE, {"ca": ""}, {"ca": AUTHORITY}),
    Change("insecure", True, False, {"secret_file": ""}, {"secret_file": "network.secret"}),
    Change("overlay", "static", "pan"),
    Change("refresh_ms", 1000.0, 2000.0, HERMES),
)
NOT_ROLLED = {
    "accept": "belongs to one broker, whose peers must be able to reach each other without it",
    "host": "is the place of one broker",
    "port": "is the place of one broker",
    "address": "is the place of one broker",
    "join": "is read when a broker first becomes a member",
    "key": "is in the certificate's file",
    "ca": "is changed with the certificate",
    "relay_only": "a broker without the key sends nothing of its own clients to others",
    "peers": "are added and removed while brokers run: hardening.kills.membership",
}


def write_files(folder: Path, brokers: int) -> None:
    """The files that changes name; in that of a certificate * stands for the number of the broker."""
    (folder / OTHER_SECRET).write_text("another secret of the network " * 2)
    (folder / ENCODING_KEY).write_text("the key of the encoding of the network " * 2)
    for name in (OTHER_SECRET, ENCODING_KEY):
        (folder / name).chmod(0o600)
    authority = Authority(folder)
    for number in range(1, brokers + 1):
        authority.sign(f"broker-{number}", CERTIFICATE.replace("*", str(number)))
