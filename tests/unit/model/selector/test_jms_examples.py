"""The selector language by example: text, properties, answer. Each table reads as a section of JMS 2.0.

Answers: True, False, None (unknown). A message is delivered only for True.
"""

import math
from typing import Any

import pytest

from tidings import Selector
from tidings.kernel.plain_selector import plain_predicate
from tidings.model.codec import encode_constraint, encode_predicate
from tidings.model.destination import DestinationPattern
from tidings.node.clients.subscription_plan import predicate_of

Row = tuple[str, dict[str, Any], bool | None]

BLANK: list[Row] = [
    ("", {}, True),
    (" \t\n\r\f ", {"a": 1}, True),
    ("TRUE", {}, True),
    ("false", {}, False),
]

LITERALS: list[Row] = [
    ("name = 'literal''s'", {"name": "literal's"}, True),
    ("name = ''", {"name": ""}, True),
    ("name = '  '", {"name": " "}, False),
    ("name = 'AND'", {"name": "AND"}, True),
    ("name = 'Zürich ☃ 😀'", {"name": "Zürich ☃ 😀"}, True),
    ("n = 57", {"n": 57}, True),
    ("n = -957", {"n": -957}, True),
    ("n = +62", {"n": 62}, True),
    ("n = 62L", {"n": 62}, True),
    ("n = 0x1F", {"n": 31}, True),
    ("n = 0Xffl", {"n": 255}, True),
    ("n = 017", {"n": 15}, True),
    ("n = 0", {"n": 0}, True),
    ("n = 00", {"n": 0}, True),
    ("n = 9223372036854775807", {"n": 2**63 - 1}, True),
    ("n = -9223372036854775808", {"n": -(2**63)}, True),
    ("n = - 9223372036854775808", {"n": -(2**63)}, True),
    ("n = 0x7fffffffffffffff", {"n": 2**63 - 1}, True),
    ("n = 7E3", {"n": 7000}, True),
    ("n = -57.9E2", {"n": -5790.0}, True),
    ("n = 7.", {"n": 7}, True),
    ("n = .5", {"n": 0.5}, True),
    ("n = -95.7", {"n": -95.7}, True),
    ("n = 57.5e-1", {"n": 5.75}, True),
    ("n = 5d", {"n": 5}, True),
    ("n = 5f", {"n": 5}, True),
    ("n = 1.5D", {"n": 1.5}, True),
    ("n = 08.5", {"n": 8.5}, True),
    ("flag = TRUE", {"flag": True}, True),
    ("flag = True", {"flag": False}, False),
    ("flag <> false", {"flag": True}, True),
]

IDENTIFIERS: list[Row] = [
    ("$price = 1", {"$price": 1}, True),
    ("_x = 1", {"_x": 1}, True),
    ("größe = 1", {"größe": 1}, True),
    ("数量 > 5", {"数量": 6}, True),
    ("Name = 'a'", {"name": "a"}, None),
    ("JMSXGroupID = 'g'", {"JMSXGroupID": "g"}, True),
    ("JMSType = 'car' AND color = 'blue' AND weight > 2500", {"JMSType": "car", "color": "blue", "weight": 3000}, True),
    ("notable = 1", {"notable": 1}, True),
    ("nullable IS NULL", {}, True),
    ("flag", {"flag": True}, True),
    ("flag", {"flag": False}, False),
    ("flag", {}, None),
    ("flag", {"flag": "true"}, False),
    ("flag", {"flag": 1}, False),
    ("NOT flag", {"flag": 1}, True),
]

