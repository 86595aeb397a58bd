import pytest
from hardening.support.strategies_model import destinations, topic_patterns
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination, DestinationPattern


@given(destinations)
def test_canonical_text_both_ways(destination: Destination) -> None:
    assert Destination.parse(str(destination)) == destination
    assert DestinationPattern.parse(str(destination)).matches(destination)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a.b", "topic:a.b"),
        ("topic:a", "topic:a"),
        ("/topic/a.b", "topic:a.b"),
        ("queue:a", "queue:a"),
        ("/queue/a", "queue:a"),
        ("topic:queue:a", "topic:queue:a"),
        ("topic://a.b", "topic:a.b"),
        ("queue://a", "queue:a"),
        ("topic:a/b", "topic:a/b"),
        ("queue://a/b+#", "queue:a/b+#"),
        ("@type.A.event", "topic:@type.A.event"),
    ],
)
def test_what_users_write(text: str, canonical: str) -> None:
    assert str(Destination.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("", "E_DESTINATION_EMPTY", 0),
        ("queue:", "E_DESTINATION_EMPTY", 6),
        (".a", "E_DESTINATION_EMPTY", 0),
        ("a..b", "E_DESTINATION_EMPTY", 2),
        ("topic:a.", "E_DESTINATION_EMPTY", 8),
        ("a.*", "E_DESTINATION_WILDCARD", 2),
        ("a.b>", "E_DESTINATION_WILDCARD", 3),
        ("a\nb", "E_DESTINATION_CHARACTER", 1),
        ("a\n", "E_DESTINATION_CHARACTER", 1),
        ("a." + "b" * 1023, "E_DESTINATION_LENGTH", 0),
        ("é" * 513, "E_DESTINATION_LENGTH", 0),
        ("a\ud800", "E_VALUE_TEXT", 1),
        ("a/b", "E_DESTINATION_CHARACTER", 1),
        ("topic:/b", "E_DESTINATION_CHARACTER", 6),
        ("queue:///b", "E_DESTINATION_CHARACTER", 8),
        ("/topic//b", "E_DESTINATION_CHARACTER", 7),
        ("//b", "E_DESTINATION_PREFIX", 0),
        ("/b", "E_DESTINATION_PREFIX", 0),
        ("/exchange/a/b", "E_DESTINATION_PREFIX", 0),
        ("Queue:a", "E_DESTINATION_PREFIX", 0),
        ("kafka://a", "E_DESTINATION_PREFIX", 0),
        ("a.#", "E_DESTINATION_WILDCARD", 2),
        ("/topic/+/a", "E_DESTINATION_WILDCARD", 7),
        ("topic:a/+.b", "E_DESTINATION_WILDCARD", 8),
    ],
)
def test_wrong_destinations(text: str, code: str, position: int) -> None:
    with pytest.raises(UsageError) as caught:
        Destination.parse(text)
    assert (caught.value.code, caught.value.position) == (code, position)


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("a.>.b", "E_DESTINATION_WILDCARD", 2),
        ("a*", "E_DESTINATION_WILDCARD", 1),
        ("*a", "E_DESTINATION_WILDCARD", 0),
        ("topic:a.>>", "E_DESTINATION_WILDCARD", 8),
        (">a", "E_DESTINATION_WILDCARD", 0),
        ("*.", "E_DESTINATION_EMPTY", 2),
        ("a.*\0", "E_DESTINATION_WILDCARD", 2),
        ("sensors/+/light", "E_DESTINATION_WILDCARD", 8),
        ("sensors.#", "E_DESTINATION_WILDCARD", 8),
        ("topic://#", "E_DESTINATION_WILDCARD", 8),
        ("/queues/a", "E_DESTINATION_PREFIX", 0),
        ("queue:", "E_DESTINATION_EMPTY", 6),
    ],
)
def test_wrong_patterns(text: str, code: str, position: int) -> None:
    with pytest.raises(UsageError) as caught:
        DestinationPattern.parse(text)
    assert (caught.value.code, caught.value.position) == (code, position)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sensors/room", "write 'sensors.room'"),
        ("sensors/room", "'topic:sensors/room'"),
        ("sensors/+/light", "write '*'"),
        ("sensors.#", "write '>'"),
        ("/queues/a", "write '/queue/a'"),
        ("Topic://a", "write 'topic://a'"),
        ("kafka:a", "write 'topic:a' or 'queue:a'"),
    ],
)
def test_errors_have_the_right_spelling(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        DestinationPattern.parse(text)
    assert said in caught.value.reason


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("a.b", Constraint("@topic", Op.EQ, "a.b")),
        ("queue:a", Constraint("@queue", Op.EQ, "a")),
        ("a.>", Constraint("@topic", Op.PREFIX, "a.")),
        (">", Constraint("@topic", Op.EXISTS)),
        ("queue:>", Constraint("@queue", Op.EXISTS)),
        ("a.*", Constraint("@topic", Op.TOPIC, "a.*")),
        ("*.a.>", Constraint("@topic", Op.TOPIC, "*.a.>")),
    ],
)
def test_constraint(text: str, constraint: Constraint) -> None:
    assert DestinationPattern.parse(text).constraint == constraint


@given(topic_patterns, st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(".".join), st.booleans())
def test_pattern_and_constraint_agree(text: str, name: str, queue: bool) -> None:
    pattern, destination = DestinationPattern(text), Destination(name, queue)
    value = destination.name if destination.attribute == pattern.attribute else None
    assert pattern.matches(destination) == pattern.constraint.holds(value)


@given(st.text(alphabet="ab.*>\0é/+#", max_size=8))
def test_a_destination_is_a_pattern_without_wildcards(text: str) -> None:
    def fault_position(make: type[Destination | DestinationPattern]) -> int | None:
        try:
            make(text)
        except UsageError as error:
            return error.position
        return None

    concrete, pattern = fault_position(Destination), fault_position(DestinationPattern)
    wild = "*" in text or ">" in text
    assert (concrete is None) == (pattern is None and not wild)
    assert all(position in range(len(text) + 1) for position in (concrete, pattern) if position is not None)
