"""kill -9 at random instants: everything acknowledged is there, batches are whole or absent, the store opens.

More of it: TIDINGS_CRASHES=500 python -m pytest tests/integration/broker/test_crash.py
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from hardening.contracts.store import check_same
from hardening.kills.store_writer import LIMITS, batch

from tidings.delivery.store import MemoryStore
from tidings.store.sqlite.store import SqliteStore

CRASHES = int(os.environ.get("TIDINGS_CRASHES", "30"))


def run_and_kill(path: Path, seed: int, done: int, written: bool, delay_s: float) -> int:
    """Let a child write on from batch `done`; kill it some time after it is up, or has `written` for the first time.

    Returns the last batch it acknowledged.
    """
    arguments = [sys.executable, "-m", "hardening.kills.store_writer", str(path), str(seed), str(done)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        done += int(process.stdout.readline()) - done if written else 0
        time.sleep(delay_s)
        assert process.poll() is None
        process.kill()
        whole = process.stdout.read().rpartition(b"\n")[0].split()
    return int(whole[-1]) if whole else done


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    path, model, done = tmp_path / "store.db", MemoryStore(), 0
    for turn in range(CRASHES):
        acknowledged = run_and_kill(path, seed, done, turn % 2 == 0, rng.choice((0.005, 0.03, 0.15)) * rng.random())
        store = SqliteStore(path, LIMITS)
        found = int(store.recover().notes.get("batch", b"0"))
        assert acknowledged <= found <= acknowledged + 1, f"seed {seed}"
        for number in range(done + 1, found + 1):
            model.append(batch(seed, number))
        check_same(store, model, torn=True)  # a kill between the header of a page and its content
        store.close()
        done = found
    assert done >= CRASHES // 2, "the children did get to write"
