"""Deterministic simulation: one seed drives topology, workload and faults, named checkers judge what came of it.

    python -m hardening.simulate 17               # one seed; add --trace to see everything that happens
    python -m hardening.simulate 1 10000          # many; --processes 2 to share them out
    python -m hardening.simulate 17 --scheme covering-lazy --overlay ring --tracking bloom
    python -m hardening.simulate --mutants        # seeded defects, and the first seed that notices each

- `choices`: which routing scheme, overlay, unicast protocol and tracking strategy a seed means
- `scenario`: the network and what goes wrong in it
- `clients`: consumers that acknowledge, transactions, writers, beside the plain subscribers of `sim.brokers`
- `typed`: event types, their subscribers and publishers, where the scheme is Hermes
- `strain`: a neighbour that stops and a broker that restarts meanwhile, with a backlog
- `moments`: crashes in the worst moment, when the disk has something and nobody was told, or has not what somebody was
- `lasting`: persistent ones, and durable subscriptions to them
- `sizes`: constants of brokers, drawn by chance
- `wire`: a run whose clients use the wire to the full, with `wire_ledger` (the truth), `wire_consumers`,
  `wire_publishers` and `wire_checkers`
- `queues`, `subscriptions`: runs with queues, and with durable and shared subscriptions, that are the network's
- `mutants`: seeded defects in the dispatch, which must be noticed
- `checkers`: what must hold, by name: safety and, apart, liveness
- `world`: a run of whole brokers
- `machines`: runs of single machines (covering, Hermes, Pan, unicast), which have checkers of their own
- `regressions`: seeds that once failed
"""
