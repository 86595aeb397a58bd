"""Half frames, changing subscriptions: a little of it; `make load` for more, and for a soak."""

from pathlib import Path

from hardening.load.scenarios import churn, half_frames, silent, soak


def test_half_frames_hold_up_nobody(tmp_path: Path) -> None:
    figures = half_frames(50, tmp_path, login_seconds=3.0)
    assert figures["kib each"] < 1000


def test_messages_arrive_in_order_while_subscriptions_change(tmp_path: Path) -> None:
    assert churn(100, 200, 1.0, tmp_path)["messages"] > 5


def test_one_that_never_reads_costs_little_memory_and_no_message(tmp_path: Path) -> None:
    assert silent(5, tmp_path, seconds=0.5)["messages"] > 0


def test_a_soak_looks_at_each_message_beside_a_stream(tmp_path: Path) -> None:
    figures = soak(0.03, tmp_path, calibration_seconds=0.5, growth=1.5)
    assert figures["looked at"] > 0
    assert figures["messages"] > figures["looked at"]
