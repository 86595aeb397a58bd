"""Extrapolates a flat network that is too large to be simulated from a smaller one of the same kind.

Everybody keeps what everybody says: rows and routes grow with the number of the others. A flood crosses every link,
about once in each direction; to start, everyone floods once: messages and bytes grow with brokers times links, those
of one change with links alone. `tests/unit/experiments/bdrp/test_hierarchy.py` holds this to networks that were
simulated.
"""

from dataclasses import replace

from tidings.experiments.bdrp.hierarchy import HierarchyResult


def flat_of(size: HierarchyResult, small: HierarchyResult) -> HierarchyResult:
    """`size`: the network in question, simulated with two levels; `small`: a flat one that was simulated."""
    others = (size.brokers - 1) / (small.brokers - 1)
    links = size.links / small.links
    floods = links * size.brokers / small.brokers
    return replace(
        small,
        brokers=size.brokers,
        links=size.links,
        rows=small.rows * others,
        rows_most=round(small.rows_most * others),
        routes=small.routes * others,
        start_messages=round(small.start_messages * floods),
        start_bytes=round(small.start_bytes * floods),
        change_messages=small.change_messages * links,
        change_bytes=small.change_bytes * links,
        copies=size.least_copies * small.copies / small.least_copies,
        least_copies=size.least_copies,
        reached=size.wanted * small.reached / small.wanted,
        wanted=size.wanted,
        cpu_seconds=0.0,
    )
