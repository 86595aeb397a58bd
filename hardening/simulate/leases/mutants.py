"""Seeded defects in the store in a database and its lease: the simulation of two processes must notice each."""

from typing import Any
from unittest.mock import patch

from hardening.simulate.planting import Method, Mutant
from tidings.delivery.batch_codec import unpack
from tidings.store.log.contents import Written
from tidings.store.postgresql import file as file_module
from tidings.store.postgresql import lease as lease_module
from tidings.store.postgresql.file import PostgresFile
from tidings.store.postgresql.lease import DatabaseLease
from tidings.store.postgresql.store import PostgresStore

LEASES = {"world": "leases"}
_KEPT_EPOCH = "SELECT epoch FROM tidings.broker WHERE broker = %s"


def _proof_without(condition: str) -> Any:
    def broken(original: Method) -> Method:
        def execute(self: PostgresFile, *arguments: Any) -> None:
            with patch.object(file_module, "_PROOF", file_module._PROOF.replace(condition, "")):
                original(self, *arguments)

        return execute

    return broken


def _same_epoch(original: Method) -> Method:
    def take(self: DatabaseLease, db: Any) -> None:
        if db.execute(_KEPT_EPOCH, (1,)).fetchone()[0]:
            with patch.object(lease_module, "_TAKE", _KEPT_EPOCH):
                original(self, db)
        else:
            original(self, db)

    return take


def _never_found(original: Method) -> Method:
    def found(self: PostgresFile) -> bool:
        original(self)
        return False

    return found


def _refused_kept(original: Method) -> Method:
    def resolve(self: PostgresStore) -> None:
        contents, pending = self._contents, self._file.pending
        if pending is None or not self._file.found():
            original(self)
            return
        self._file.keep()
        found = unpack(pending.blob)
        contents.newest, contents.last_seq = pending.number, found.head.last_seq
        contents.unsettled.append(Written(pending.number, pending.blob, found.records, pending.changes, pending.oldest))

    return resolve


LEASE_MUTANTS = (
    Mutant(
        "epoch-unproven",
        "commits do not prove the epoch of the lease",
        PostgresFile,
        "_execute",
        _proof_without("AND epoch = %(epoch)b AND session = %(session)b"),
        seed=10,
        choices=LEASES,
    ),
    Mutant(
        "epoch-not-raised",
        "whoever takes the lease keeps its epoch",
        DatabaseLease,
        "_take",
        _same_epoch,
        choices=LEASES,
    ),
    Mutant(
        "answer-guessed-lost",
        "a commit without an answer counts as failed",
        PostgresFile,
        "found",
        _never_found,
        choices=LEASES,
    ),
    Mutant(
        "refused-kept",
        "a batch that was refused and is there after all stays",
        PostgresStore,
        "_resolve",
        _refused_kept,
        choices=LEASES,
    ),
)
