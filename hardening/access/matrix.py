"""Access as a matrix: users x operations x destinations x protocols, in a network of two brokers, for random rules.

    python -m hardening.access.matrix 10 [SEED]        # this number of sets of rules

What each protocol answers is compared with a plain reference, which knows nothing of how rules are indexed: it writes
out all destinations that a pattern means. What was published where is compared with what arrives, at the other broker
too: a refusal that is only said would be noticed.
"""

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from hardening.access.protocol_clients import DOORS, SECONDS, Door, log_in, password_of, shared_name
from hardening.record import noted, times
from hardening.support.links import QUICK, SECRET, eventually
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.links.links import LinkSettings, Peers
from tidings.broker.security import users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.broker.server import Broker
from tidings.client import Client, Subscription
from tidings.delivery.store import MemoryStore
from tidings.localnet.ports import free_ports
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.node.network.settings import NetworkSettings
from tidings.node.settings import NodeSettings
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.session import StompSession
from tidings.protocols.websocket.frames import WebSocketLayer

CHEAP = Cost(n=2, r=1, p=1)
ROOT = "root"
USERS = {
    "alice": frozenset({"traders"}),
    "bob": frozenset({"traders", "ops"}),
    "carol": frozenset[str](),
    ROOT: frozenset[str](),
}
RIGHTS = ("publish", "subscribe", "browse", "manage")
PROTOCOLS = ("native", "stomp", "websocket", "amqp")
TOPICS = ("a", "b", "a.b", "a.c", "a.b.c", "b.a")
QUEUES = ("queue:a", "queue:a.b", "queue:b")
PATTERNS = (*TOPICS, ">", "*", "a.>", "a.*", "*.b", "a.*.c", *QUEUES)
RULE_PATTERNS = (*PATTERNS, "queue:>", "queue:a.>", "queue:*")
OPERATIONS = {  # which right each takes, and where it is tried
    "publish": ("publish", (*TOPICS, *QUEUES)),
    "transact": ("publish", (*TOPICS, *QUEUES)),
    "subscribe": ("subscribe", PATTERNS),
    "keep": ("subscribe", TOPICS),  # a durable subscription of the own
    "share": ("subscribe", TOPICS),  # a durable one that is everybody's
    "drop": ("manage", TOPICS),  # the same
    "browse": ("browse", QUEUES),
    "purge": ("manage", QUEUES),
}
LEVELS = ("a", "b", "c", "z")
DEPTH = 4


# --- the reference ------------------------------------------------------------------------------------------------


def fits(pattern: list[str], name: list[str]) -> bool:
    """`*` is one level, `>` at the end one or more."""
    if not pattern or not name:
        return not pattern and not name
    if pattern[0] == ">":
        return True
    return pattern[0] in ("*", name[0]) and fits(pattern[1:], name[1:])


def meant(pattern: str) -> frozenset[tuple[bool, str]]:
    """All destinations (is it a queue, its name) up to some depth that a pattern means."""
    queue, name = pattern.startswith("queue:"), pattern.removeprefix("queue:")
    names = (list(one) for depth in range(1, DEPTH + 1) for one in product(LEVELS, repeat=depth))
    return frozenset((queue, ".".join(one)) for one in names if fits(name.split("."), one))


MEANT = {pattern: meant(pattern) for pattern in RULE_PATTERNS}


def allowed(rules: tuple[Rule, ...], user: str, operation: str, pattern: str) -> bool:
    """The first rule that denies a part refuses, the first that allows all permits; refused without such a rule."""
    asked = MEANT[pattern]
    for rule in rules:
        concerned = rule.group in USERS[user] if rule.group else rule.user in ("*", user)
        covered = MEANT[str(rule.pattern).removeprefix("topic:")]
        if concerned and operation in rule.operations and covered & asked:
            if not rule.allow:
                return False
            if asked <= covered:
                return True
    return False


def random_rules(rng: random.Random) -> tuple[Rule, ...]:
    everything = [DestinationPattern.parse(one) for one in (">", "queue:>")]
    rules = [Rule(ROOT, pattern, frozenset(RIGHTS)) for pattern in everything]
    for _ in range(rng.randint(3, 9)):
        operations = frozenset(rng.sample(RIGHTS, rng.randint(1, 3)))
        pattern, allow = DestinationPattern.parse(rng.choice(RULE_PATTERNS)), rng.random() < 0.75
        if rng.random() < 0.3:
            rules.append(Rule("", pattern, operations, allow, group=rng.choice(("traders", "ops"))))
        else:
            rules.append(Rule(rng.choice(("alice", "bob", "carol", "*")), pattern, operations, allow))
    return tuple(rules)


# --- the brokers --------------------------------------------------------------------------------------------------


def guard(rules: tuple[Rule, ...]) -> UserGuard:
    known = Users({})
    for name, groups in USERS.items():
        known = users.add(known, name, password_of(name), groups, CHEAP)
    return UserGuard(known, AccessRules(rules), BrokerLimits())


