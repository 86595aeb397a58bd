"""Seven broker processes under covering, small: what is counted is what happened."""

from pathlib import Path

from hardening.support.links import free_ports

from tidings.experiments.covering.real_pruning import RealPruningOptions, measure
from tidings.figures.real_pruning import draw


def test_roots_that_go_are_replaced_all_the_way_with_active(tmp_path: Path) -> None:
    options = RealPruningOptions(
        covered=60, roots=6, rate=30.0, before_seconds=0.5, after_seconds=0.5, port=free_ports(21)[0]
    )
    found = measure("active", options, tmp_path / "net")
    assert found.control["1"] >= 60 + 6 - 6  # each covered one is new to the publisher's broker, the six go
    assert found.control["5"] == found.control["6"] == found.control["7"] == 0  # nobody publishes beyond them
    assert found.entries["1"] <= 60
    assert found.preserved == 0
    assert found.published > 0
    draw([found], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
