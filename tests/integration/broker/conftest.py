from collections.abc import Iterator
from pathlib import Path

import pytest
from hardening.support.certificates import Authority

from tidings.broker import logs


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def own_logging() -> Iterator[None]:
    """What a test does to the loggers of a broker ends with it."""
    loggers = (logs.ROOT, logs.LOOP)
    before = [(list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate
