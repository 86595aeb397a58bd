"""The tables of rules of MQTT and AMQP in the documentation: complete, and every test that they name exists."""

import ast
import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "mqtt": ("tests/unit/protocols/mqtt", "tests/integration/protocols/mqtt"),
    "amqp": ("tests/unit/protocols/amqp",),
}
STATEMENTS = "tests/unit/protocols/mqtt/test_statements.py"
# How many numbered statements each section has.
MQTT_5 = """
1.5.4:3 1.5.5:1 1.5.7:1 2.1.3:1 2.2.1:6 2.2.2:1 3.1.0:2 3.1.2:30 3.1.3:12 3.1.4:6 3.2.0:2 3.2.2:22 3.3.1:13 3.3.2:20
3.3.4:10 3.4.2:3 3.5.2:3 3.6.1:1 3.6.2:3 3.7.2:3 3.8.1:1 3.8.3:5 3.8.4:8 3.9.2:2 3.9.3:2 3.10.1:1 3.10.3:2 3.10.4:6
3.11.2:2 3.11.3:2 3.12.4:1 3.14.0:1 3.14.1:1 3.14.2:4 3.14.4:3 3.15.1:1 3.15.2:3 4.1.0:2 4.2.0:1 4.3.1:1 4.3.2:5
4.3.3:13 4.4.0:2 4.5.0:2 4.6.0:6 4.7.0:1 4.7.1:2 4.7.2:1 4.7.3:4 4.8.2:6 4.9.0:3 4.12.0:7 4.12.1:2 4.13.1:1 4.13.2:1
6.0.0:4
"""
MQTT_3_1_1 = """
1.5.3:3 2.2.2:2 2.3.1:7 3.1.0:2 3.1.2:24 3.1.3:11 3.1.4:5 3.2.0:1 3.2.2:6 3.3.1:12 3.3.2:3 3.3.4:1 3.3.5:2 3.6.1:1
3.8.1:1 3.8.3:4 3.8.4:6 3.9.3:2 3.10.1:1 3.10.3:2 3.10.4:6 3.12.4:1 3.14.1:1 3.14.4:3 4.1.0:2 4.2.0:1 4.3.1:1 4.3.2:2
4.3.3:2 4.4.0:1 4.5.0:2 4.6.0:6 4.7.1:3 4.7.2:1 4.7.3:4 4.8.0:2 6.0.0:4
"""
NO_NUMBER = {"2.2.1-1"}  # the standard has none


def numbers(sections: str) -> set[str]:
    counted = (one.split(":") for one in sections.split())
    return {f"{section}-{n}" for section, count in counted for n in range(1, int(count) + 1)} - NO_NUMBER


def table(part: str) -> list[tuple[str, str]]:
    """The statements and the last column of each row."""
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if re.match(r"\| [\d.]+-\d", line)]
    return [(row[0], row[-1]) for row in rows]


@cache
def functions(path: Path) -> set[str]:
    found = ast.walk(ast.parse(path.read_text()))
    return {one.name for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_statement_of_mqtt_is_in_the_table_once() -> None:
    fifth, third = (ROOT / "docs/mqtt.md").read_text().split("## MQTT 3.1.1")
    for part, wanted in ((fifth, MQTT_5), (third, MQTT_3_1_1)):
        listed = list(chain.from_iterable(cell.split(", ") for cell, _ in table(part)))
        assert len(listed) == len(set(listed))
        assert set(listed) == numbers(wanted)


def test_rows_that_the_table_of_mqtt_names_are_there() -> None:
    rows = set(re.findall(r'\(\s*"MQTT-([\d.]+-\d+)"', (ROOT / STATEMENTS).read_text()))
    wanted = set[str]()
    for cell, tests in table((ROOT / "docs/mqtt.md").read_text().split("## MQTT 3.1.1")[0]):
        for one in tests.split(", "):
            if one.startswith("row "):
                wanted.add(one.removeprefix("row "))
            elif one == "row":
                wanted |= set(cell.split(", "))
    assert wanted - rows == set()


@pytest.mark.parametrize("page", FOLDERS)
def test_every_test_that_a_table_names_exists(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text()
    last, wrong = "", list[str]()
    for path, name in re.findall(r"`(?:([\w/]+\.py)?::)?(test_\w+)`", text):
        last = path or last
        file = path or ("test_transport.py" if f"`{name}`" in text else last)
        folders = ("",) if "/" in file else FOLDERS[page]
        places = [ROOT / folder / file for folder in folders]
        if not any(place.is_file() and name in functions(place) for place in places):
            wrong.append(f"{file}::{name}")
    assert wrong == []
