"""Access as a matrix: users x operations x destinations x protocols, in a network of two brokers, for random rules.

    python -m tidings.testing.access_matrix 10 [SEED]        # so many sets of rules

What each protocol answers is compared with a plain reference, which knows nothing of how rules are indexed: it writes
out all destinations that a pattern means. What was published where is compared with what arrives, at the other broker
too: a refusal that is only said would be noticed.
"""

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Protocol

from proton import Message
from proton.utils import BlockingConnection, LinkDetached, SendException
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.typing import Subprotocol

from tidings.broker import users
from tidings.broker.access import Rule, Rules
from tidings.broker.limits import Limits
from tidings.broker.links import LinkSettings
from tidings.broker.passwords import Cost
from tidings.broker.peers import Peers
from tidings.broker.server import Broker, Listener
from tidings.broker.user_guard import UserGuard
from tidings.broker.users import Users
from tidings.client import Client, Subscription, connect
from tidings.delivery.store import MemoryStore
from tidings.errors import SecurityError
from tidings.lab.ports import free_ports
from tidings.model.destination import DestinationPattern
from tidings.node.network_settings import NetworkSettings
from tidings.node.settings import Settings
from tidings.protocols.amqp import AmqpSession
from tidings.protocols.native import NativeSession
from tidings.protocols.stomp import StompSession
from tidings.protocols.websocket import WebSocketLayer
from tidings.testing.links import QUICK, SECRET, eventually
from tidings.testing.record import noted, times
from tidings.testing.stomp import RawStomp

CHEAP = Cost(n=2, r=1, p=1)
ROOT = "root"
USERS = {
    "alice": frozenset({"traders"}),
    "bob": frozenset({"traders", "ops"}),
    "carol": frozenset[str](),
    ROOT: frozenset[str](),
}
OPERATIONS = ("publish", "subscribe", "browse", "manage")
PROTOCOLS = ("native", "stomp", "websocket", "amqp")
TOPICS = ("a", "b", "a.b", "a.c", "a.b.c", "b.a")
QUEUES = ("queue:a", "queue:a.b", "queue:b")
PATTERNS = (*TOPICS, ">", "*", "a.>", "a.*", "*.b", "a.*.c", *QUEUES)
RULE_PATTERNS = (*PATTERNS, "queue:>", "queue:a.>", "queue:*")
LEVELS = ("a", "b", "c", "z")
DEPTH = 4
SECONDS = 30.0


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
    """Down the list: who is denied a part is refused, who is allowed all is not; without such a rule, refused."""
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
    rules = [Rule(ROOT, pattern, frozenset(OPERATIONS)) for pattern in everything]
    for _ in range(rng.randint(3, 9)):
        operations = frozenset(rng.sample(OPERATIONS, rng.randint(1, 3)))
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
        known = users.add(known, name, f"{name}'s password", groups, CHEAP)
    return UserGuard(known, Rules(rules), Limits())


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
        broker = Broker(Settings(broker_id=router), MemoryStore(), guard=guard(rules), peers=peers)
        await broker.start([])
        brokers.append(broker)
    near, far = brokers
    web = Listener(StompSession, port=0, make_layer=lambda: WebSocketLayer(("*",)))
    listeners = {
        "native": Listener(NativeSession, port=0),
        "stomp": Listener(StompSession, port=0),
        "websocket": web,
        "amqp": Listener(NativeSession, port=0, make_gateway=AmqpSession),
    }
    found = {name: await near.listen(listener) for name, listener in listeners.items()}
    try:
        yield Place(brokers, found, await far.listen(Listener(NativeSession, port=0)))
    finally:
        for broker in brokers:
            await broker.stop()


def log_in(port: int, user: str) -> Client:
    return connect(f"tidings://127.0.0.1:{port}", user=user, password=f"{user}'s password", reconnect=False)


# --- one door for each protocol: may this user publish there, may it subscribe? -----------------------------------


