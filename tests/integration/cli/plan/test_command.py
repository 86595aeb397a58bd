"""`tidings plan tracking`."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

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


@contextmanager
def page_of(text: str) -> Iterator[str]:
    """A server of metrics."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


KNOWN = """tidings_capacity_messages_per_second 40000
tidings_capacity_interval{bound="low"} 36000
tidings_capacity_interval{bound="high"} 44000
tidings_cost_seconds{cost="t_batch"} 2e-05
tidings_cost_seconds{cost="t_write"} 5e-06
tidings_cost_seconds{cost="t_rcv"} 1e-06
tidings_cost_seconds{cost="t_fltr"} 0.0
tidings_cost_seconds{cost="t_tx"} 2e-07
tidings_load{of="filters"} 50.0
tidings_load{of="subscribers"} 50.0
tidings_load{of="match"} 0.04
tidings_load{of="bytes_in"} 100.0
tidings_load{of="bytes_out"} 120.0
tidings_load{of="stored"} 0.0
tidings_load{of="together"} 1.0
"""


def test_a_running_broker_is_asked_for_what_it_knows(tmp_path: Path) -> None:
    def ask(*options: str) -> Result:
        return CliRunner().invoke(make_app(["plan"]), ["plan", "capacity", *options])

    with page_of(KNOWN) as known, page_of("tidings_capacity_measuring 1.0\n") as quiet:
        answer = ask("--from-broker", known, "--body", "6000", "--rate", "100")
        assert answer.output.startswith("outside of what was measured: bytes_in is 6000")
        assert "100 messages/s: yes" in answer.output
        row = json.loads(ask("--from-broker", known, "--json").output)
        assert row["busiest"][0] < row["busiest"][1] < row["busiest"][2]
        assert "does not know its costs yet" in str(ask("--from-broker", quiet).exception)
    assert "cannot read the metrics" in str(ask("--from-broker", quiet).exception)
    assert "choose one of" in str(ask("--from-broker", "x:1", "--model", str(tmp_path / "m")).exception)
    assert "give --model and --subscribers" in str(ask("--subscribers", "5").exception)
