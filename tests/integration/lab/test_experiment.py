"""Experiments as files: what is accepted, what is refused and why, and what the clients of each kind do."""

from collections import Counter
from pathlib import Path

import pytest

from tidings.errors import UsageError
from tidings.lab import experiment as experiments
from tidings.lab.experiment import parse, preset, presets
from tidings.lab.workloads import SETUPS, SPECIAL, Parameters
from tidings.model.selector import Selector

SMALL = 'name = "a"\nkind = "filters"\n'


@pytest.mark.parametrize("name", presets())
def test_every_preset_can_be_read_and_is_named_like_its_file(name: str) -> None:
    found = parse(preset(name))
    assert found.name == name
    assert len({point.name for point in found.points()}) == len(list(found.points()))


def test_a_point_is_measured_on_all_servers_before_the_next() -> None:
    found = parse(SMALL + "[vary]\nmatching = [1, 2]\nothers = [0, 5]\n[fixed]\nbody = 10\n")
    names = [point.name for point in found.points()]
    assert names[:3] == [
        "a/tidings/body=10,matching=1,others=0",
        "a/activemq/body=10,matching=1,others=0",
        "a/tidings/body=10,matching=1,others=5",
    ]
    assert len(names) == 8


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name =", "not TOML"),
        ('kind = "filters"', "missing: name"),
        ('name = "a b"\nkind = "filters"', "name: .* letters .* digits"),
        ('name = "a"\nkind = "fast"', "unknown kind 'fast'"),
        (SMALL + "speed = 1", "unknown: speed"),
        (SMALL + "[measure]\nspeed = 1", "'speed' is not known"),
        (SMALL + "[measure]\nseconds = -1", "seconds must be a number from 0"),
        (SMALL + "[measure]\nseconds = 0.01", "two samples"),
        (SMALL + "[measure]\nattempts = 0", "attempts must be a whole number from 1, not 0"),
        (SMALL + "[measure]\nblock = 1.5", "block must be a whole number from 1, not 1.5"),
        ('name = "größe"\nkind = "filters"', "E_LAB_EXPERIMENT: name: .*not 'größe'"),
        (f'name = "{"x" * 61}"\nkind = "filters"', "name: 1 to 60"),
        ('name = "a\\n"\nkind = "filters"', "name: 1 to 60"),
        (SMALL + "[fixed]\nspeed = 1", "no parameter speed"),
        (SMALL + "[fixed]\nmatching = 0", "from 1 to 4096"),
        (SMALL + '[fixed]\nfiltered = "yes"', "true or false"),
        (SMALL + "[vary]\nmatching = []", "list of values"),
        (SMALL + "[vary]\nbody = [1]\n[fixed]\nbody = 1", "varied and fixed"),
        (SMALL + "[fixed]\nmatching = 2\npersistent = true", "one durable subscriber"),
        ('name = "a"\nkind = "filters"\nservers = ["nats"]', "servers are some of"),
        ('name = "a"\nkind = "filters"\nruns = 0', "runs"),
        ('name = "a"\nkind = "aggregation"\n[fixed]\nconnections = 5', "do not divide"),
        ('name = "a"\nkind = "and"\n[fixed]\nmismatch = "never"', "early or late"),
    ],
)
def test_what_is_wrong_is_said(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse(text)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="presets are activation"):
        experiments.read(Path("no-such-preset"))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("filters", {"matching": 3, "others": 7, "topics": 2}),
        ("filters", {"matching": 2, "filtered": False}),
        ("or", {"components": 3, "form": "or"}),
        ("or", {"components": 3, "form": "simple"}),
        ("and", {"components": 4, "mismatch": "early"}),
        ("and", {"components": 4, "mismatch": "late"}),
        ("presence", {"users": 7, "ids": 3, "form": "in"}),
        ("presence", {"users": 7, "ids": 3, "form": "or"}),
        ("aggregation", {"connections": 8}),
    ],
)
def test_the_replication_grade_is_what_the_design_says(kind: str, parameters: Parameters) -> None:
    design = SETUPS[kind](parameters, "t")
    wanted = Counter(wanted for part in design.setup.subscribers for wanted in part)
    selectors = {each.selector: Selector(each.selector) for each in wanted if each.selector}
    plans = design.setup.plans[:200]
    for plan in plans:
        copies = sum(
            count
            for each, count in wanted.items()
            if each.topic == plan.topic
            and (not each.selector or selectors[each.selector].matches(dict(plan.properties)))
        )
        assert copies == design.copies
    assert not any(
        each.topic == plan.topic and Selector(each.selector).matches(dict(plan.properties))
        for part in design.setup.idle
        for each in part
        for plan in plans
    )


def test_special_kinds_are_measured_otherwise() -> None:
    assert not set(SPECIAL) & set(SETUPS)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (
            "registration",
            'subscriptions = ["x"]',
            "subscriptions is a whole number from 1 to 131072, not 'x'",
        ),
        ("registration", "foo = [1]", "registration has no parameter foo"),
        ("registration", 'form = ["all"]', "registration: form is simple or or or in, not 'all'"),
        ("first-message", "foo = [1]", "first-message has no parameter foo"),
        ("first-message", "groups = [0]", "first-message: groups is a whole number"),
        ("waiting", "rate = [-1]", "waiting: rate is a whole number"),
        ("waiting", "others = [1.5]", "waiting: others is a whole number"),
        ("waiting", "foo = [1]", "waiting has no parameter foo"),
        ("waiting", "publishers = [2]", "waiting: messages come over one connection; leave out publishers"),
    ],
)
def test_parameters_of_special_kinds_are_checked_when_the_file_is_read(kind: str, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match="E_LAB_SETUP") as refused:
        parse(f'name = "one"\nkind = "{kind}"\n[vary]\n{text}\n')
    assert reason in refused.value.reason


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", ["seconds", "warm_s_max", "long_s"])
def test_a_run_that_would_never_end_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"measure: {name} must be a number"):
        parse(f"{SMALL}[measure]\n{name} = {value}\n")
    with pytest.raises(UsageError, match="seconds must be a number"):
        parse(SMALL).measure.lasting(float(value))


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"E_LAB_EXPERIMENT: .*e\.toml is not text"):
        experiments.read(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("vary = 5", "vary is a table"),
        ("fixed = 3", "fixed is a table"),
        ("measure = 3", "measure is a table"),
        ('runs = "x"', "runs is a whole number"),
        ("runs = 1.5", "runs is a whole number"),
        ("runs = true", "runs is a whole number"),
        ("about = 4", "about is a text"),
        ("servers = 1", "servers is a list"),
        ("servers = [1]", "servers are some of"),
        ("servers = [[1]]", "servers are some of"),
    ],
)
def test_fields_of_another_kind_are_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse(SMALL + text)
    with pytest.raises(UsageError, match="name is a text"):
        parse('name = 5\nkind = "filters"')
