"""Tables in an object store, against a real S3-compatible server: files, atomic commits, what workers read there."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from pyarrow import fs

from tidings.errors import UsageError
from tidings.model.tables import RUNS
from tidings.pipeline.delta_log import DeltaLog
from tidings.pipeline.segment_rows import verified
from tidings.pipeline.storage_paths import StoragePath, fingerprint
from tidings.segments.writer import SegmentWriter

KEY, SECRET = "key", "secret"
IDENTITY = {"name": "tests", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
SECONDS_MAX = 120.0


def free_ports(count: int) -> list[int]:
    """Below 55000: the server also takes the ports 10000 above."""
    found: list[int] = []
    for port in range(21_000 + os.getpid() % 20_000, 55_000):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            break
    return found


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoragePath]:
    """A bucket; the environment says where it is."""
    folder = tmp_path_factory.mktemp("weed")
    (folder / "s3.json").write_text(json.dumps({"identities": [IDENTITY]}))
    master, volume, filer, s3 = free_ports(4)
    program = Path(sys.executable).parent / "weed"
    flags = [
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={master}",
        f"-volume.port={volume}",
    ]
    flags += ["-filer", f"-filer.port={filer}", "-s3", f"-s3.port={s3}", f"-s3.config={folder}/s3.json"]
    flags += ["-volume.max=8", "-master.volumeSizeLimitMB=64", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program, "server", *flags], stdout=log, stderr=log, cwd=folder)
    settings = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    settings |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3}", "AWS_ALLOW_HTTP": "true"}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in settings.items():
            environment.setenv(name, value)
        try:
            until_ready(f"http://127.0.0.1:{s3}", server, folder / "log")
            made = fs.S3FileSystem(
                access_key=KEY,
                secret_key=SECRET,
                endpoint_override=f"127.0.0.1:{s3}",
                scheme="http",
                allow_bucket_creation=True,
            )
            made.create_dir("tidings")
            yield StoragePath.of("s3a://tidings/warehouse")
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


def until_ready(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        try:
            urllib.request.urlopen(url, timeout=10).close()
        except urllib.error.HTTPError:
            return  # it answers, and knows nobody without a key
        except OSError:
            time.sleep(0.2)
        else:
            return


def staged(log: DeltaLog, place: StoragePath, name: str, numbers: list[int]) -> list[object]:
    """What Spark does: a file in a folder beside the table; then it is moved to where it stays."""
    folder = place.under("_staged", name)
    system, path = folder.under("part-0.parquet").open()
    pq.write_table(pa.table({"n": numbers}), path, filesystem=system)
    files = log.take(folder)
    assert not [one for one, _, _ in folder.list(recursive=True) if one.name.endswith(".parquet")]
    return [log.addition(one, data_change=True)[0] for one in files]


def test_files_are_written_listed_moved_and_removed(bucket: StoragePath) -> None:
    place = bucket.under("files")
    place.under("a b").write(b"hello")
    assert place.under("a b").read() == b"hello"
    assert [(one.uri, size) for one, size, _ in place.list()] == [("s3a://tidings/warehouse/files/a b", 5)]
    before = fingerprint(place)
    place.under("a b").move(place.under("below", "c"))
    assert fingerprint(place) != before
    assert place.under("below", "c").is_file()
    place.remove_folder()
    assert not place.under("below", "c").exists()


def test_of_two_commits_of_one_version_one_succeeds(bucket: StoragePath) -> None:
    place = bucket.under("table")
    log = DeltaLog(place, Schema([Field("n", PrimitiveType("long"))]))
    assert log.commit(None, staged(log, place, "1", [1, 2, 3]), [], 1)  # type: ignore[arg-type]
    assert not log.commit(None, staged(log, place, "other", [9]), [], 2)  # type: ignore[arg-type]
    one, other = log.load(), log.load()
    assert log.commit(one, staged(log, place, "2", [4]), [], 3)  # type: ignore[arg-type]
    assert not log.commit(other, staged(log, place, "3", [5]), [], 4)  # type: ignore[arg-type]
    found = log.load()
    assert found is not None
    assert (found.version(), found.transaction_version("tidings")) == (1, 3)
    assert sorted(pl.read_delta(place.url)["n"]) == [1, 2, 3, 4]
    assert sorted(pl.read_delta(place.url, version=0)["n"]) == [1, 2, 3]


def test_others_read_the_files_of_a_table(bucket: StoragePath) -> None:
    place = bucket.under("read")
    log = DeltaLog(place, Schema([Field("n", PrimitiveType("long"))]))
    assert log.commit(None, staged(log, place, "1", list(range(100))), [], 1)  # type: ignore[arg-type]
    rows = duckdb.from_arrow(DeltaTable(place.url).to_pyarrow_table())
    assert rows.aggregate("count(*), sum(n)").fetchall() == [(100, 4950)]


def test_workers_read_segments_there(bucket: StoragePath, tmp_path: Path) -> None:
    row = {"run": "r#1", "experiment": "r", "seed": None, "started_ms": 1, "ended_ms": 2, "outcome": "done"}
    row |= {"parameters": "{}", "environment": "{}"}
    SegmentWriter(tmp_path, RUNS, "lab").append([row], 1_000)
    (segment,) = (tmp_path / "runs").glob("*.parquet")
    place = bucket.under("segments", "runs", segment.name)
    place.write(segment.read_bytes())
    assert verified(place, RUNS).num_rows == 1


def test_what_is_no_place_is_refused_with_its_name() -> None:
    for uri in ("nfs4://host/x", "s3a:///x"):
        with pytest.raises(UsageError, match=f"E_PIPELINE_PLACE: {uri}"):
            StoragePath.of(uri).open()
