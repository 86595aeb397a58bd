"""Topic names and destinations: one to one; filters and patterns match alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.destination import Destination, DestinationPattern, name_fault
from tidings.protocols.mqtt.content_filters import both, selector_of
from tidings.protocols.mqtt.reasons import MqttError
from tidings.protocols.mqtt.topics import check_filter, check_name, patterns, to_destination, to_topic

NAMES = st.text("ab/.~*>% ä", min_size=1, max_size=10)
_LEVEL = st.text("ab/~+#% ", min_size=1, max_size=4)
DESTINATIONS = st.lists(_LEVEL, min_size=1, max_size=4).map(".".join).filter(lambda name: not name_fault(name))
LEVELS = st.sampled_from(["a", "b", "", "~", "+"])


@given(NAMES)
def test_each_topic_name_has_a_destination_of_its_own(topic: str) -> None:
    destination = Destination(to_destination(check_name(topic)))
    assert to_topic(destination.name) == topic


@given(DESTINATIONS)
def test_each_destination_has_a_topic_name_of_its_own(name: str) -> None:
    topic = to_topic(Destination(name).name)
    assert "+" not in topic
    assert "#" not in topic
    assert to_destination(topic) == name


def matches(filter: str, topic: str) -> bool:
    """Section 4.7 of the standard, as it reads."""
    wanted, levels = filter.split("/"), topic.split("/")
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(levels) or level not in ("+", levels[place]):
            return False
    return len(wanted) == len(levels) or (len(wanted) == len(levels) + 1 and wanted[-1] == "#")


@given(st.lists(LEVELS, min_size=1, max_size=4), st.booleans(), st.lists(LEVELS, min_size=1, max_size=4))
def test_patterns_match_as_the_filter_does(levels: list[str], deep: bool, topic_levels: list[str]) -> None:
    filter = "/".join([*levels, "#"] if deep else levels)
    topic = "/".join("c" if one == "+" else one for one in topic_levels)
    if not topic or not filter:
        return
    found = [DestinationPattern(one) for one in patterns(check_filter(filter))]
    destination = Destination(to_destination(topic))
    expected = matches(filter, topic) or (filter.endswith("/#") and matches(filter[:-2], topic))
    assert sum(one.matches(destination) for one in found) == expected


@pytest.mark.parametrize(
    "filter", ["", "a#", "#/a", "a+", "+a/b", "a/#/b", "$share//a", "$share/a", "$share/a/", "$share/+/a"]
)
def test_wrong_filters_are_refused(filter: str) -> None:
    with pytest.raises(MqttError):
        check_filter(filter)


def test_conditions_become_selectors() -> None:
    assert selector_of("price>=20.5&region=EU&on=TRUE&name='it''s'") == (
        "price >= 20.5 AND region = 'EU' AND on = TRUE AND name = 'it''s'"
    )
    assert both("a = 1 OR b = 2", "", "c = 3") == "(a = 1 OR b = 2) AND (c = 3)"
    for wrong in ("", "price", "price>20&", "1a=2", "=2"):
        with pytest.raises(MqttError):
            selector_of(wrong)
    with pytest.raises(MqttError, match="selector"):
        both("a = 1) OR (b = 2", "c = 3")
