from dataclasses import replace

import pytest

from tidings.overlay.link.greeting import Greeting, check

MINE = Greeting("net", 1, incarnation=3, dial=4, parameters=(("bits", "256"), ("hashes", "7")))
THEIRS = replace(MINE, router=2, incarnation=9, dial=0)


def test_who_fits() -> None:
    assert check(MINE, THEIRS) is None
    assert check(THEIRS, MINE) is None
    assert check(MINE, THEIRS, expected=2) is None


@pytest.mark.parametrize(
    ("changed", "code", "says"),
    [
        ({"version": 1}, "E_LINK_VERSION", "link version 1"),
        ({"network": "other"}, "E_LINK_NETWORK", "'other'"),
        ({"router": 1}, "E_LINK_SELF", "itself"),
        ({"router": 3}, "E_LINK_IDENTITY", "broker 3 answered where 2"),
        ({"dial": 5}, "E_LINK_PROTOCOL", "one side"),
        ({"parameters": (("bits", "512"), ("hashes", "7"))}, "E_LINK_PARAMETER", "bits is 512 there and 256 here"),
        ({"parameters": (("bits", "256"),)}, "E_LINK_PARAMETER", "hashes is not set there"),
    ],
)
def test_who_does_not_fit_is_told_why(changed: dict[str, object], code: str, says: str) -> None:
    refusal = check(MINE, replace(THEIRS, **changed), expected=2)  # type: ignore[arg-type]
    assert refusal is not None
    assert refusal.code == code
    assert says in refusal.reason
