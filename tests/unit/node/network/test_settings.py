"""What brokers must agree on before they are linked."""

from dataclasses import replace

import pytest

from tidings.node.network.pan_links import PanSettings
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.link.greeting import check
from tidings.routing.hermes import HermesOptions

BDRP = NetworkSettings(1)
HERMES = NetworkSettings(1, scheme="hermes", pan=PanSettings())
SELDOM = HermesOptions(refresh_ms=120_000)


def refused(one: NetworkSettings, other: NetworkSettings) -> str:
    said = check(replace(one.greeting(1), dial=1), replace(other, router=2).greeting(1))
    return "" if said is None else f"{said.code}: {said.reason}"


def test_under_hermes_all_say_things_again_equally_often() -> None:
    assert not refused(HERMES, HERMES)
    wanted = "E_LINK_PARAMETER: refresh_ms is 120000 there and 10000 here; set the same value on both brokers"
    assert refused(HERMES, replace(HERMES, hermes=SELDOM)) == wanted


def test_others_may_set_it_as_they_like() -> None:
    assert not refused(BDRP, replace(BDRP, hermes=SELDOM))


@pytest.mark.parametrize("change", [{"network": "other"}, {"unicast": "distance-vector"}, {"scheme": "flooding"}])
def test_what_differs_elsewhere_is_refused_too(change: dict[str, str]) -> None:
    assert refused(BDRP, replace(BDRP, **change)).startswith("E_LINK_")  # type: ignore[arg-type]
