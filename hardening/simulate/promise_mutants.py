"""Seeded defects in what keeps order and once between brokers and through crashes: each takes out what mended a defect.

Each names the choices under which a seed is to notice it; the other choices are the seed's.
"""

from dataclasses import replace
from typing import Any

from hardening.simulate.planting import Method, Mutant
from tidings.delivery.mailbox import NEW
from tidings.delivery.store import MemoryStore, Recent, Recovered
from tidings.node.completions import ForwardMessage
from tidings.node.network.copy_numbers import CopyNumbering
from tidings.node.network.held_copies import FRESH_NOTE, HeldCopies
from tidings.node.network.relay_dedup import RelayDedup
from tidings.node.network.store_and_forward import StoreAndForward

DISKS = {"world": "disks"}
FROZEN = {"world": "brokers", "scheme": "bdrp", "overlay": "tree", "tracking": "none", "strain": "frozen"}
WORST = {"world": "brokers", "scheme": "bdrp", "tracking": "none", "moment": "worst"}


def _newer_at_once(original: Method) -> Method:
    def forward(self: StoreAndForward, stored: ForwardMessage) -> None:
        original(self, stored)
        for item in self._newer:
            self._wait(item)
        self._newer.clear()

    return forward


def _ids_alone(original: Method) -> Method:
    return lambda self, message_id, copy: message_id in self._ids


def _always_new(original: Method) -> Method:
    return lambda self, message_id, copy, *, repeated: True


def _only_waiting(original: Method) -> Method:
    def recent(self: MemoryStore, count: int, size: int) -> list[Recent]:
        waiting = {seq for box in self.recover().waiting.values() for seq in box.seqs}
        return [one for one in original(self, count, size) if one.seq in waiting]

    return recent


def _one_epoch(original: Method) -> Method:
    return lambda self, epoch: original(self, 1)


def _taken_at_once(original: Method) -> Method:
    return lambda self: False


def _known_in_first_run(original: Method) -> Method:
    def recover(self: HeldCopies, recovered: Recovered, *, new: bool) -> None:
        notes = {key: value for key, value in recovered.notes.items() if key != FRESH_NOTE}
        original(self, replace(recovered, notes=notes), new=new)

    return recover


def _never_marked(original: Method) -> Method:
    def release(self: HeldCopies, now_ms: int, seq: int, message: bytes) -> None:
        service: Any = self._service
        prepare = service.prepare
        service.prepare = lambda *arguments, **more: prepare(*arguments, **(more | {"tries": NEW}))
        try:
            original(self, now_ms, seq, message)
        finally:
            del service.prepare

    return release


def _behind_nobody(original: Method) -> Method:
    def takes(self: HeldCopies) -> bool:
        return original(self) and not self._service.mailboxes.by_sink

    return takes


PROMISE_MUTANTS = (
    Mutant(
        "stored-overtaken",
        "newer messages leave while older ones are read from the store",
        StoreAndForward,
        "forward",
        _newer_at_once,
        choices=FROZEN,
    ),
    Mutant(
        "numbers-ignored",
        "copies are recognised by the last ids alone",
        RelayDedup,
        "has_taken",
        _ids_alone,
        choices=WORST,
    ),
    Mutant(
        "repetitions-unmarked",
        "what is perhaps a repetition counts as new",
        RelayDedup,
        "is_new",
        _always_new,
        choices=WORST,
    ),
    Mutant(
        "acknowledged-forgotten",
        "after a crash only ids of messages that wait are known",
        MemoryStore,
        "recent",
        _only_waiting,
        choices=WORST,
    ),
    Mutant(
        "epoch-kept",
        "copies of a broker that starts again have the numbers of earlier ones",
        CopyNumbering,
        "begin",
        _one_epoch,
        choices=DISKS,
    ),
    Mutant(
        "replaced-takes",
        "a broker with a replaced store takes what was kept for it at once",
        HeldCopies,
        "takes",
        _taken_at_once,
        choices=DISKS,
    ),
    Mutant(
        "replaced-forgotten",
        "that a store was replaced is known in its first run only",
        HeldCopies,
        "recover",
        _known_in_first_run,
        choices=DISKS,
    ),
    Mutant(
        "held-overtaken",
        "messages that come while others are held go to subscribers at once",
        HeldCopies,
        "takes",
        _behind_nobody,
        choices=DISKS,
    ),
    Mutant(
        "released-unmarked",
        "what is released is not marked",
        HeldCopies,
        "_release",
        _never_marked,
        choices=DISKS,
    ),
)
