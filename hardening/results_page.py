"""Writes the page of hardening results and the log of runs from the records of the campaigns.

python -m hardening.results_page                       # docs/results.md and bench/results/hardening/runs.md
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "hardening"
PAGE = ROOT / "docs" / "results.md"
LOG = RESULTS / "runs.md"
PAGE_TEXT = """# Hardening results

Totals of the hardening campaigns and the last run of each. Every run appends a record to `bench/results/hardening`,
also a run that fails; `wrong` counts the violations that were found. `bench/results/hardening/runs.md` lists all runs.
Both pages are written by `python -m hardening.results_page`, and a test holds that they are current.

## Totals
| campaign | command | runs | totals |
|---|---|---|---|
{totals}

## Last runs
| campaign | date | commit | seed | result |
|---|---|---|---|---|
{last}
"""
LOG_TEXT = """# Log of hardening runs

Written by `python -m hardening.results_page` from the records in this folder.

| campaign | date | commit | seed | result |
|---|---|---|---|---|
{rows}
"""
COMMANDS = {
    "simulation": "make sim",
    "pan": "make pan",
    "hermes": "make hermes",
    "covering": "make covering",
    "traces": "make traces",
    "differential": "make differential",
    "kills of one broker": "make crash",
    "kills in a network": "make crash",
    "kills and queues": "python -m hardening.kills.network_queues",
    "kills and moves": "python -m hardening.kills.moving_subscribers",
    "kills and limits": "python -m hardening.kills.queue_limits",
    "a stopped broker and a killed one": "make crash",
    "kills of brokers and databases": "make crash-database",
    "fail-over of a pair on one store": "make failover",
    "fail-over of a pair on two hosts": "make hosts",
    "MQTT sessions": "python -m hardening.kills.mqtt",
    "rolling changes": "make rolling",
    "power failures": "make crash",
    "damaged stores": "make crash",
    "partitions": "make partition",
    "congestion": "make congestion",
    "a far slow subscriber": "make congestion",
    "access": "python -m hardening.access.matrix",
    "fuzzing": "make fuzz",
    "threads": "make tsan",
    "load": "make load",
    "logins beside strangers": "python -m hardening.innocent.logins",
    "audit": "make audit",
}
MEASURED = ("_ms", "_ms_95")  # ends of names of figures that are not summed
SETTINGS = {"sets", "seconds", "minutes"}  # parameters of a run, which are not summed
COMMON = {
    "what",
    "parser",
    "parameter",
    "kind",
    "date",
    "version",
    "commit",
    "machine",
    "system",
    "python",
    "cpu",
    "seed",
    "first",
}


def lines() -> list[dict[str, Any]]:
    """The records of all runs that did something, by campaign and date."""
    records = [json.loads(line) for path in sorted(RESULTS.glob("*.json")) for line in path.read_text().splitlines()]
    records = [record for record in records if record.get("seeds") != 0]
    return sorted(records, key=lambda record: (list(COMMANDS).index(record["what"]), record["date"]))


def campaign(record: dict[str, Any]) -> str:
    detail = (
        record.get("parser") or record.get("parameter") or (record.get("kind") if record["what"] == "load" else None)
    )
    return f"{record['what']}: {detail}" if detail else str(record["what"])


def campaigns() -> dict[str, list[dict[str, Any]]]:
    """The records of each campaign, oldest first; every parser, parameter and load scenario is one of its own."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in lines():
        groups[campaign(record)].append(record)
    return groups


def row(record: dict[str, Any]) -> str:
    shown = {name: value for name, value in record.items() if name not in COMMON}
    figures = ", ".join(f"{name.replace('_', ' ')} {_number(value)}" for name, value in shown.items())
    seed = record.get("seed", f"from {record['first']}" if "first" in record else "")
    return f"| {campaign(record)} | {record['date'][:16]} | {record['commit']} | {seed} | {figures} |"


def total(name: str, runs: list[dict[str, Any]]) -> str:
    """One line of the table of totals. Measurements cannot be summed: only their runs are counted."""
    sums: Counter[str] = Counter()
    if runs[0]["what"] not in ("load", "threads", "audit", "logins beside strangers"):
        for record in runs:
            counted = {name: value for name, value in record.items() if name not in COMMON | SETTINGS}
            counted = {name: value for name, value in counted.items() if not name.endswith(MEASURED)}
            sums.update({name: value for name, value in counted.items() if type(value) is int})
    elif any("wrong" in record for record in runs):
        sums["wrong"] = sum(record.get("wrong", 0) for record in runs)
    figures = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in sums.items())
    return f"| {name} | `{COMMANDS[runs[0]['what']]}` | {len(runs)} | {figures} |"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def page() -> str:
    groups = campaigns()
    totals = [total(name, runs) for name, runs in groups.items()]
    return PAGE_TEXT.format(totals="\n".join(totals), last="\n".join(row(runs[-1]) for runs in groups.values()))


def log() -> str:
    return LOG_TEXT.format(rows="\n".join(row(record) for record in lines()))


if __name__ == "__main__":
    PAGE.write_text(page())
    LOG.write_text(log())
