"""The interpreter's search for cyclic garbage, as a broker needs it.

What a message leaves behind is freed by reference counts. The search finds nothing there, yet by default it goes
through what is new after each 700 objects more than before, which a large batch makes several times: a third of what
a persistent message costs. What is there when the broker has started, a million waiting messages perhaps, stays, and
is not looked at.
"""

import gc

YOUNG_OBJECTS = 100_000


def collect_seldom() -> None:
    """Once the broker has started."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
