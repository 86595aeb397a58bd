"""Finds the part of a selector that a message fails.

>>> failed_clause(Selector("kind = 'a' AND (price > 10 OR urgent)"), {"kind": "a", "price": 5})
FailedClause(text='price > 10 OR urgent', position=16, outcome=None, values={'price': 5, 'urgent': None})
>>> failed_clause(Selector("price > 10"), {"price": 12}) is None
True
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidings.model.selector import Selector
from tidings.model.selector.evaluate import evaluator
from tidings.model.selector.printer import to_text
from tidings.model.selector.syntax import And, Expression, Identifier, walk
from tidings.model.values import Value


@dataclass(frozen=True, slots=True)
class FailedClause:
    text: str
    position: int  # of its first character in the selector
    outcome: bool | None  # False or unknown
    values: Mapping[str, Value | None]  # of the properties it speaks of


def failed_clause(selector: Selector, properties: Mapping[str, Value]) -> FailedClause | None:
    """The first of the clauses joined by AND that is false, or else the first that is unknown; None if all are true."""
    clauses = [(clause, evaluator(clause)(properties)) for clause in _conjuncts(selector.tree)]
    failed = [one for one in clauses if one[1] is False] or [one for one in clauses if one[1] is None]
    if not failed:
        return None
    clause, outcome = failed[0]
    names = sorted({node.name for node in walk(clause) if isinstance(node, Identifier)})
    position = min((node.position for node in walk(clause)), default=0)
    return FailedClause(to_text(clause), position, outcome, {name: properties.get(name) for name in names})


def _conjuncts(tree: Expression) -> tuple[Expression, ...]:
    return tree.terms if isinstance(tree, And) else (tree,)