# Section 3.8.1.1: "only like type values can be compared", numbers of either sort are alike; otherwise false.
COMPARISONS: list[Row] = [
    ("a = b", {"a": 1, "b": 1.0}, True),
    ("'a' = name", {"name": "a"}, True),
    ("5 < n", {"n": 6}, True),
    ("n <> 5", {"n": 6}, True),
    ("n <> 5", {"n": 5.0}, False),
    ("n >= 5", {"n": 5}, True),
    ("n <= 4.999", {"n": 5}, False),
    ("n = '5'", {"n": 5}, False),
    ("n <> '5'", {"n": 5}, False),
    ("NOT n = '5'", {"n": 5}, True),
    ("NOT n <> '5'", {"n": 5}, True),
    ("n > 5", {"n": "6"}, False),
    ("n = 1", {"n": True}, False),
    ("flag = TRUE", {"flag": 1}, False),
    ("'1' = 1", {}, False),
    ("1 = 1.0", {}, True),
    ("n = 9007199254740993", {"n": 2.0**53}, False),
    ("name > 'abc'", {"name": "abd"}, True),
    ("name < 'a'", {"name": "Z"}, True),
    ("name = 'a'", {"name": b"a"}, False),
    ("(a > 1) = TRUE", {"a": 2}, True),
    ("(a > 1) <> (b > 1)", {"a": 2, "b": 1}, True),
    ("(a > 1) = TRUE", {}, None),
    ("n != 5", {"n": 6}, True),
    ("n != 5", {}, None),
    ("order.total > 5", {"order.total": 6}, True),
    ("order.total > 5", {"order": 6, "total": 6}, None),
    ("order.in.stock", {"order.in.stock": True}, True),
    ("EXISTS(a)", {"a": 0}, True),
    ("exists (a.b)", {}, False),
    ("NOT EXISTS(a) AND exists = 1", {"exists": 1}, True),
]

# Not in the specification, which wants an identifier there: any value may be tested.
EXPRESSIONS: list[Row] = [
    ("a + 1 IS NULL", {}, True),
    ("a + 1 IS NULL", {"a": "x"}, True),
    ("a / b IS NOT NULL", {"a": 1, "b": 2}, True),
    ("5 IS NULL", {}, False),
    ("(a > 5) IS NULL", {}, True),
    ("(a > 5) IS NOT NULL", {"a": 1}, True),
    ("a + 1 IN (2, 3)", {"a": 1}, True),
    ("a * 2 NOT IN (2, 3)", {"a": 1}, False),
    ("a + 1 IN (2, 3)", {}, None),
    ("5 IN (4, 5)", {}, True),
    ("'abc' LIKE 'a%'", {}, True),
    ("'abc' NOT LIKE 'a%'", {}, False),
    ("a + 1 LIKE '2'", {"a": 1}, False),
    ("a + 1 LIKE '2'", {}, None),
    ("(name) LIKE 'a_'", {"name": "ab"}, True),
    ("a * 2 BETWEEN 3 AND b + 1", {"a": 2, "b": 3}, True),
    ("5 BETWEEN a AND b", {"a": 1, "b": 9}, True),
]

ARITHMETIC: list[Row] = [
    ("a + 2 * 3 = 7", {"a": 1}, True),
    ("(a + 2) * 3 = 9", {"a": 1}, True),
    ("a - 1 - 1 = 0", {"a": 2}, True),
    ("a / 2 / 2 = 2", {"a": 8}, True),
    ("-a = 5", {"a": -5}, True),
    ("- -a = 5", {"a": 5}, True),
    ("+a = 5", {"a": 5}, True),
    ("+a = 'x'", {"a": "x"}, None),
    ("2 - -2 = 4", {}, True),
    ("10 / 4 = 2.5", {}, True),
    ("-7 / 2 = -3.5", {}, True),
    ("a / 4 > 2", {"a": 10}, True),
    ("a / 1 = 9007199254740993", {"a": 9007199254740993}, True),
    ("7 / 2. = 3.5", {}, True),
    ("a % 3 = 1", {"a": 10}, True),
    ("a % 3 = -1", {"a": -10}, True),
    ("a % 0 = 0", {"a": 10}, None),
    ("a % 2.5 = 0.5", {"a": 5.5}, True),
    ("2 + a % 3 * 2 = 4", {"a": 10}, True),
    ("a % 3 = 1", {"a": "10"}, None),
    ("a / 0 > 1", {"a": 1}, None),
    ("a / 0. > 1", {"a": 1}, True),
    ("0. / 0 = 0", {}, None),
    ("a + 1 > a", {"a": 2**63 - 1}, True),
    ("a + 1 = 9223372036854775808.", {"a": 2**63 - 1}, True),
    ("a + 1 > 0", {"a": "x"}, None),
    ("a + 1 > 0", {"a": True}, None),
    ("a + 1 > 0", {}, None),
]

