"""One server for all tests of a session; each has a database of its own."""

from collections.abc import Iterator

import pytest
from hardening.support.postgresql import Cluster, cluster


@pytest.fixture(scope="session")
def server() -> Iterator[Cluster]:
    with cluster() as running:
        yield running