class Native:
    def __init__(self, port: int, user: str) -> None:
        self._client = log_in(port, user)

    async def open(self) -> None:
        await self._client

    async def publish(self, destination: str, case: int) -> bool:
        try:
            await self._client.publish(destination, {"case": case}, wait=True)
        except SecurityError:
            return False
        return True

    async def subscribe(self, pattern: str) -> bool:
        try:
            subscription = await self._client.subscribe(pattern)
        except SecurityError:
            return False
        await subscription.close()
        return True

    async def share(self, pattern: str, name: str, *, durable: bool) -> bool:
        try:
            await self._client.subscribe(pattern, shared=name, durable=durable)
        except SecurityError:
            return False
        return True

    async def transact(self, destination: str, case: int) -> bool:
        try:
            async with self._client.transaction() as work:
                await work.publish(destination, {"case": case}, persistent=True, wait=True)
        except SecurityError:
            return False
        return True

    async def browse(self, queue: str) -> bool:
        try:
            async for _ in self._client.queue(queue).browse():
                pass
        except SecurityError:
            return False
        return True

    async def purge(self, queue: str) -> bool:
        try:
            await self._client.queue(queue).purge()
        except SecurityError:
            return False
        return True

    async def close(self) -> None:
        await self._client.close()


class Stomp:
    """Each question over a connection of its own: an error ends it."""

    def __init__(self, port: int, user: str) -> None:
        self._port, self._user = port, user

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def publish(self, destination: str, case: int) -> bool:
        return await self._ask("SEND", {"destination": _stomp(destination), "case": str(case), "receipt": "r"})

    async def subscribe(self, pattern: str) -> bool:
        return await self._ask("SUBSCRIBE", {"destination": _stomp(pattern), "id": "1", "receipt": "r"})

    async def _ask(self, command: str, headers: dict[str, str]) -> bool:
        raw = await RawStomp.open(self._port)
        await raw.connect(login=self._user, passcode=f"{self._user}'s password")
        await raw.send(command, headers)
        answer = await raw.frame()
        await raw.leave()
        return _verdict(answer.command, answer.headers.get("code", ""))


class WebSocket(Stomp):
    async def _ask(self, command: str, headers: dict[str, str]) -> bool:
        url, protocols = f"ws://127.0.0.1:{self._port}", [Subprotocol("v12.stomp")]
        async with open_websocket(url, subprotocols=protocols) as socket:
            login = {"login": self._user, "passcode": f"{self._user}'s password"}
            await self._say(socket, "CONNECT", {"accept-version": "1.2", "host": "x", **login})
            await self._say(socket, command, headers)
            text = ""
            while text.count("\0") < 2:  # CONNECTED and the answer, in as many pieces as the broker likes
                text += await socket.recv(decode=True)
            lines = text.split("\0")[1].strip().split("\n")
            code = next((line.partition(":")[2] for line in lines if line.startswith("code:")), "")
            return _verdict(lines[0], code)

    @staticmethod
    async def _say(socket: ClientConnection, command: str, headers: dict[str, str]) -> None:
        await socket.send("\n".join([command, *(f"{name}:{value}" for name, value in headers.items()), "", "\0"]))


class Amqp:
    def __init__(self, port: int, user: str) -> None:
        self._port, self._user = port, user

    async def open(self) -> None:
        self._connection = await asyncio.to_thread(self._connect)

    def _connect(self) -> BlockingConnection:
        return BlockingConnection(
            f"127.0.0.1:{self._port}",
            timeout=SECONDS,
            user=self._user,
            password=f"{self._user}'s password",
            allow_insecure_mechs=True,
        )

    async def publish(self, destination: str, case: int) -> bool:
        def send() -> None:
            sender = self._connection.create_sender(_amqp(destination))
            sender.send(Message(properties={"case": case}))
            sender.close()  # type: ignore[no-untyped-call]

        return await self._try(send)

    async def subscribe(self, pattern: str) -> bool:
        def receive() -> None:
            self._connection.create_receiver(_amqp(pattern), credit=0).close()  # type: ignore[no-untyped-call]

        return await self._try(receive)

    @staticmethod
    async def _try(act: Callable[[], None]) -> bool:
        try:
            await asyncio.to_thread(act)
        except LinkDetached as error:
            if "unauthorized-access" not in str(error):
                raise
            return False
        except SendException:
            return False
        return True

    async def close(self) -> None:
        await asyncio.to_thread(self._connection.close)


class Door(Protocol):
    """How a user comes in by one protocol."""

    async def open(self) -> None: ...
    async def publish(self, destination: str, case: int) -> bool: ...
    async def subscribe(self, pattern: str) -> bool: ...
    async def close(self) -> None: ...