@dataclass
class Place:
    brokers: list[Broker]
    ports: dict[str, int]  # of the first broker, by protocol
    far: int  # the second one's, native


@asynccontextmanager
async def pair(folder: Path, rules: tuple[Rule, ...]) -> AsyncIterator[Place]:
    ports, brokers = free_ports(2), []
    for router in (1, 2):
        dials = ((f"127.0.0.1:{ports[1]}", 2),) if router == 1 else ()
        peers = Peers(
            NetworkSettings(router, "test", dials, link=QUICK), LinkSettings(port=ports[router - 1], secret=SECRET)
        )
        broker = Broker(NodeSettings(broker_id=router), MemoryStore(), guard=guard(rules), peers=peers)
        await broker.start([])
        brokers.append(broker)
    near, far = brokers
    web = ListenerSettings(StompSession, port=0, make_layer=lambda: WebSocketLayer(("*",)))
    listeners = {
        "native": ListenerSettings(NativeSession, port=0),
        "stomp": ListenerSettings(StompSession, port=0),
        "websocket": web,
        "amqp": ListenerSettings(NativeSession, port=0, make_gateway=AmqpSession),
    }
    found = {name: await near.listen(listener) for name, listener in listeners.items()}
    try:
        yield Place(brokers, found, await far.listen(ListenerSettings(NativeSession, port=0)))
    finally:
        for broker in brokers:
            await broker.stop()


# --- the matrix ---------------------------------------------------------------------------------------------------


class Matrix:
    """Asks and compares; an AssertionError names a combination that is not as the reference says."""

    def __init__(self, rules: tuple[Rule, ...], place: Place, root: Client) -> None:
        self._rules, self._place, self._root = rules, place, root
        self.tried = 0
        self.published: dict[str, set[int]] = {where: set() for where in (*TOPICS, *QUEUES)}

    async def ask(self, *operations: str) -> None:
        for protocol, user in product(PROTOCOLS, USERS):
            door = DOORS[protocol](self._place.ports[protocol], user)
            await door.open()
            for operation in operations:
                if operation in door.operations:
                    await self._ask(door, operation, f"{user} by {protocol}", user)
            await door.close()

    async def _ask(self, door: Door, operation: str, who: str, user: str) -> None:
        right, places = OPERATIONS[operation]
        for where in places:
            if operation == "drop":  # there has to be one
                await (await self._root.subscribe(where, shared=shared_name(where), durable=True)).close()
            self.tried += 1
            told = await door.ask(operation, where, self.tried)
            expected = allowed(self._rules, user, right, where)
            assert told == expected, f"{who}, {operation} {where}: {told}; {self._rules}"
            if told and right == "publish":
                self.published[where].add(self.tried)


async def check(rules: tuple[Rule, ...], folder: Path) -> int:
    """Tries every combination under these rules; returns their number."""
    async with (
        pair(folder, rules) as place,
        log_in(place.far, ROOT) as far,
        log_in(place.ports["native"], ROOT) as near,
    ):
        seen = await far.subscribe(">")
        networks = [broker.engine.node.network for broker in place.brokers]
        await eventually(lambda: all(network and network.unicast.reachable() for network in networks), SECONDS)
        await eventually(lambda: bool(networks[0] and networks[0].scheme.predicates.get(2)), SECONDS)
        matrix = Matrix(rules, place, near)
        await matrix.ask("subscribe")  # queues are empty yet
        await matrix.ask("publish", "transact")
        await _compare(seen, set().union(*(matrix.published[topic] for topic in TOPICS)))
        for queue in QUEUES:
            await _compare(await near.subscribe(queue), matrix.published[queue])
        await matrix.ask("keep", "share", "drop", "browse", "purge")  # queues are there, and empty
        return matrix.tried


async def _compare(subscription: Subscription, wanted: set[int]) -> None:
    """Exactly these arrive."""
    got: set[int] = set()
    while (message := await subscription.receive(SECONDS if wanted - got else 0.2)) is not None:
        got.add(int(message.properties["case"]))
    assert got == wanted, f"{sorted(wanted - got)} are missing, {sorted(got - wanted)} came though they were refused"


def matrix(sets: int, seed: int) -> int:
    tried = 0
    for number in range(sets):
        rng = random.Random(f"access {seed} {number}")
        with tempfile.TemporaryDirectory() as folder:
            tried += asyncio.run(check(random_rules(rng), Path(folder)))
    return tried


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 3 or not all(one.isdecimal() for one in arguments[:2]):
        sys.exit("usage: python -m hardening.access.matrix SETS [SEED [RESULTS]]")
    sets, seed = times(arguments[0]), int(arguments[1]) if arguments[1:] else 1
    results = arguments[2] if arguments[2:] else None
    found = noted(results, "access", lambda: {"combinations": matrix(sets, seed)}, sets=sets, seed=seed)
    tried = found["combinations"]
    sys.stdout.write(f"{tried:,} combinations under {sets} sets of rules, seed {seed}: all as the reference says\n")


if __name__ == "__main__":
    main(sys.argv[1:])
