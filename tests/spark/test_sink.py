"""The sink under killed drivers: rows of files are published once, whatever cores and partitions a restart has."""

import random
from pathlib import Path

from hardening.kills.spark import hurt_file_stream


def test_rows_of_files_are_published_once_through_killed_drivers_with_other_cores(tmp_path: Path) -> None:
    assert hurt_file_stream(tmp_path, 2, random.Random(32), files=4, rows_each=40) == 160
