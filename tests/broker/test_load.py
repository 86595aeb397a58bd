"""Half frames, changing subscriptions: a little of it; `make load` for more, and for a soak."""

from pathlib import Path

from tidings.testing.load import churn, half_frames


def test_half_frames_hold_up_nobody(tmp_path: Path) -> None:
    figures = half_frames(50, tmp_path, login_seconds=3.0)
    assert figures["kib each"] < 1000


def test_messages_arrive_in_order_while_subscriptions_change(tmp_path: Path) -> None:
    assert churn(100, 200, 1.0, tmp_path)["messages"] > 5
