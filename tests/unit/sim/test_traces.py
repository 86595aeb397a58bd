"""Traces under faults, of ids that moved, come again or are invented: a sample of `make traces`."""

import pytest
from hardening.machines.tracing import WAYS, Run


@pytest.mark.parametrize("seed", [3, 5, 7])
def test_no_trace_is_wrong(seed: int) -> None:
    figures = Run(seed).run()
    assert figures["deliveries"] > figures["traces"] >= 100
    assert all(figures[way.replace(", ", "_").replace(" ", "_")] for way in WAYS)
