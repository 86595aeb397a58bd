"""The Grafana dashboard and the alert rules name only metrics and labels that brokers export."""

import json
import re
from pathlib import Path

import tidings.broker.http.metrics
import tidings.broker.tuning.capacity_monitor

ROOT = Path(__file__).parents[3]
ALERTS, DASHBOARD = ROOT / "deploy" / "alerts.yaml", ROOT / "deploy" / "grafana.json"
SOURCES = (tidings.broker.http.metrics, tidings.broker.tuning.capacity_monitor)
GIVEN = {"instance", "job"}  # labels that Prometheus adds
EXPRESSION = re.compile(r"^ +expr: (.+)$", re.MULTILINE)
METRIC = re.compile(r"tidings_(\w+)(?:\{([^}]*)\})?")


def exported() -> tuple[set[str], set[str]]:
    """Names of metrics, and of labels."""
    source = "".join(Path(module.__file__ or "").read_text() for module in SOURCES)
    return set(re.findall(r'"([a-z]+(?:_[a-z]+)*)"', source)), set(re.findall(r'\{?"([a-z]+)":', source))


def check(expression: str) -> int:
    names, labels = exported()
    labels |= set(tidings.broker.http.metrics.LABELS.values())
    found = METRIC.findall(expression)
    for name, inside in found:
        assert name in names, f"no broker exports tidings_{name}: {expression}"
        assert set(re.findall(r"(\w+)\s*[=!]", inside)) <= labels | GIVEN, expression
    return len(found)


def test_alerts_watch_what_brokers_export_and_the_runbook_explains_it() -> None:
    text = ALERTS.read_text()
    expressions = EXPRESSION.findall(text)
    assert len(expressions) == text.count("- alert:") == text.count("summary:") == 10
    assert all(check(one) for one in expressions)
    assert "deploy/alerts.yaml" in (ROOT / "docs" / "runbook.md").read_text()


def test_every_panel_shows_what_brokers_export() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == len(panels) == 12
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert check(target["expr"]) == 1
            _, labels = exported()
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= labels | GIVEN | set(tidings.broker.http.metrics.LABELS.values())
    places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels}
    assert len(places) == len(panels), "panels lie on each other"
