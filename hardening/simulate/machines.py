"""Runs of single machines, whose checkers are with them: covering, Hermes, Pan, and the unicast protocols."""

from random import Random

from hardening.machines import covering, hermes, pan, unicast
from hardening.simulate.world import Outcome
from tidings.routing.covering.policies import POLICIES


def run(world: str, seed: int) -> Outcome:
    rng = Random(f"machines {seed}")
    match world:
        case "covering":
            trial = covering.run(rng.choice(list(POLICIES)), rng.choice(covering.OVERLAYS), seed)
            handed = sum(one.handed.total() for one in trial.published)
            return Outcome(len(trial.routers), 0, len(trial.published), handed)
        case "hermes":
            one = hermes.run(seed, crashes=rng.random() < 0.5)
            handed = sum(event.handed.total() for event in one.events.values())
            return Outcome(len(one.network.brokers), 0, len(one.events), handed)
        case "pan":
            churn = pan.churn(seed)
            assert not churn.wrong, f"keys go astray: {churn.wrong[:3]}"
            return Outcome(churn.nodes, churn.crashes + churn.leaves)
        case "unicast":
            routed = unicast.run(rng.choice(list(unicast.PROTOCOLS)), seed)
            return Outcome(len(routed.processes))
        case _:
            raise AssertionError(world)
