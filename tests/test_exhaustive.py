"""A `match` over a closed union ends in `assert_never`, so that no member is dropped without a word.

A closed union is an alias at the top of a module whose members are all classes of this project. A `match` is over one
if all the classes that its cases name are members of it, unless its subject is a parameter whose annotation says
otherwise (`object`, `ControlMessage`). Members that are ignored on purpose are named in a case of their own.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "tidings"
Name: TypeAlias = str  # module.name

# Still to be changed. The test fails as well when a file here no longer needs it: this list only ever shrinks.
ALLOWED: set[str] = set()


@dataclass(frozen=True)
class Module:
    """The classes, the aliases and the imported names at the top of a module, in full."""

    path: Path
    name: str
    tree: ast.Module
    names: dict[str, Name]
    classes: frozenset[Name]
    aliases: dict[Name, ast.expr]


def read(path: Path, root: Path) -> Module:
    parts = path.relative_to(root.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    tree = ast.parse(path.read_text())
    names: dict[str, Name] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    classes, aliases = set(), {}
    for node in tree.body:
        match node:
            case ast.ClassDef(name=own):
                classes.add(f"{name}.{own}")
                names[own] = f"{name}.{own}"
            case (
                ast.AnnAssign(target=ast.Name(id=own), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value)
                | ast.Assign(targets=[ast.Name(id=own)], value=ast.BinOp(op=ast.BitOr()) as value)
            ):
                aliases[f"{name}.{own}"] = value
                names[own] = f"{name}.{own}"
            case _:
                pass
    return Module(path, name, tree, names, frozenset(classes), aliases)


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = {module.name: module for module in (read(path, root) for path in sorted(root.rglob("*.py")))}
        self.classes = {name for module in self.modules.values() for name in module.classes}
        self.unions = [
            found
            for module in self.modules.values()
            for value in module.aliases.values()
            if (found := self.union(module, value)) is not None
        ]

    def full(self, module: Module, node: ast.expr) -> Name | None:
        """Of `Send` or `fx.Send`: the module that defines it, whoever hands it on, and its name."""
        match node:
            case ast.Name(id=name):
                found = module.names.get(name)
            case ast.Attribute(value=ast.expr() as value, attr=name):
                inside = self.full(module, value)
                found = None if inside is None else f"{inside}.{name}"
            case _:
                return None
        while found is not None and found not in self.classes and found not in self._aliases():
            home, _, own = found.rpartition(".")
            there = self.modules.get(home)
            if there is None or there.names.get(own, found) == found:
                break
            found = there.names[own]
        return found

    @cache  # noqa: B019  # one project a test
    def _aliases(self) -> dict[Name, tuple[Module, ast.expr]]:
        return {name: (module, value) for module in self.modules.values() for name, value in module.aliases.items()}

    def members(self, module: Module, node: ast.expr) -> frozenset[Name] | None:
        """Of a class or a union of classes, in full; None: something else."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            left, right = self.members(module, node.left), self.members(module, node.right)
            return None if left is None or right is None else left | right
        name = self.full(module, node)
        if name in self.classes:
            return frozenset({name})
        if name is not None and name in self._aliases():
            return self.members(*self._aliases()[name])
        return None

    def union(self, module: Module, node: ast.expr) -> frozenset[Name] | None:
        found = self.members(module, node)
        return found if found is not None and len(found) > 1 else None

    # --- matches --------------------------------------------------------------------------------------------------

    def unguarded(self, module: Module) -> Iterator[int]:
        """The lines of matches over a closed union that do not end in `assert_never`."""
        for function in ast.walk(module.tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = {one.arg: one.annotation for one in (*function.args.args, *function.args.kwonlyargs)}
                for node in own_statements(function):
                    if isinstance(node, ast.Match) and self.closed(module, node, parameters) and not ends(node):
                        yield node.lineno

    def closed(self, module: Module, node: ast.Match, parameters: dict[str, ast.expr | None]) -> bool:
        named = {self.full(module, cls) for case in node.cases for cls in classes_of(case.pattern)}
        if not named or None in named:
            return False
        if isinstance(node.subject, ast.Name):
            annotation = parameters.get(node.subject.id)
            if annotation is not None and self.union(module, annotation) is None:
                return False
        return any(named <= union for union in self.unions)


def own_statements(function: ast.AST) -> Iterator[ast.AST]:
    """All inside a function but what is inside functions within it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from own_statements(child)


def classes_of(pattern: ast.pattern) -> Iterator[ast.expr]:
    match pattern:
        case ast.MatchClass(cls=cls):
            yield cls
        case ast.MatchOr(patterns=patterns):
            for one in patterns:
                yield from classes_of(one)
        case ast.MatchAs(pattern=ast.pattern() as inner):
            yield from classes_of(inner)
        case _:
            pass


def ends(node: ast.Match) -> bool:
    last = node.cases[-1]
    match last.pattern, last.guard, last.body:
        case ast.MatchAs(pattern=None), None, [ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))]:
            return True
        case _:
            return False


def unguarded(root: Path) -> dict[str, list[int]]:
    project = Project(root)
    found = {str(module.path.relative_to(root)): list(project.unguarded(module)) for module in project.modules.values()}
    return {path: lines for path, lines in found.items() if lines}


def test_a_match_over_a_closed_union_ends_in_assert_never() -> None:
    found = unguarded(PACKAGE)
    wrong = [f"{path}:{line}" for path, lines in found.items() if path not in ALLOWED for line in lines]
    assert not wrong, f"end these with `case _: assert_never(...)`: {wrong}"
    assert not ALLOWED - set(found), f"these no longer need the exception: {ALLOWED - set(found)}"


SHOP = """
from dataclasses import dataclass
from typing import TypeAlias, assert_never

class Apple: ...
class Pear: ...
class Plum: ...

Fruit: TypeAlias = Apple | Pear
Stock: TypeAlias = "Fruit | Plum"
"""
STALL = """
from shop import goods as g
from shop.goods import Apple, Pear, Plum, Stock

def {body}
"""


def lines_of(root: Path, body: str) -> list[int]:
    """What is wrong with a module that has this function."""
    package = root / "shop"
    package.mkdir(exist_ok=True)
    (package / "goods.py").write_text(SHOP)
    (package / "stall.py").write_text(STALL.format(body=body))
    return unguarded(package).get("stall.py", [])


@pytest.mark.parametrize(
    "body",
    [
        "f(x: Stock):\n match x:\n  case Apple(): pass",
        "f(x: Stock):\n match x:\n  case g.Apple() | g.Plum(): pass\n  case _: pass",
        "f(x: Stock):\n match x:\n  case Apple() as one if one.ripe: pass\n  case _: assert_never(x); return",
        "f(x: 'Apple | Pear'):\n match x:\n  case Apple(): pass",
        "f(xs):\n for x in xs:\n  match x:\n   case Pear(): pass",
        "f(x: object):\n def inside(x: Stock):\n  match x:\n   case Pear(): pass",
    ],
)
def test_a_match_that_drops_members_is_found(tmp_path: Path, body: str) -> None:
    assert len(lines_of(tmp_path, body)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "f(x: Stock):\n match x:\n  case Apple(): pass\n  case Pear() | Plum(): pass\n  case _: assert_never(x)",
        "f(x: object):\n match x:\n  case Apple(): pass",
        "f(x: Stock | int):\n match x:\n  case Apple(): pass",
        "f(x):\n match x:\n  case int(): pass",
        "f(x):\n match x:\n  case Apple() | str(): pass",
        "f(x):\n match x:\n  case 'apple': pass",
    ],
)
def test_a_match_that_is_exhaustive_or_over_something_else_is_not(tmp_path: Path, body: str) -> None:
    assert lines_of(tmp_path, body) == []
