import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.capacity.processing import MODELS, Errors, Fitted, Load, filters_pay_off, match_probability_break_even
from tidings.errors import CodecError, UsageError

seconds = st.floats(1e-9, 1e-2)
loads = st.builds(
    Load,
    filters=st.floats(0, 1e6),
    replication=st.floats(0, 1e4),
    different=st.none() | st.floats(0, 1e6),
    components=st.floats(0, 100),
)


@st.composite
def fitteds(draw: st.DrawFn) -> Fitted:
    name = draw(st.sampled_from(sorted(MODELS)))
    count = len(MODELS[name].terms)
    values = tuple(draw(seconds) for _ in range(count))
    intervals = draw(st.none() | st.just(tuple((value / 2, value * 2) for value in values)))
    level = None if intervals is None else 0.95
    errors = draw(st.none() | st.builds(Errors, st.floats(0, 1), st.floats(0, 1)))
    held_out = draw(st.none() | st.builds(Errors, st.floats(0, 1), st.floats(0, 1)))
    return Fitted(name, values, intervals, level, draw(st.integers(0, 1000)), errors, held_out)


def test_formulas_are_printed_as_in_the_thesis() -> None:
    assert {name: model.formula for name, model in MODELS.items()} == {
        "base": "B = t_rcv + n·t_fltr + r·t_tx",
        "identical": "B = t_rcv + n·t_all + n_diff·t_diff + r·t_tx",
        "superlinear": "B = t_rcv + n·√n·t_fltr + r·t_tx",
        "complex": "B = t_rcv + n_cmp·n·t_fltr + r·t_tx",
        "sqrt": "B = t_rcv + √n·t_fltr + r·t_tx",
        "log": "B = t_rcv + log2(1 + n)·t_fltr + r·t_tx",
        "constant": "B = t_rcv + r·t_tx",
    }


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("base", {"t_fltr": 2}, 1 + 16 * 2 + 3 * 5),
        ("identical", {"t_all": 2, "t_diff": 7}, 1 + 16 * 2 + 4 * 7 + 3 * 5),
        ("superlinear", {"t_fltr": 2}, 1 + 64 * 2 + 3 * 5),
        ("complex", {"t_fltr": 2}, 1 + 3 * 16 * 2 + 3 * 5),
        ("sqrt", {"t_fltr": 2}, 1 + 4 * 2 + 3 * 5),
        ("log", {"t_fltr": 2}, 1 + math.log2(17) * 2 + 3 * 5),
        ("constant", {}, 1 + 3 * 5),
    ],
)
def test_each_model_by_hand(name: str, parameters: dict[str, float], expected: float) -> None:
    server = Fitted.of(name, t_rcv=1, t_tx=5, **parameters)
    assert server.processing_time(Load(16, 3, different=4, components=3)) == pytest.approx(expected)


@given(fitteds(), loads)
def test_throughputs_follow_from_the_processing_time(server: Fitted, load: Load) -> None:
    busy = server.processing_time(load)
    row = server.model.row(load)
    assert busy == pytest.approx(sum(a * b for a, b in zip(row, server.values, strict=True)))
    assert server.received(load) == pytest.approx(1 / busy)
    assert server.overall(load) == pytest.approx((load.replication + 1) / busy)
    assert server.capacity(load, 0.5) == pytest.approx(0.5 / busy)
    assert server.fixed(load) + load.replication * server.t_tx == pytest.approx(busy)


@given(fitteds(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_filters_never_cost_less(server: Fitted, fewer: int, more: int) -> None:
    fewer, more = sorted((fewer, more))
    assert server.processing_time(Load(fewer)) <= server.processing_time(Load(more))


@given(fitteds())
def test_json_round_trip(server: Fitted) -> None:
    assert Fitted.from_json(server.to_json()) == server


@given(st.text(max_size=80) | st.builds(json.dumps, st.recursive(st.none() | st.floats() | st.text(), st.lists)))
def test_other_text_is_refused_as_json(text: str) -> None:
    with pytest.raises(CodecError):
        Fitted.from_json(text)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": 2}, "E_LAB_VERSION"),
        ({"format": "other"}, "E_LAB_VERSION"),
        ({"model": "cubic"}, "E_LAB_MODEL"),
        ({"model": ["base"]}, "E_LAB_JSON"),
        ({"parameters": {"t_rcv": 1}}, "E_LAB_JSON"),
        ({"parameters": {"t_rcv": -1, "t_fltr": 1, "t_tx": 1}}, "E_LAB_INPUT"),
        ({"parameters": {"t_rcv": "x", "t_fltr": 1, "t_tx": 1}}, "E_LAB_JSON"),
        ({"points": 1e999}, "E_LAB_JSON"),
        ({"errors": 3}, "E_LAB_JSON"),
        ({"errors_held_out": {"rms": 1}}, "E_LAB_JSON"),
    ],
)
def test_damaged_documents_are_refused(change: dict[str, object], code: str) -> None:
    document = json.loads(Fitted.of("base", t_rcv=1, t_fltr=1, t_tx=1).to_json())
    with pytest.raises(CodecError) as caught:
        Fitted.from_json(json.dumps(document | change))
    assert caught.value.code == code


def test_where_json_breaks_is_told() -> None:
    with pytest.raises(CodecError) as caught:
        Fitted.from_json('{"format": ')
    assert caught.value.position == 11


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_numbers_are_refused(bad: float) -> None:
    with pytest.raises(UsageError):
        Load(bad)
    with pytest.raises(UsageError):
        Load(1, replication=bad)
    with pytest.raises(UsageError):
        Fitted.of("base", t_rcv=1, t_fltr=bad, t_tx=1)
    with pytest.raises(UsageError):
        Fitted.of("base", t_rcv=1, t_fltr=1, t_tx=1).capacity(Load(1), bad)


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(UsageError):
        Fitted.of("base", t_rcv=1, t_tx=1)
    with pytest.raises(UsageError):
        Fitted("base", (1.0, 2.0))
    with pytest.raises(UsageError):
        Fitted("base", (1.0, 2.0, 3.0), intervals=((0.0, 1.0),))
    with pytest.raises(UsageError):
        Fitted.of("base", t_rcv=0, t_fltr=0, t_tx=0).received(Load(1))


@given(st.integers(0, 10), seconds, seconds, st.floats(0, 1))
def test_break_even_divides_paying_from_losing_filters(filters: int, t_fltr: float, t_tx: float, p: float) -> None:
    even = match_probability_break_even(filters, t_fltr, t_tx)
    if abs(p - even) > 1e-9:
        assert filters_pay_off(filters, p, t_fltr, t_tx) == (p < even)


def test_both_errors_are_stored_by_name() -> None:
    fitted = replace(Fitted.of("base", t_rcv=1, t_fltr=1, t_tx=1), errors=Errors(0.1, 0.2))
    fitted = replace(fitted, held_out=Errors(0.3, math.inf))
    document = json.loads(fitted.to_json(), parse_constant=pytest.fail)
    assert document["errors_fitted"] == {"rms": 0.1, "max": 0.2}
    assert document["errors_held_out"] == {"rms": 0.3, "max": None}
    assert Fitted.from_json(fitted.to_json()) == fitted


def test_models_stored_with_one_error_can_be_read() -> None:
    document = json.loads(Fitted.of("base", t_rcv=1, t_fltr=1, t_tx=1).to_json())
    found = Fitted.from_json(json.dumps(document | {"errors": {"rms": 0.1, "max": 0.2}}))
    assert (found.errors, found.held_out) == (Errors(0.1, 0.2), None)
