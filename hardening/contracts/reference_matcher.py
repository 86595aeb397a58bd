"""Plain reference of the matchers: evaluates every predicate on every message.

>>> from tidings.kernel.codec import encode_messages
>>> from tidings.matching.matcher import per_message
>>> from tidings.model.constraint import Constraint, Op
>>> from tidings.model.destination import Destination
>>> from tidings.model.message import Message
>>> matcher = ReferenceMatcher()
>>> matcher.add(7, Predicate.of(Constraint("price", Op.GT, 20)))
>>> batch = MessageBatch.from_messages(encode_messages([Message(Destination("a"), {"price": p}) for p in (10, 30)]))
>>> per_message(matcher.match(batch))
[[], [7]]
"""

import numpy as np

from tidings.errors import UsageError
from tidings.kernel.codec import (
    DERIVED_DELIVERY_MODE,
    DERIVED_DESTINATION,
    DERIVED_MESSAGE_ID,
    DERIVED_PRIORITY,
    DERIVED_TIMESTAMP,
    MessageBatch,
)
from tidings.matching.matcher import Matches, check_id
from tidings.model.predicate import Attributes, Predicate
from tidings.model.selector.program import Code, SelectorProgram

DERIVED_BITS = {
    "@topic": DERIVED_DESTINATION,
    "@queue": DERIVED_DESTINATION,
    "JMSPriority": DERIVED_PRIORITY,
    "JMSDeliveryMode": DERIVED_DELIVERY_MODE,
    "JMSTimestamp": DERIVED_TIMESTAMP,
    "JMSMessageID": DERIVED_MESSAGE_ID,
}


class ReferenceMatcher:
    def __init__(self) -> None:
        self._predicates: dict[int, tuple[Predicate, SelectorProgram | None]] = {}

    def add(self, id: int, predicate: Predicate) -> None:
        check_id(id)
        program = None if predicate.residual is None else SelectorProgram(predicate.residual)
        if id in self._predicates:
            raise UsageError("E_MATCHER_ID", f"id {id} is already in the matcher")
        self._predicates[id] = (predicate, program)

    def remove(self, id: int) -> None:
        check_id(id)
        if self._predicates.pop(id, None) is None:
            raise UsageError("E_MATCHER_ID", f"id {id} is not in the matcher")

    def match(self, batch: MessageBatch) -> Matches:
        found = [self._match(batch.attributes(i)) if batch.is_message(i) else [] for i in range(len(batch))]
        offsets = np.cumsum([0, *map(len, found)], dtype=np.uint32)
        return offsets, np.array([id for ids in found for id in ids], np.uint32)

    def _match(self, attributes: Attributes) -> list[int]:
        return [
            id
            for id, (predicate, program) in self._predicates.items()
            if predicate.matches(attributes) and (program is None or program.run(attributes) is True)
        ]

    def __len__(self) -> int:
        return len(self._predicates)

    @property
    def derived_mask(self) -> int:
        mask = 0
        for predicate, program in self._predicates.values():
            names = {constraint.name for conjunction in predicate.conjunctions for constraint in conjunction}
            names |= set() if program is None else program_names(program)
            for name in names:
                mask |= DERIVED_BITS.get(name, 0)
        return mask


def program_names(program: SelectorProgram) -> set[str]:
    """The attributes that a program reads."""
    return {str(operand) for code, operand in program.instructions if code is Code.ATTR}
