"""The kernel's matchers with the common interface: the index, and the scan it is measured against.

Both take and release the GIL per call, so hand over batches. native/include/tidings/matching/matcher.hpp says how the
index works.

>>> from tidings.kernel.codec import encode_messages
>>> from tidings.matching.matcher import per_message
>>> from tidings.model.constraint import Constraint, Op
>>> from tidings.model.destination import Destination
>>> from tidings.model.message import Message
>>> matcher = IndexedMatcher()
>>> matcher.add(7, Predicate.of(Constraint("price", Op.GT, 20), Constraint("stock", Op.EQ, "XYZ")))
>>> messages = [Message(Destination("a"), {"price": price, "stock": "XYZ"}) for price in (10, 30)]
>>> per_message(matcher.match(MessageBatch.from_messages(encode_messages(messages))))
[[], [7]]
"""

import numpy as np
from numpy.typing import NDArray

from tidings.kernel.codec import MessageBatch
from tidings.kernel.matcher import MESSAGE_STEPS
from tidings.kernel.matcher import LinearMatcher as LinearEngine
from tidings.kernel.matcher import Matcher as IndexEngine
from tidings.matching.matcher import Matches, check_id
from tidings.model.codec import encode_predicate
from tidings.model.predicate import Predicate


class KernelMatcher:
    """Common base of the kernel's two matchers."""

    def __init__(self, engine: IndexEngine | LinearEngine) -> None:
        self._engine = engine

    def add(self, id: int, predicate: Predicate) -> None:
        self.add_encoded(id, encode_predicate(predicate))

    def add_encoded(self, id: int, predicate: bytes) -> None:
        """The same for a predicate as it came over the wire."""
        check_id(id)
        self._engine.add(id, predicate)

    def add_many(self, ids: NDArray[np.uint32], blobs: bytes, ends: NDArray[np.uint64]) -> None:
        """Encoded predicates one after the other, the i-th ends at `ends[i]`; the first one refused ends it."""
        self._engine.add_many(ids, blobs, ends)

    def remove(self, id: int) -> None:
        check_id(id)
        self._engine.remove(id)

    def match(self, batch: MessageBatch) -> Matches:
        return self._engine.match(batch.batch)

    def __len__(self) -> int:
        return len(self._engine)

    @property
    def conjunctions(self) -> int:
        """Over all subscribers; an IN of few values counts as one for each."""
        return self._engine.conjunctions

    @property
    def memory_bytes(self) -> int:
        return self._engine.memory_bytes

    @property
    def derived_mask(self) -> int:
        return self._engine.derived_mask


class IndexedMatcher(KernelMatcher):
    """The index. A message may take at most `steps` beyond what each filter may take anyway (docs/limits.md, "Cost of a
    message"). A filter that is given up because they are used up counts as not satisfied, or with `in_doubt` as
    satisfied: right for tables that stand for other filters, which must not lose what those want."""

    def __init__(self, *, steps: int = MESSAGE_STEPS, in_doubt: bool = False) -> None:
        self._index = IndexEngine()
        self._index.limit(steps, in_doubt)
        super().__init__(self._index)

    @property
    def steps(self) -> int:
        """Steps taken since it was made."""
        return self._index.steps

    @property
    def overruns(self) -> int:
        """Evaluations that were given up since it was made."""
        return self._index.overruns

    def take_overruns(self) -> list[tuple[int, int]]:
        """Subscribers whose filters were given up since the last call, and for how many messages. It looks through
        all of them."""
        return self._index.take_overruns()


class LinearMatcher(KernelMatcher):
    """Evaluates every conjunction up to its first constraint that fails. It has no budget."""

    def __init__(self) -> None:
        super().__init__(LinearEngine())
