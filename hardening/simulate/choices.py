"""Draws the choices of a seed: each has a random source of its own, so forcing one leaves the others as they are.

>>> draw(1).describe() == draw(1).describe()
True
>>> draw(1, scheme="flooding").scheme
'flooding'
"""

from dataclasses import asdict, dataclass
from random import Random

from tidings.errors import UsageError
from tidings.routing.covering.policies import POLICIES

WORLDS = {
    "brokers": 60,
    "wire": 20,
    "covering": 7,
    "hermes": 7,
    "pan": 3,
    "unicast": 3,
    "disks": 0,
    "queues": 0,
    "subscriptions": 0,
    "mqtt": 0,
    "leases": 0,
}  # in a hundred
DISKS_SHARE = 0.03  # of a chance of its own
MQTT_SHARE, QUEUES_SHARE, LEASES_SHARE, SUBSCRIPTIONS_SHARE = 0.04, 0.06, 0.05, 0.06  # the same
COVERING = tuple(f"covering-{policy}" for policy in POLICIES)
SCHEMES = {"bdrp": 8, "flooding": 2, **dict.fromkeys(COVERING, 2), "hermes": 0}  # that has a chance of its own
HERMES_SHARE = 0.05
OVERLAYS = {"tree": 3, "ring": 3, "waxman": 3, "barabasi-albert": 3, "pan": 1}
UNICASTS = {"link-state": 4, "distance-vector": 1}
TRACKINGS = {"none": 6, "runs": 1, "bloom": 1, "async": 1}
STRAINS = {"none": 3, "frozen": 1}  # a neighbour that is stopped for a while, and a broker that restarts meanwhile
MOMENTS = {"any": 4, "worst": 2, "unwritten": 1}  # in which brokers crash and clients go away
ROLLS = {"none": 6, "encoding": 1}  # brokers are restarted one by one with other parameters of the encoding


@dataclass(frozen=True, slots=True)
class Choices:
    seed: int
    world: str
    scheme: str
    overlay: str
    unicast: str
    tracking: str
    moment: str
    strain: str
    roll: str

    @property
    def policy(self) -> str:
        return self.scheme.partition("-")[2]

    def describe(self) -> str:
        if self.world != "brokers":
            return self.world
        named = (f"tracking {self.tracking}", f"{self.moment} moment", f"strain {self.strain}", f"roll {self.roll}")
        return ", ".join((self.scheme, self.overlay, self.unicast, *named))


def draw(seed: int, **forced: str) -> Choices:
    menus = {
        "world": WORLDS,
        "scheme": SCHEMES,
        "overlay": OVERLAYS,
        "unicast": UNICASTS,
        "tracking": TRACKINGS,
        "moment": MOMENTS,
        "strain": STRAINS,
        "roll": ROLLS,
    }
    drawn = {}
    for name, menu in menus.items():
        drawn[name] = Random(f"{name} {seed}").choices(list(menu), list(menu.values()))[0]
    if Random(f"disks {seed}").random() < DISKS_SHARE:
        drawn["world"] = "disks"
    if Random(f"mqtt {seed}").random() < MQTT_SHARE:
        drawn["world"] = "mqtt"
    elif Random(f"queues {seed}").random() < QUEUES_SHARE:
        drawn["world"] = "queues"
    elif Random(f"leases {seed}").random() < LEASES_SHARE:
        drawn["world"] = "leases"
    elif Random(f"subscriptions {seed}").random() < SUBSCRIPTIONS_SHARE:
        drawn["world"] = "subscriptions"
    if Random(f"hermes {seed}").random() < HERMES_SHARE:
        drawn["scheme"] = "hermes"
    if forced.keys() - {"world", "moment", "strain"} and "world" not in forced:
        drawn["world"] = "brokers"
    for name, value in forced.items():
        if value not in menus[name]:
            raise UsageError("E_CHOICE", f"there is no {name} {value!r}: one of {', '.join(menus[name])}")
        drawn[name] = value
    if drawn["scheme"] != "bdrp":
        drawn["unicast"] = "link-state"  # the others need its map
    if drawn["scheme"] == "hermes":
        drawn["overlay"] = "pan"
    return Choices(seed, **drawn)


def options(choices: Choices, forced: dict[str, str]) -> str:
    """The command-line options that force the same choices."""
    known = asdict(choices)
    return "".join(f" --{name} {known[name]}" for name in forced)
