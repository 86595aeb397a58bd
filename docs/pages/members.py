"""What a class has for its users: attributes with the comments beside them, properties, methods; its bases' too."""

import ast
import inspect
import re
import sys
import textwrap
from abc import ABC
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple


class Attribute(NamedTuple):
    """A field of a record, a slot, or what `__init__` sets."""

    name: str
    type: str  # "" if the source does not say
    meaning: str


def attributes(one: type) -> list[Attribute]:
    """In the order of the source, those of the bases first."""
    found: dict[str, Attribute] = {}
    for base in bases(one):
        found |= {attribute.name: attribute for attribute in _written(base) if not attribute.name.startswith("_")}
    return list(found.values())


def properties(one: type) -> dict[str, Any]:
    """The functions that compute them."""
    kinds = {name: member for name, member in _members(one) if isinstance(member, property | cached_property)}
    return {name: one.fget if isinstance(one, property) else one.func for name, one in kinds.items()}


def methods(one: type) -> dict[str, Any]:
    found = {name: getattr(member, "__func__", member) for name, member in _members(one)}
    return {name: member for name, member in found.items() if inspect.isfunction(inspect.unwrap(member))}


def bases(one: type) -> list[type]:
    """The class and those above it that are ours, the highest first."""
    return [base for base in reversed(one.__mro__) if base not in (object, ABC)]


def _members(one: type) -> Iterator[tuple[str, Any]]:
    found: dict[str, Any] = {}
    for base in bases(one):
        found |= vars(base)
    return ((name, member) for name, member in sorted(found.items()) if not name.startswith("_"))


def _written(one: type) -> Iterator[Attribute]:
    text = textwrap.dedent(inspect.getsource(one))
    lines = text.splitlines()
    (tree,) = ast.parse(text).body
    assert isinstance(tree, ast.ClassDef)
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement.annotation):
            yield from (_resolved(attribute, one) for attribute in _assigned(statement, lines, {}))
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = [*statement.args.args, *statement.args.kwonlyargs]
            types = {argument.arg: _text(argument.annotation) for argument in arguments}
            for inner in statement.body:
                yield from _assigned(inner, lines, types)


def _resolved(attribute: Attribute, of: type) -> Attribute:
    """Another name that a module gives a type says nothing outside of it."""
    meant = vars(sys.modules[of.__module__]).get(attribute.type)
    return attribute if meant is None or isinstance(meant, type) else attribute._replace(type=str(meant))


def _assigned(statement: ast.stmt, lines: list[str], types: dict[str, str]) -> Iterator[Attribute]:
    """The attributes that a statement names, with their types: its annotation's, or that of the argument they get."""
    comment = re.search(r"  # (.*)$", lines[(statement.end_lineno or statement.lineno) - 1])
    meaning = comment[1] if comment else ""
    if isinstance(statement, ast.AnnAssign):
        yield from (Attribute(name, _text(statement.annotation), meaning) for name in _names(statement.target))
    elif isinstance(statement, ast.Assign):
        pairs = zip(_parts(statement.targets[0]), _parts(statement.value), strict=False)
        for target, value in pairs:
            yield from (Attribute(name, _type_of(value, types), meaning) for name in _names(target))


def _parts(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _names(target: ast.expr) -> list[str]:
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) | ast.Name(id=name):
            return [name]
    return []


def _type_of(value: ast.expr, types: dict[str, str]) -> str:
    match value:
        case ast.Name(id=name):
            return types.get(name, "")
        case ast.Constant(value=constant):
            return type(constant).__name__
    return ""


def _text(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value  # a name that is known only later
    return "" if annotation is None else ast.unparse(annotation)
