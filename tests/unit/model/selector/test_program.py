import pytest
from hardening.support.strategies import conditions, properties
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError, SelectorError
from tidings.model.predicate import PROGRAM_BYTES_MAX
from tidings.model.selector.evaluate import evaluator
from tidings.model.selector.parser import parse
from tidings.model.selector.program import STACK_MAX, Code, SelectorProgram, assemble
from tidings.model.selector.syntax import Expression
from tidings.model.values import Value

ONE = bytes((Code.CONST, 2, 2))
A = bytes((Code.ATTR, 1)) + b"a"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("TRUE", bytes((Code.CONST, 1))),
        ("a", A),
        ("a = 1", A + ONE + bytes((Code.EQ,))),
        ("NOT a", A + bytes((Code.NOT,))),
        ("-a <> 1", A + bytes((Code.NEG,)) + ONE + bytes((Code.NE,))),
        ("+a = 1", A + bytes((Code.CONST, 2, 0, Code.SUB)) + ONE + bytes((Code.EQ,))),
        ("a IS NULL OR a AND a", A + bytes((Code.ISNULL,)) + A + A + bytes((Code.AND, Code.OR))),
        ("a IN (1, 'x')", A + bytes((Code.IN, 6, 2, 2, 2, 4, 1)) + b"x"),
        ("a LIKE '!_%' ESCAPE '!'", A + bytes((Code.LIKE, 4, 3)) + b"\\_%"),
        ("a BETWEEN 1 AND a", A + ONE + bytes((Code.GE,)) + A + A + bytes((Code.LE, Code.AND))),
    ],
)
def test_code(text: str, code: bytes) -> None:
    assert assemble(parse(text)) == code


@given(conditions(max_leaves=12), properties())
def test_a_program_answers_as_its_tree(tree: Expression, having: dict[str, Value | None]) -> None:
    assert SelectorProgram(assemble(tree)).run(having) is evaluator(tree)(having)


@pytest.mark.parametrize(
    ("code", "error", "position"),
    [
        (b"", "E_CODEC_PROGRAM", 0),
        (b"\x00", "E_CODEC_PROGRAM", 0),
        (A + b"\x16", "E_CODEC_PROGRAM", 3),
        (A + A, "E_CODEC_PROGRAM", 6),
        (bytes((Code.NOT,)), "E_CODEC_PROGRAM", 0),
        (A + bytes((Code.AND,)), "E_CODEC_PROGRAM", 3),
        (A * (STACK_MAX + 1), "E_CODEC_PROGRAM", 3 * STACK_MAX),
        (A + bytes((Code.NOT,)) * PROGRAM_BYTES_MAX, "E_CODEC_LIMIT", 0),
        (A[:-1], "E_CODEC_TRUNCATED", 2),
        (bytes((Code.ATTR, 0)), "E_CODEC_NAME", 1),
        (bytes((Code.CONST, 6, 0)), "E_CODEC_TYPE", 1),
        (A + bytes((Code.IN, 2, 2)), "E_CODEC_TYPE", 4),
        (A + bytes((Code.IN, 6, 1, 6, 0)), "E_CODEC_TYPE", 6),
        (A + bytes((Code.LIKE, 2, 2)), "E_CODEC_TYPE", 4),
    ],
)
def test_unsound_programs_are_refused(code: bytes, error: str, position: int) -> None:
    with pytest.raises(CodecError) as caught:
        SelectorProgram(code)
    assert (caught.value.code, caught.value.position) == (error, position)


@given(st.binary(max_size=64) | st.lists(st.sampled_from([A, ONE, *(bytes((code,)) for code in Code)])).map(b"".join))
def test_any_bytes_are_run_or_refused(code: bytes) -> None:
    result = run(code)
    if isinstance(result, CodecError):
        assert result.position is not None
        assert 0 <= result.position <= len(code)
    else:
        assert result in (True, False, None)


@given(conditions(), st.data())
def test_damaged_programs_are_run_or_refused(tree: Expression, data: st.DataObject) -> None:
    code = bytearray(assemble(tree))
    at = data.draw(st.integers(0, len(code) - 1))
    code[at] = data.draw(st.integers(0, 255))
    result = run(bytes(code))
    assert isinstance(result, CodecError) or result in (True, False, None)


def run(code: bytes) -> bool | CodecError | None:
    try:
        return SelectorProgram(code).run({"a": 1, "b": "x"})
    except CodecError as error:
        return error


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a OR b AND (" * 32 + "c" + ")" * 32, "selector is nested too deep to be compiled"),
        (" + ".join(["1."] * 8000) + " = a", "selector has more than 8200 tokens"),
    ],
)
def test_limits(text: str, reason: str) -> None:
    with pytest.raises(SelectorError) as caught:
        assemble(parse(text))
    assert (caught.value.code, caught.value.reason) == ("E_SELECTOR_LIMIT", reason)
