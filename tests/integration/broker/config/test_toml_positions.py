import json
import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidings.broker.config.toml_positions import Path, lines_of

KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=["Cc"]), max_size=5)
SCALARS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    KEYS,
    st.sampled_from(["[", "]", "{", "#", "=", '"', "'", "\\", "a\nb"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(name)} = {inline(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[ # a comment ]\n" + ",\n".join(map(inline, value)) + "]"
    if isinstance(value, str) and "\n" in value:
        return '"""' + value + '"""'
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in items:
        yield (*path, name)
        yield from paths(one, (*path, name))


@given(TABLES, st.lists(TABLES, max_size=3), KEYS, KEYS)
def test_every_key_has_a_line(top: dict[str, Any], tables: list[dict[str, Any]], array: str, sub: str) -> None:
    top.pop(array, None)
    text = "# a = 1\n" + "".join(f"{quoted(name)} = {inline(value)} # b = 2\n" for name, value in top.items())
    for table in tables:
        table.pop(sub, None)
        text += f"[[ {quoted(array)} ]]\n"
        text += "".join(f"{quoted(name)}={inline(value)}\n" for name, value in table.items())
        text += f"[{quoted(array)} . {quoted(sub)}]\nx.y = 1\n"
    lines = lines_of(text)
    assert set(lines) == set(paths(tomllib.loads(text)))
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


def test_lines_are_where_the_keys_are() -> None:
    text = 'a = """\n\n"""\r\n\n[b]\nc = [\n  1,\n  { d = 2 },\n]\n'
    assert lines_of(text) == {
        ("a",): 1, ("b",): 5, ("b", "c"): 6, ("b", "c", 0): 7, ("b", "c", 1): 8, ("b", "c", 1, "d"): 8,
    }  # fmt: skip
