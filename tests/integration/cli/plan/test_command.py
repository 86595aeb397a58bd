"""`tidings plan tracking`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.broker.config import load as config
from tidings.cli import make_app
from tidings.cli.plan.command import parse_size
from tidings.errors import UsageError
from tidings.tracking.plan.matching_set import judge
from tidings.tracking.recording.history import BloomSettings, Mode

WISH = ["plan", "tracking", "--efpp", "1e-5", "--rate", "5000", "--memory", "10kB"]

WISHES = [
    ("1e-5", "50000", "10kB", "10"),
    ("1e-5", "0.5", "10kB", "10"),
    ("1e-5", "0.5", "10kB", "60000"),
    ("0.5", "1e9", "500MB", "10"),
]


@pytest.mark.parametrize("wish", WISHES)
def test_the_configuration_takes_what_is_proposed(tmp_path: Path, wish: tuple[str, ...]) -> None:
    options = [one for pair in zip(("--efpp", "--rate", "--memory", "--skew"), wish, strict=True) for one in pair]
    result = CliRunner().invoke(make_app(["plan"]), ["plan", "tracking", *options, "--json"])
    row = json.loads(result.output)
    keys = ("bits", "capacity", "hashes", "persist_ms", "skew_ms", "jitter_ms", "skew_between_brokers_ms")
    lines = ["[tracking]", *(f"{key} = {row[key]}" for key in keys), f"efpp = {wish[0]}", f"rate = {float(wish[1])}"]
    (tmp_path / "broker.toml").write_text("\n".join(lines))
    assert config.load(tmp_path / "broker.toml").tracking.persist_ms == row["persist_ms"]


def test_a_table_for_people() -> None:
    result = CliRunner().invoke(make_app(["plan"]), WISH)
    assert result.exit_code == 0
    for text in ("|M|", "efpp", "T_s", "bytes", "79,488"):
        assert text in result.output


def test_json_for_programs_gives_settings_that_hold() -> None:
    result = CliRunner().invoke(make_app(["plan"]), [*WISH, "--jitter", "50", "--mode", "rotate", "--json"])
    row = json.loads(result.output)
    names = ("capacity", "bits", "hashes", "skew_ms", "jitter_ms")
    made = BloomSettings(**{name: row[name] for name in names}, mode=Mode(row["mode"]))
    found = judge(made, 5000, row["persist_ms"], 1e-5).demand()
    assert found.efpp == pytest.approx(row["efpp"])
    assert row["bytes_per_message"] == pytest.approx(row["bits"] / 8 / row["capacity"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--efpp", "1e-9", "--rate", "500000", "--memory", "1kB", "--skew", "100"], "E_PLAN_IMPOSSIBLE"),
        (["--efpp", "2", "--rate", "5000", "--memory", "1kB"], "E_TRACKING_EFPP"),
        (["--efpp", "0.1", "--rate", "5000", "--memory", "a lot"], "E_PLAN_MEMORY"),
    ],
)
def test_refusals_are_one_line_and_status_2(arguments: list[str], code: str) -> None:
    result = CliRunner().invoke(make_app(["plan"]), ["plan", "tracking", *arguments])
    assert result.exit_code == 2
    assert code in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", "kB", "-5", "10 XB", "1e3", "10kBB"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="E_PLAN_MEMORY"):
        parse_size(text)
