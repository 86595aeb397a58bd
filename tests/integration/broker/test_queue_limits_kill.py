"""A broker whose queues have limits is killed under load; `hardening.kills.queue_limits` does it more often."""

import pytest
from hardening.kills import queue_limits


@pytest.mark.slow
def test_limits_hold_and_nothing_else_is_lost_over_kills() -> None:
    figures = queue_limits.campaign(2, seed=7)
    assert figures["confirmed"] > queue_limits.LIMIT
