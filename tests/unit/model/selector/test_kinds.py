"""Selectors against attributes of known kinds."""

import pytest

from tidings.errors import SelectorError
from tidings.model.selector.kinds import check_kinds
from tidings.model.selector.parser import parse
from tidings.model.values import Kind

DECLARED = {"n": Kind.NUMBER, "m": Kind.NUMBER, "s": Kind.STRING, "b": Kind.BOOL, "y": Kind.BYTES}


@pytest.mark.parametrize(
    "text",
    [
        "n = 1 AND n < 2.5 AND n + m * -n > m",
        "s = 'a' OR s > 'b' OR s LIKE 'x%' OR s IN ('a', 'b')",
        "b OR NOT b OR b = TRUE OR b IN (TRUE)",
        "y IS NULL AND n BETWEEN m AND 3 AND s BETWEEN 'a' AND 'b'",
        "JMSPriority > 3 AND other = 's' AND other + 1 = n AND JMSType LIKE 'a%'",
        "(n = 1) = b",
    ],
)
def test_what_can_be_true_passes(text: str) -> None:
    check_kinds(parse(text), DECLARED)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n = 'a'", "at 0: 'n' is a number and is compared with a string"),
        ("b AND 'a' < n", "at 12: 'n' is a number and is compared with a string"),
        ("s = 1 OR b", "at 0: 's' is a string and is compared with a number"),
        ("s = n", "at 0: 's' is a string and is compared with a number"),
        ("b = 1", "at 0: 'b' is a boolean and is compared with a number"),
        ("n IN (1, 'a')", "at 0: 'n' is a number and is compared with a string"),
        ("n BETWEEN 1 AND 'a'", "at 0: 'n' is a number and is compared with a string"),
        ("n LIKE 'a%'", "at 0: 'n' is a number and is compared with a pattern"),
        ("n + s > 1", "at 4: 's' is a string and is computed with"),
        ("-b > 1", "at 1: 'b' is a boolean and is computed with"),
        ("n + 1 = s", "at 8: 's' is a string and is compared with a number"),
        ("n AND b", "at 0: 'n' is a number and is used as a condition"),
        ("NOT (s = y)", "at 5: 's' is a string and is compared with bytes"),
        ("y = 'a'", "at 0: 'y' is bytes and is compared with a string"),
    ],
)
def test_what_can_never_be_true_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SelectorError, match=f"E_SELECTOR_KIND {reason}"):
        check_kinds(parse(text), DECLARED)
