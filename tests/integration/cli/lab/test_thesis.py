"""`tidings lab thesis`: the printed numbers come out again, beside a model of ours."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.capacity.processing import Fitted
from tidings.cli import make_app
from tidings.errors import UsageError


def test_tables_are_those_of_the_thesis_and_ours_is_beside_them(tmp_path: Path) -> None:
    app, runner, model, picture = make_app(["lab"]), CliRunner(), tmp_path / "m.json", tmp_path / "thesis.png"
    model.write_text(Fitted.of("base", t_rcv=1e-6, t_fltr=1e-8, t_tx=1e-7).to_json())
    wish = ["lab", "thesis", "--model", str(model), "-o", str(picture)]
    found = json.loads(runner.invoke(app, [*wish, "--json"], catch_exceptions=False).output)
    rows = {(one["server"], one["replication"], one["different"]): one["received"] for one in found["throughput"]}
    assert rows["fiorano-property", 1, 100] == pytest.approx(676, rel=0.015)
    assert rows["sunmq-property", 10, 10] == pytest.approx(1333, rel=0.015)
    assert rows["this model", 1, 100] == pytest.approx(1 / 2.1e-6)
    pays = {(one["server"], one["filters"]): one["match"] for one in found["filters_pay_below"]}
    assert pays["fiorano-correlation-id", 1] == pytest.approx(0.587, abs=5e-4)
    waits = {(one["c_var"], one["utilisation"]): one["99.99%"] for one in found["waiting"]}
    assert waits[0.0, 0.9] == pytest.approx(43.44, abs=0.01)
    assert waits[0.4, 0.9] == pytest.approx(51.06, abs=0.01)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "Table 4.7" in runner.invoke(app, ["lab", "thesis"], catch_exceptions=False).output
    model.write_text("{}")
    with pytest.raises(UsageError, match=r"m\.json"):
        runner.invoke(app, wish, catch_exceptions=False)
