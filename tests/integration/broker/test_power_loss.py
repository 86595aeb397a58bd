"""Power failures, cut files and flipped bits; `make crash` for many more."""

import random
from pathlib import Path

import pytest
from hardening.kills.line import crash_network
from hardening.kills.power_loss import (
    ACKNOWLEDGED,
    SYNCED,
    Act,
    after_power_loss,
    build,
    judge,
    power_losses,
    watched_writer,
)
from hardening.kills.store_damage import damage


def test_what_was_acknowledged_survives_a_power_failure_at_any_instant() -> None:
    assert power_losses(30, seed=1) > 200


def test_a_store_that_is_not_synced_would_be_noticed(tmp_path: Path) -> None:
    written = tmp_path / "written"
    written.mkdir()
    done = watched_writer(build(tmp_path), written, 5, tmp_path / "log")
    lazy = [act for act in done if act.kind != SYNCED and act.file != ACKNOWLEDGED]
    rng, failures = random.Random(1), 0
    for number in range(10):
        image = tmp_path / f"image {number}"
        image.mkdir()
        try:
            judge(after_power_loss(lazy, rng), sum(act.file == ACKNOWLEDGED for act in done), 5, image)
        except AssertionError:
            failures += 1
    assert failures > 3


def test_a_torn_write_ends_at_a_sector() -> None:
    done = [Act(1, "a", 0, bytes([1]) * 4096)]
    sizes = {len(after_power_loss(done, random.Random(seed)).get("a", b"")) for seed in range(200)}
    assert len(sizes) > 4
    assert all(size % 512 == 0 for size in sizes)


def test_cut_stores_are_whole_up_to_the_cut_and_flipped_bits_are_noticed() -> None:
    cuts, noticed = damage(60, 2, cut_step=401)
    assert cuts > 8
    assert noticed > 20


@pytest.mark.parametrize("seed", [1])
def test_brokers_of_a_network_may_be_killed(seed: int) -> None:
    (ledger,) = crash_network(3, seed=seed)
    assert len(ledger.confirmed) > 50