DOORS: dict[str, Callable[[int, str], Door]] = {
    "native": Native,
    "stomp": Stomp,
    "websocket": WebSocket,
    "amqp": Amqp,
}


def _verdict(command: str, code: str) -> bool:
    assert command == "RECEIPT" or code == "E_FORBIDDEN", f"{command} {code}"
    return command == "RECEIPT"


def _stomp(destination: str) -> str:
    queue, name = destination.startswith("queue:"), destination.removeprefix("queue:")
    return f"/queue/{name}" if queue else f"/topic/{name}"


def _amqp(destination: str) -> str:
    queue, name = destination.startswith("queue:"), destination.removeprefix("queue:")
    return f"queue://{name}" if queue else f"topic://{name}"


# --- the matrix ---------------------------------------------------------------------------------------------------


async def check(rules: tuple[Rule, ...], folder: Path) -> int:
    """How many combinations were tried; an AssertionError names one that is not as the reference says."""
    async with (
        pair(folder, rules) as place,
        log_in(place.far, ROOT) as far,
        log_in(place.ports["native"], ROOT) as near,
    ):
        seen = await far.subscribe(">")
        networks = [broker.node.network for broker in place.brokers]
        await eventually(lambda: all(network and network.unicast.reachable() for network in networks), SECONDS)
        await eventually(lambda: bool(networks[0] and networks[0].scheme.predicates.get(2)), SECONDS)
        published: dict[int, tuple[str, str, str]] = {}
        tried = 0
        for operation, places in (
            ("subscribe", PATTERNS),
            ("publish", (*TOPICS, *QUEUES)),
        ):  # queues are empty at first
            for protocol, user in product(PROTOCOLS, USERS):
                door = DOORS[protocol](place.ports[protocol], user)
                await door.open()
                for where in places:
                    tried += 1
                    told = await (door.publish(where, tried) if operation == "publish" else door.subscribe(where))
                    expected = allowed(rules, user, operation, where)
                    assert told == expected, f"{user}, {operation} {where} by {protocol}: {told}; {rules}"
                    if expected and operation == "publish":
                        published[tried] = (protocol, user, where)
                await door.close()
        for user in USERS:
            native = Native(place.ports["native"], user)
            await native.open()
            for where in (*TOPICS, *QUEUES):
                tried += 1
                told = await native.transact(where, tried)
                assert told == allowed(rules, user, "publish", where), f"{user}, transacted {where}: {told}; {rules}"
                if told:
                    published[tried] = ("native", user, where)
            await native.close()
        await _compare(seen, {case for case, (_, _, where) in published.items() if where in TOPICS})
        for queue in QUEUES:
            wanted = {case for case, (_, _, where) in published.items() if where == queue}
            await _compare(await near.subscribe(queue), wanted)
        return tried + await _check_kept(rules, place)


async def _check_kept(rules: tuple[Rule, ...], place: Place) -> int:
    """Subscriptions that several share, and what is done to queues; these are empty by now, and there."""
    tried = 0
    for user in USERS:
        door = Native(place.ports["native"], user)
        await door.open()
        asked = [(one, "subscribe", door.share(one, f"{user} {one}", durable=False)) for one in TOPICS]
        asked += [(one, "subscribe", door.share(one, f"{user} {one} kept", durable=True)) for one in TOPICS]
        asked += [(one, "browse", door.browse(one)) for one in QUEUES]
        asked += [(one, "manage", door.purge(one)) for one in QUEUES]
        for where, operation, answer in asked:
            tried += 1
            told = await answer
            assert told == allowed(rules, user, operation, where), f"{user}, {operation} {where}: {told}; {rules}"
        await door.close()
    return tried


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
    if not 1 <= len(arguments) <= 3 or not all(one.isdigit() for one in arguments[:2]):
        sys.exit("usage: python -m tidings.testing.access_matrix SETS [SEED [RESULTS]]")
    sets, seed = times(arguments[0]), int(arguments[1]) if arguments[1:] else 1
    results = arguments[2] if arguments[2:] else None
    run = lambda: {"combinations": matrix(sets, seed)}  # noqa: E731
    tried = noted(results, "access", run, sets=sets, seed=seed)["combinations"]
    sys.stdout.write(f"{tried:,} combinations under {sets} sets of rules, seed {seed}: all as the reference says\n")


if __name__ == "__main__":
    main(sys.argv[1:])
