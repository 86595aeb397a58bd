"""One seed, simulated and judged."""

from hardening.simulate import machines
from hardening.simulate.choices import draw, options
from hardening.simulate.disks import DisksWorld
from hardening.simulate.leases.world import LeasesWorld
from hardening.simulate.mqtt import MqttWorld
from hardening.simulate.queues import QueuesWorld
from hardening.simulate.subscriptions import SubscriptionsWorld
from hardening.simulate.wire import WireWorld
from hardening.simulate.world import Outcome, World
from tidings.sim.driver import Trace


def run(seed: int, trace: Trace | None = None, /, **forced: str) -> Outcome:
    """An error says with which command it can be repeated."""
    choices = draw(seed, **forced)
    try:
        if choices.world == "brokers":
            return World(choices, trace).run()
        if choices.world == "wire":
            return WireWorld(seed, trace).run()
        if choices.world == "disks":
            return DisksWorld(seed, trace).run()
        if choices.world == "queues":
            return QueuesWorld(seed, trace).run()
        if choices.world == "subscriptions":
            return SubscriptionsWorld(seed, trace).run()
        if choices.world == "mqtt":
            return MqttWorld(seed, trace).run()
        if choices.world == "leases":
            return LeasesWorld(seed, trace).run()
        return machines.run(choices.world, seed)
    except Exception as error:
        command = f"python -m hardening.simulate {seed}{options(choices, forced)}"
        error.add_note(f"Repeat with: {command} --trace")
        raise
