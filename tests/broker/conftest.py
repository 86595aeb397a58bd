from pathlib import Path

import pytest

from tidings.testing.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)
