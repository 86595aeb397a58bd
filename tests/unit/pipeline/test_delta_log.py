"""The log of a Delta table: who commits first wins, and transactions outlive what is cleaned up."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema

from tidings.errors import StoreError, UsageError
from tidings.pipeline.delta_log import DataFile, DeltaLog, parquet_files
from tidings.pipeline.storage_paths import StoragePath

SCHEMA = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'


def log_of(folder: Path) -> DeltaLog:
    return DeltaLog(StoragePath.of(folder), Schema.from_json(SCHEMA))


def write(folder: Path, number: int) -> DataFile:
    staged = folder / "_staged" / f"{number}-x"
    staged.mkdir(parents=True)
    pq.write_table(pa.table({"n": [number]}), staged / "part.parquet")
    (staged / "_SUCCESS").touch()
    (file,) = log_of(folder).take(StoragePath.of(staged))
    assert file.path == f"{number}-x-part.parquet"
    return file


def append(folder: Path, number: int, application: str = "tidings") -> bool:
    log = log_of(folder)
    action, rows = log.addition(write(folder, number), data_change=True)
    assert rows == 1
    return log.commit(log.load(), [action], [], number, application)


def test_of_two_commits_on_one_version_the_first_wins(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    for number in range(2):  # of no table, of a table
        action, _ = log.addition(write(tmp_path, number), data_change=True)
        late, _ = log.addition(write(tmp_path, number + 10), data_change=True)
        loaded, again = log.load(), log.load()
        assert log.commit(loaded, [action], [], number)
        assert not log.commit(again, [late], [], number)
    table = log.load()
    assert table is not None
    assert [one.path for one in log.files(table)] == ["0-x-part.parquet", "1-x-part.parquet"]
    assert parquet_files(StoragePath.of(tmp_path)) == [StoragePath.of(tmp_path / f"{n}-x-part.parquet") for n in (0, 1)]
    assert parquet_files(StoragePath.of(tmp_path / "_staged")) == [StoragePath.of(tmp_path / "_staged")]


def test_transactions_outlive_the_commits_that_a_checkpoint_replaces(tmp_path: Path) -> None:
    for number in range(120):
        assert append(tmp_path, number, "early" if number < 20 else "late")
    for path in (tmp_path / "_delta_log").glob("*.json"):
        if int(path.stem) < 100:
            path.unlink()
    table = log_of(tmp_path).load()
    assert table is not None
    assert (table.transaction_version("early"), table.transaction_version("late")) == (19, 119)
    assert len(log_of(tmp_path).files(table)) == 120


def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert log_of(tmp_path / "nothing").load() is None
    assert append(tmp_path, 0)
    with pytest.raises(StoreError, match="version 7 cannot be read"):
        log_of(tmp_path).load(7)
    with pytest.raises(UsageError, match="must not contain '%'"):
        log_of(tmp_path / "a%20b")