BETWEEN: list[Row] = [
    ("age BETWEEN 15 AND 19", {"age": 15}, True),
    ("age BETWEEN 15 AND 19", {"age": 19}, True),
    ("age BETWEEN 15 AND 19", {"age": 20}, False),
    ("age BETWEEN 15 AND 19", {}, None),
    ("age BETWEEN 15 AND 19", {"age": "17"}, False),
    ("age NOT BETWEEN 15 AND 19", {"age": 14}, True),
    ("age NOT BETWEEN 15 AND 19", {"age": "17"}, True),
    ("age NOT BETWEEN 15 AND 19", {}, None),
    ("age BETWEEN low AND high", {"age": 5, "low": 1}, None),
    ("age BETWEEN low AND high", {"age": 5, "low": 6}, False),
    ("age NOT BETWEEN low AND high", {"age": 5, "low": 6}, True),
    ("age BETWEEN 1 AND 2 AND x = 1", {"age": 1, "x": 1}, True),
    ("2 * age BETWEEN 1 + 1 AND 6 / 2", {"age": 1}, True),
    ("name BETWEEN 'b' AND 'd'", {"name": "cat"}, True),
]

IN: list[Row] = [
    ("Country IN ('UK', 'US', 'France')", {"Country": "UK"}, True),
    ("Country IN ('UK', 'US', 'France')", {"Country": "Peru"}, False),
    ("Country IN ('UK', 'US', 'France')", {}, None),
    ("Country NOT IN ('UK', 'US', 'France')", {"Country": "Peru"}, True),
    ("Country NOT IN ('UK', 'US', 'France')", {"Country": "UK"}, False),
    ("Country NOT IN ('UK', 'US', 'France')", {}, None),
    ("NOT Country IN ('UK')", {"Country": 5}, True),
    ("n IN (1, -2, 3.5, TRUE)", {"n": -2.0}, True),
    ("n IN (1, -2, 3.5, TRUE)", {"n": True}, True),
    ("n IN (1, -2, 3.5)", {"n": True}, False),
    ("(n) IN ('x')", {"n": "x"}, True),
]

LIKE: list[Row] = [
    ("phone LIKE '12%3'", {"phone": "123"}, True),
    ("phone LIKE '12%3'", {"phone": "12993"}, True),
    ("phone LIKE '12%3'", {"phone": "1234"}, False),
    ("word LIKE 'l_se'", {"word": "lose"}, True),
    ("word LIKE 'l_se'", {"word": "loose"}, False),
    ("underscored LIKE '\\_%' ESCAPE '\\'", {"underscored": "_foo"}, True),
    ("underscored LIKE '\\_%' ESCAPE '\\'", {"underscored": "bar"}, False),
    ("phone NOT LIKE '12%3'", {"phone": "1234"}, True),
    ("phone NOT LIKE '12%3'", {"phone": "123"}, False),
    ("phone LIKE '12%3'", {}, None),
    ("phone NOT LIKE '12%3'", {}, None),
    ("phone LIKE '12%3'", {"phone": 123}, False),
    ("phone NOT LIKE '12%3'", {"phone": 123}, True),
    ("x LIKE '%'", {"x": ""}, True),
    ("x LIKE '%'", {"x": 5}, False),
    ("x LIKE ''", {"x": ""}, True),
    ("x LIKE '_'", {"x": "😀"}, True),
    ("x LIKE 'a\\%'", {"x": "a\\b"}, True),
    ("x LIKE '10!%' ESCAPE '!'", {"x": "10%"}, True),
    ("x LIKE '10!%' ESCAPE '!'", {"x": "100"}, False),
    ("x LIKE 'a!!' ESCAPE '!'", {"x": "a!"}, True),
    ("x LIKE 'a!b' ESCAPE '!'", {"x": "ab"}, True),
    ("x LIKE 'a''%'", {"x": "a'b"}, True),
    ("x LIKE 'A%'", {"x": "abc"}, False),
    ("x LIKE '%\n%'", {"x": "a\nb"}, True),
]

