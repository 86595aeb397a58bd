"""Names that last: what was made, linked or renamed is there after a power failure once its directory is synced."""

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
