"""The scale-out experiment at a small load: nothing is lost, and links carry little more than they must."""

import pytest

from tidings.experiments.bdrp.scale_out import ScaleOut, ScaleOutSetup, selector_of
from tidings.matching.workload import Workload
from tidings.model.selector import Selector

WORKLOAD = Workload(4, conjunctions=1, constraints_max=1)


@pytest.mark.parametrize(("variant", "most"), [("graded", 1.2), ("plain", 3.0), ("flooding", 6.0)])
def test_everything_is_delivered_and_links_carry_little_more_than_they_must(variant: str, most: float) -> None:
    found = ScaleOut(ScaleOutSetup(4), variant).run(rate=200, seconds=1)
    assert found.delivered == found.expected > 0
    assert 1.0 <= found.link_bytes / found.least_bytes <= most


def test_selectors_say_the_same_as_predicates() -> None:
    messages = WORKLOAD.messages(0, 50)
    for predicate in WORKLOAD.predicates(0, 100):
        selector = Selector(selector_of(predicate))
        for message in messages:
            attributes = message.attributes()
            assert (selector.matches(attributes) is True) == predicate.matches(attributes)