NULLS: list[Row] = [
    ("prop_name IS NULL", {}, True),
    ("prop_name IS NULL", {"prop_name": None}, True),
    ("prop_name IS NULL", {"prop_name": math.nan}, True),
    ("prop_name IS NULL", {"prop_name": ""}, False),
    ("prop_name IS NOT NULL", {"prop_name": 0}, True),
    ("prop_name IS NOT NULL", {}, False),
    ("NOT prop_name IS NULL", {}, False),
    ("a = b", {"a": 1}, None),
    ("NOT a = b", {"a": 1}, None),
    ("a = a", {}, None),
]

# Tables 3-4 to 3-6: AND, OR and NOT over T, F and U. t and f are flags; u is missing.
_FLAGS = {"t": True, "f": False}
LOGIC: list[Row] = [
    *((f"{a} AND {b}", _FLAGS, answer) for a, b, answer in [("t", "t", True), ("t", "f", False), ("t", "u", None)]),
    *((f"{a} AND {b}", _FLAGS, answer) for a, b, answer in [("f", "t", False), ("f", "f", False), ("f", "u", False)]),
    *((f"{a} AND {b}", _FLAGS, answer) for a, b, answer in [("u", "t", None), ("u", "f", False), ("u", "u", None)]),
    *((f"{a} OR {b}", _FLAGS, answer) for a, b, answer in [("t", "t", True), ("t", "f", True), ("t", "u", True)]),
    *((f"{a} OR {b}", _FLAGS, answer) for a, b, answer in [("f", "t", True), ("f", "f", False), ("f", "u", None)]),
    *((f"{a} OR {b}", _FLAGS, answer) for a, b, answer in [("u", "t", True), ("u", "f", None), ("u", "u", None)]),
    ("NOT t", _FLAGS, False),
    ("NOT f", _FLAGS, True),
    ("NOT u", _FLAGS, None),
]

PRECEDENCE: list[Row] = [
    ("t OR t AND f", _FLAGS, True),
    ("(t OR t) AND f", _FLAGS, False),
    ("NOT f AND f", _FLAGS, False),
    ("NOT (f AND f)", _FLAGS, True),
    ("NOT x = 'a'", {"x": "b"}, True),
    ("NOT NOT t", _FLAGS, True),
    ("not t or t", _FLAGS, True),
    ("NOT n + 1 > 2", {"n": 1}, True),
    ("n + 1 > 2 AND n BETWEEN 1 AND 2 OR FALSE", {"n": 2}, True),
]

TABLES = {
    "blank": BLANK,
    "literals": LITERALS,
    "identifiers": IDENTIFIERS,
    "comparisons": COMPARISONS,
    "expressions": EXPRESSIONS,
    "arithmetic": ARITHMETIC,
    "between": BETWEEN,
    "in": IN,
    "like": LIKE,
    "nulls": NULLS,
    "logic": LOGIC,
    "precedence": PRECEDENCE,
}


@pytest.mark.parametrize(
    ("text", "properties", "answer"),
    [
        pytest.param(*row, id=f"{name}-{number}")
        for name, table in TABLES.items()
        for number, row in enumerate(table, start=1)
    ],
)
def test_example(text: str, properties: dict[str, Any], answer: bool | None) -> None:
    selector, topic = Selector(text), DestinationPattern.parse("a.>")
    assert selector.matches(properties) is answer
    plain = plain_predicate(text, encode_constraint(topic.constraint))
    assert plain in (None, encode_predicate(predicate_of(topic, selector)))
