"""Translates plain selectors to encoded predicates in the kernel, without a syntax tree.

Plain are comparisons of a property with a literal, IN, BETWEEN, LIKE and IS NULL, joined by AND. For everything else,
errors included, there is no answer, and `tidings.model.selector` reads the text.

>>> from tidings.model.codec import decode_predicate
>>> topic = Constraint("@topic", Op.EQ, "ticks")
>>> encoded = plain_predicate("stock = 'XYZ' AND price > 20", encode_constraint(topic))
>>> [one.name for one in decode_predicate(encoded or b"").conjunctions[0]]
['@topic', 'price', 'stock']
>>> plain_predicate("price > 2 * cost", encode_constraint(topic)) is None
True
"""

from tidings import _kernel
from tidings.model.codec import encode_constraint
from tidings.model.constraint import Constraint, Op

__all__ = ["Constraint", "Op", "encode_constraint", "plain_predicate"]


def plain_predicate(selector: str, destination: bytes) -> bytes | None:
    """The encoded predicate of a selector within a destination, an encoded constraint; None if it is not plain."""
    return _kernel.plain_predicate(selector, destination)
