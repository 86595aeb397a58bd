"""The SQLite store: the contract, space, full disks, locks, versions."""

from collections.abc import Callable
from pathlib import Path

from tidings.broker.sqlite_store import Limits, SqliteStore
from tidings.delivery.store import Store
from tidings.testing import check_store

RESTLESS = Limits(slack_bytes=200, slack_batches=2, move_bytes=300, checkpoint_bytes=1000)  # moves all the time


def maker(folder: Path, limits: Limits) -> Callable[[bool], Store]:
    count = 0

    def make(fresh: bool) -> Store:
        nonlocal count
        count += fresh
        return SqliteStore(folder / f"{count}.db", limits)

    return make


def test_sqlite_store_keeps_the_contract(tmp_path: Path) -> None:
    check_store(maker(tmp_path, Limits()), examples=20)


def test_sqlite_store_keeps_the_contract_while_moving_all_the_time(tmp_path: Path) -> None:
    check_store(maker(tmp_path, RESTLESS), examples=20)
