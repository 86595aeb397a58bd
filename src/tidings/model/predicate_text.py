"""Text of a predicate for people: its constraints as a selector would say them, cut where it becomes long.

>>> abridged(Predicate.of(Constraint("price", Op.GT, 20), Constraint("stock", Op.IN, ("ABC", "XYZ"))))
"price > 20 AND stock IN ('ABC', 'XYZ')"
"""

from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate

CHARACTERS_MAX = 200
_SIGNS = {
    Op.EQ: "=",
    Op.NE: "<>",
    Op.LT: "<",
    Op.LE: "<=",
    Op.GT: ">",
    Op.GE: ">=",
    Op.IN: "IN",
    Op.PREFIX: "STARTS WITH",
    Op.SUFFIX: "ENDS WITH",
    Op.CONTAINS: "CONTAINS",
    Op.LIKE: "LIKE",
    Op.TOPIC: "MATCHES",
    Op.EXISTS: "IS NOT NULL",
    Op.MISSING: "IS NULL",
}


def abridged(predicate: Predicate, characters_max: int = CHARACTERS_MAX) -> str:
    conjunctions = []
    size = 0
    for one in predicate.conjunctions:
        conjunctions.append(" AND ".join(map(_constraint, one)) or "TRUE")
        size += len(conjunctions[-1])
        if size > characters_max:
            break
    text = " OR ".join(conjunctions) or "FALSE"
    if predicate.residual is not None:
        text += " AND (an expression)"
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def _constraint(one: Constraint) -> str:
    text = f"{one.name} {_SIGNS[one.op]}"
    if isinstance(one.value, tuple):
        text += f" ({', '.join(map(repr, one.value[:CHARACTERS_MAX]))})"
    elif one.value is not None:
        text += f" {one.value!r}"
    return f"NOT ({text})" if one.negated else text
