from hypothesis import assume, example, given
from hypothesis import strategies as st

from tidings.broker.security.access import AccessRules, GroupMember, Rule, covers, overlap
from tidings.model.destination import Destination, DestinationPattern

LEVELS = st.sampled_from(["a", "b", "c"])
NAMES = st.lists(LEVELS, min_size=1, max_size=4).map(".".join)


@st.composite
def patterns(draw: st.DrawFn) -> DestinationPattern:
    levels = draw(st.lists(st.sampled_from(["a", "b", "*"]), max_size=3))
    if not levels or draw(st.booleans()):
        levels.append(draw(st.sampled_from([">", "*", "a"])))
    return DestinationPattern(".".join(levels), draw(st.booleans()))


DESTINATIONS = st.builds(Destination, NAMES, st.booleans())
RULES = st.builds(
    Rule,
    st.sampled_from(["*", "alice", "bob"]),
    patterns(),
    st.frozensets(st.sampled_from(["publish", "subscribe"]), min_size=1),
    st.booleans(),
    st.sampled_from(["", "x = 1"]),
    st.sampled_from(["", "traders"]),
)


@given(patterns(), patterns(), DESTINATIONS)
def test_covers_and_overlap_are_what_matching_says(
    one: DestinationPattern, two: DestinationPattern, at: Destination
) -> None:
    if covers(one, two) and two.matches(at):
        assert one.matches(at)
    if one.matches(at) and two.matches(at):
        assert overlap(one, two)
    assert overlap(one, two) == overlap(two, one)
    assert covers(one, one)


@given(patterns(), patterns())
def test_patterns_that_do_not_cover_have_a_witness(one: DestinationPattern, two: DestinationPattern) -> None:
    """Fresh names at the wildcards of `two` give a destination that `one` matches only if it covers."""
    assume(one.queue == two.queue)
    levels = ["z" if level == "*" else level for level in two.name.split(".")]
    ends = [["z"], ["z", "z"]] if levels[-1] == ">" else [[levels[-1]]]
    witnesses = [Destination(".".join([*levels[:-1], *end]), two.queue) for end in ends]
    assert covers(one, two) == all(one.matches(witness) for witness in witnesses)
    assert all(two.matches(witness) for witness in witnesses)


def first_match(rules: list[Rule], operation: str, at: Destination) -> Rule | None:
    for rule in rules:
        if operation in rule.operations and rule.pattern.matches(at):
            return rule if rule.allow else None
    return None


@given(st.lists(RULES, max_size=6), st.sampled_from(["publish", "subscribe"]), DESTINATIONS)
def test_for_one_destination_the_first_rule_that_fits_decides(
    rules: list[Rule], operation: str, at: Destination
) -> None:
    mine = [rule for rule in rules if rule.concerns("alice", {"traders"})]
    alice = GroupMember("alice", AccessRules(tuple(rules)).concerning("alice", {"traders"}))
    decided = first_match(mine, operation, at)
    assert alice.may(operation, str(at)) == (decided is not None)
    if operation == "subscribe":
        assert alice.restriction(str(at)) == ("" if decided is None else decided.selector)


@given(st.lists(RULES, max_size=6), patterns(), DESTINATIONS)
@example([], DestinationPattern(">", False), Destination("a", False))
def test_a_pattern_is_allowed_only_if_all_it_means_is(
    rules: list[Rule], pattern: DestinationPattern, at: Destination
) -> None:
    alice = GroupMember("alice", AccessRules(tuple(rules)).concerning("alice", ()))
    if alice.may("subscribe", str(pattern)) and pattern.matches(at):
        assert alice.may("subscribe", str(at))
        assert alice.restriction(str(at)) == alice.restriction(str(pattern))


def test_without_a_rule_nothing_is_allowed() -> None:
    nobody = GroupMember("nobody", AccessRules())
    assert not any(nobody.may(what, "topic:a") for what in ("publish", "subscribe", "browse", "manage"))


def test_rules_are_about_users_groups_or_everybody() -> None:
    pattern, every = DestinationPattern.parse(">"), frozenset({"publish"})
    rules = AccessRules((Rule("alice", pattern, every), Rule("", pattern, every, group="traders")))
    allowed = [
        GroupMember(name, rules.concerning(name, groups)).may("publish", "a")
        for name, groups in (("alice", ()), ("bob", ("traders",)), ("bob", ()), ("traders", ()))
    ]
    assert allowed == [True, True, False, False]
