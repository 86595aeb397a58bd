"""Calibration of a running broker over every protocol: few points, and the answers that follow."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.capacity.cost_file import CalibratedModel
from tidings.cli import make_app
from tidings.errors import UsageError
from tidings.lab.calibration.load import LoadPoint, connected_load
from tidings.lab.calibration.measure import ResultsFile
from tidings.lab.calibration.meters import MeterOverhead, MetricsMeter, ProcessMeter, SocketWaits
from tidings.lab.calibration.scenarios import scenarios
from tidings.lab.calibration.target import CLIENTS, CalibrationTarget
from tidings.lab.calibration.wires import ClientAccount
from tidings.testing.broker_process import BrokerProcess

PROTOCOLS = ("native", "stomp", "amqp", "mqtt")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    others = "".join(f'[[listeners]]\nprotocol = "{name}"\nport = 0\n' for name in PROTOCOLS[1:])
    with BrokerProcess(tmp_path_factory.mktemp("b"), others + '[broker]\ndata = "data"\n', level="info") as process:
        yield process


def addresses(broker: BrokerProcess) -> dict[str, str]:
    return {str(one["protocol"]): f"127.0.0.1:{one['port']}" for one in broker.events("listening")}


def metrics(broker: BrokerProcess) -> str:
    return f"127.0.0.1:{broker.events('metrics')[-1]['port']}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("persistent", [False, True])
def test_every_protocol_delivers_what_it_was_sent(broker: BrokerProcess, protocol: str, persistent: bool) -> None:
    if persistent and protocol == "mqtt":
        return
    host, port = addresses(broker)[protocol].split(":")
    target = CalibrationTarget((host, int(port)), protocol, MetricsMeter(metrics(broker)))
    point = LoadPoint(protocol, persistent, 300, 4, 3, 2, 4, 0.5, publishers=3, in_flight=7)
    with connected_load(target.address, point, target.client, f"tidings.lab.t.{protocol}") as load:
        load.run(0.05, messages_min=30)
        found = load.measure(target.meter, MeterOverhead(), 0.05, messages_min=30)
        assert load.sent == load.arrived
        assert load.in_flight == 0
    assert found.messages >= 30
    assert found.cpu_s > 0
    assert found.client_s
    assert found.waits is not None
    assert "tidings.lab" not in broker.get("/metrics")  # no durable subscription is left


def test_a_broker_is_calibrated_and_answers(broker: BrokerProcess, tmp_path: Path) -> None:
    app, runner, model = make_app(["lab", "plan"]), CliRunner(), tmp_path / "model.json"
    short = ["--minutes", "0", "--seconds", "0.25", "--points", "3", "-o", str(model), "--metrics", metrics(broker)]
    where = addresses(broker)["stomp"]
    shown = runner.invoke(app, ["lab", "calibrate", where, "--protocol", "stomp", *short], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert re.search(r"errors held out: rms [0-9.]+%", shown.output)
    measured = (tmp_path / "model.stomp.jsonl").read_text()
    again = runner.invoke(app, ["lab", "calibrate", where, "--protocol", "stomp", *short], catch_exceptions=False)
    assert again.exit_code == 0
    assert (tmp_path / "model.stomp.jsonl").read_text() == measured  # nothing was measured twice
    costs = CalibratedModel.from_json(model.read_text()).costs("stomp")
    assert (costs.domain["body"], costs.persistent) == ((0, 16_000), (False,))
    wish = ["plan", "capacity", "--model", str(model), "--protocol", "stomp", "--subscribers", "20", "--match", "0.3"]
    answer = json.loads(runner.invoke(app, [*wish, "--rate", "100", "--json"], catch_exceptions=False).output)
    low, middle, high = answer["saturated"]
    assert 0 < low < middle < high
    assert answer["outside"] == []
    check = [*("lab", "validate", str(model), "--broker", f"stomp={where}", "--metrics", metrics(broker))]
    files = {name: tmp_path / name for name in ("found.json", "found.png")}
    check += ["--only", "13", "--seconds", "0.2", "-o", str(files["found.json"]), "--picture", str(files["found.png"])]
    assert "throughput within 10%" in runner.invoke(app, check, catch_exceptions=False).output
    assert json.loads(files["found.json"].read_text())["scenarios"][0]["throughput"] > 0
    assert files["found.png"].read_bytes().startswith(b"\x89PNG")


def test_cpu_time_is_read_from_the_process_too(broker: BrokerProcess) -> None:
    by_pid, by_metrics = ProcessMeter((broker.process.pid,)), MetricsMeter(metrics(broker))
    assert by_pid.read().cpu_s == pytest.approx(by_metrics.read().cpu_s, abs=0.2)
    with pytest.raises(UsageError, match="E_LAB_PID"):
        ProcessMeter((1 << 30,)).read()
    with pytest.raises(UsageError, match=r"E_LAB_METRICS: .*--metrics HOST:PORT"):
        MetricsMeter("127.0.0.1:1").read()


def test_refusals_name_their_reason(broker: BrokerProcess, tmp_path: Path) -> None:
    app, where = make_app(["lab"]), addresses(broker)
    for arguments, code in (
        (["localhost"], "E_LAB_ADDRESS"),
        ([where["native"], "--protocol", "openwire"], "E_LAB_PROTOCOL"),
        ([where["mqtt"], "--protocol", "mqtt", "--persistent"], "E_LAB_PROTOCOL"),
        ([where["native"], "--pid", "1", "--saturated"], "E_USAGE"),
    ):
        with pytest.raises(UsageError, match=code):
            CliRunner().invoke(
                app, ["lab", "calibrate", *arguments, "-o", str(tmp_path / "m.json")], catch_exceptions=False
            )
    for protocol, client in CLIENTS.items():
        address = where["native" if protocol != "native" else "stomp"].split(":")
        maker = partial(client, ClientAccount())
        with (
            pytest.raises(UsageError, match="E_LAB_REFUSED"),
            connected_load((address[0], int(address[1])), LoadPoint(), maker, "t"),
        ):
            raise AssertionError(protocol)


def test_results_are_of_one_calibration(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    ResultsFile(path, {"seed": 1})
    path.write_text(path.read_text() + '{"name": "cut o')
    assert ResultsFile(path, {"seed": 1}).points == []
    with pytest.raises(UsageError, match="another calibration"):
        ResultsFile(path, {"seed": 2})
    path.write_text("[]\n")
    with pytest.raises(UsageError, match="holds no results"):
        ResultsFile(path, {"seed": 1})


def test_waits_are_quantiles_of_the_histogram() -> None:
    before = SocketWaits(1.0, 10, ((1e-5, 10.0), (1e-4, 10.0), (float("inf"), 10.0)))
    after = SocketWaits(1.01, 110, ((1e-5, 60.0), (1e-4, 110.0), (float("inf"), 110.0)))
    waits = after.since(before)
    assert waits.mean == pytest.approx(1e-4)
    assert waits.quantile(0.25) == pytest.approx(5e-6)
    assert waits.quantile(0.75) == pytest.approx(10**-4.5)
    assert waits.quantile(1.0) == pytest.approx(1e-4)


def test_thirty_scenarios_span_what_was_promised() -> None:
    found = scenarios()
    assert len(found) == 30
    assert len(set(found)) == 30
    for name, low, high in (("body", 0, 16_000), ("properties", 1, 30), ("publishers", 1, 50), ("in_flight", 1, 500)):
        values = [getattr(one, name) for one in found]
        assert (min(values), max(values)) == (low, high)
    assert {one.protocol for one in found} == {"native", "stomp", "amqp"}
    assert {(one.persistent, one.together) for one in found} == {(a, b) for a in (False, True) for b in (False, True)}
    assert all(replace(one, rate=1.0).traffic.filters >= 1 for one in found)
