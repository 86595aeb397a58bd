"""Named checkers. Safety may be checked at any time; liveness when all faults are healed and time has passed.

The truth is central: all subscriptions, what was published where, what the broker promised of it.
"""

from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from hardening.histories import overtaken
from hardening.simulate.clients import Group, Mailbox
from tidings.model.codec import encode_predicate
from tidings.model.destination import DestinationPattern
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.sim.brokers import TOPIC, Brokers, SimulatedPublication, Subscriber
from tidings.tracking.query.path import Path


def fail(checker: str, what: str) -> None:
    raise AssertionError(f"{checker}: {what}")


# --- safety -------------------------------------------------------------------------------------------------------


def once_only(brokers: Brokers, mailboxes: Iterable[Mailbox], forgetful: AbstractSet[int]) -> None:
    """Nobody gets anything twice, or what does not match; what a mailbox gives out again is marked as redelivered.
    `forgetful`: the routers that remember few ids."""
    brokers.collect()
    known = {one.id: one for one in brokers.publications}
    for subscriber in [*brokers.subscribers, *brokers.gone]:
        for id, count in subscriber.got.items():
            name = f"subscriber {subscriber.number} at router {subscriber.router} ({subscriber.selector})"
            doubles = not subscriber.durable and _may_double(known[id], subscriber.router)
            doubles |= _may_double_far(known[id], subscriber.router, forgetful)
            if count > 1 and not doubles:
                fail("once-only", f"{name} got {id.hex()} {count} times")
            if known[id].queue or not subscriber.wants(known[id].attributes):
                fail("delivered-set", f"{name} got {id.hex()}, which does not match")
    for mailbox in mailboxes:
        name = mailbox.name
        if unmarked := mailbox.unmarked():
            fail("once-only", f"{name} gave {unmarked[0].hex()} again without a mark")
        for id in mailbox.got:
            if not mailbox.wants(known[id]):
                fail("delivered-set", f"{name} gave {id.hex()}, which does not match")


def _may_double(one: SimulatedPublication, router: int) -> bool:
    """Its publisher did not know that it had arrived and sent it again. At other brokers it comes once all the same;
    so it does at its own to what is kept (queues, durable subscriptions), also if that one has restarted in between and
    the message was acknowledged before."""
    return one.router == router and len(one.clients) > 1


def _may_double_far(one: SimulatedPublication, router: int, forgetful: AbstractSet[int]) -> bool:
    """Its publisher sent it again, and the router, another, has forgotten its id since it came first."""
    return one.router != router and router in forgetful and len(one.clients) > 1


def acked_stays_acked(brokers: Brokers, mailboxes: Iterable[Mailbox], forgetful: AbstractSet[int]) -> None:
    """An acknowledged message does not come again, marked or not: not while the broker runs, and if it said that this
    is on disk, not after a crash either."""
    known = {one.id: one for one in brokers.publications}
    for mailbox in mailboxes:
        for id in mailbox.given_again():
            if not _may_double_far(known[id], mailbox.router, forgetful):
                fail("acked-stays-acked", f"{mailbox.name} gave {id.hex()}, which had been acknowledged")


def nothing_comes_again(mailboxes: Iterable[Mailbox], before: Mapping[Mailbox, int]) -> None:
    """All was acknowledged and written; `before`: how much each mailbox had delivered when its broker restarted."""
    for mailbox in mailboxes:
        for one in mailbox.given[before[mailbox] :]:
            fail("acked-stays-acked", f"{mailbox.name} gave {one.id.hex()} again after a restart")


def whole_transactions(brokers: Brokers, mailboxes: Iterable[Mailbox], groups: Iterable[Group]) -> None:
    """Every subscriber gets a transaction as a whole or not at all; as promised, where something was."""
    durable = [(one.router, one.got, one) for one in brokers.subscribers if one.durable]
    readers: list[tuple[int, Mapping[bytes, int], Subscriber | Mailbox]] = [*durable]
    readers += [(one.router, one.got, one) for one in mailboxes if one.kind != "queue"]
    for group in groups:
        for router, got, reader in readers:
            selected = Subscriber(router, 0, reader.selector).wants(group.attributes)
            there = sum(got[id] > 0 for id in group.ids) if selected else 0
            expected = {0, len(group.ids)} if selected else {0}
            if group.committed and selected:
                expected = {len(group.ids)}
            elif group.rolled_back or group.refused:
                expected = {0}
            if there not in expected:
                name = f"transaction {group.number} of router {group.router}"
                fail("whole-transactions", f"{name}: {there} of {len(group.ids)} at {reader.number} of router {router}")
    for group in groups:
        if group.rolled_back and any(one.got[id] for one in brokers.subscribers for id in group.ids):
            fail("whole-transactions", f"transaction {group.number} of router {group.router} was rolled back and came")


def order_per_publisher(brokers: Brokers, mailboxes: Iterable[Mailbox], calm: set[bytes], *, one_way: bool) -> None:
    """Messages that one publisher sends in one way (persistent or not) come in that order: always at its own broker,
    from others while the network is calm; what is persistent also amid faults, if there is only one way to each broker
    (`one_way`), and also if the publisher's connection, or its broker, was another in between: all that is persistent
    at one router comes from one publisher. `calm`: the messages that were published and delivered in such times, and
    that were not free to be broadcast: those go by other ways than the rest, and may overtake it."""
    places = {one.id: (index, one) for index, one in enumerate(brokers.publications)}
    readers = [(one.router, one.order, f"subscriber {one.number}") for one in brokers.subscribers]
    readers += [(one.router, one.first_given(), one.name) for one in mailboxes]
    for router, order, name in readers:

        def place(id: bytes, router: int = router) -> tuple[Hashable, int] | None:
            index, one = places[id]
            ordered = one.router == router or id in calm or (one_way and one.persistent)
            if one.committed is not None or len(one.clients) > 1 or not ordered:
                return None
            return (one.router if one.persistent else id_of_writer(one), one.persistent), index

        for late, before in overtaken(dict.fromkeys(order), place):
            fail("order-per-publisher", f"{name} at router {router} got {late.hex()} after {before.hex()}")


def id_of_writer(one: SimulatedPublication) -> int:
    return id(one.clients[0])


# --- safety of promises, once everything was read -----------------------------------------------------------------


def nothing_lost(brokers: Brokers, mailboxes: Iterable[Mailbox]) -> None:
    """Every persistent message that was accepted is with every durable subscription and queue that wants it."""
    brokers.collect()
    promised = [one for one in brokers.publications if one.persistent and one.accepted]
    for subscriber in brokers.subscribers:
        for one in promised if subscriber.durable else ():
            if not one.queue and subscriber.wants(one.attributes) and not subscriber.got[one.id]:
                name = f"durable {subscriber.number} at router {subscriber.router}"
                fail("nothing-lost", f"{name} lacks {one.id.hex()} of router {one.router}")
    for mailbox in mailboxes:
        for one in promised:
            if mailbox.wants(one) and not mailbox.got[one.id]:
                fail("nothing-lost", f"{mailbox.name} lacks {one.id.hex()} of router {one.router}")


def unacked_comes_again(brokers: Brokers, mailboxes: Iterable[Mailbox]) -> None:
    """Every such message was acknowledged by a consumer: what one had and went away with came to another."""
    promised = [one for one in brokers.publications if one.persistent and one.accepted]
    for mailbox in mailboxes:
        done = {one.id for one in mailbox.acknowledged}
        for one in promised:
            if mailbox.wants(one) and one.id not in done:
                fail("unacked-comes-again", f"{mailbox.name}: nobody has acknowledged {one.id.hex()}")


def tracking_finds_everything(
    one: SimulatedPublication, path: Path, got_by: Iterable[tuple[int, str]], crashed: set[int], *, sure: bool
) -> None:
    """Whoever got a message is in its path, or its broker says that its records of that time are lost, which only
    one that crashed may say. `sure`: no crash can have taken what was recorded long after the message's time."""
    unsure = set(path.unknown) | set(path.unasked)
    if path.unasked:
        fail("tracking", f"{path.message} was not asked for everywhere: {path.unasked}")
    if not set(path.unknown) <= crashed:
        fail("tracking", f"{path.message}: {path.unknown} are unsure and only {crashed} crashed")
    if not path.confirmed and one.router not in unsure:
        fail("tracking", f"router {one.router} has forgotten {path.message}")
    named = {(broker, statement.peer) for broker, statement in path.subscribers}
    for place in got_by if sure else ():
        if place[0] not in unsure and place not in named:
            fail("tracking", f"{path.message} reached {place}, which {sorted(named)} does not name")


# --- liveness -----------------------------------------------------------------------------------------------------


def converged(brokers: Brokers, *, pan: bool) -> str:
    """Empty if everybody reaches everybody by the shortest way, knows all present interests, and nothing is on its way;
    otherwise what is not so yet. Pan chooses its links: there only that everybody is reached."""
    if not pan:
        try:
            brokers.check_tables()
        except AssertionError as error:
            return str(error)
        return ""
    running = brokers.running()
    for router, broker in running.items():
        network = broker.network
        assert network.pan is not None
        if not network.pan.pan.joined or set(network.unicast.reachable()) != running.keys() - {router}:
            return f"router {router} reaches {sorted(network.unicast.reachable())}"
        for other, one in running.items():
            if other != router and network.scheme.predicates.get(other, set()) != one.network.scheme.local_rows():
                return f"router {router} has other interests of {other} than it has now"
        if len(network.store_and_forward):
            return f"router {router} still has {len(network.store_and_forward)} in transit"
    return ""


def interests_known(
    brokers: Brokers, mailboxes: Iterable[Mailbox], lasting: Iterable[tuple[int, Predicate]] = ()
) -> str:
    """Empty if everybody knows exactly the interests of those who are subscribed at the others, by the central list.
    `lasting`: those of durable subscriptions to types, by router."""
    running = brokers.running()
    truth = {router: LocalInterests(one.network.settings.encoding) for router, one in running.items()}
    kept = [one for one in mailboxes if one.kind != "queue"]
    wanted = [(one.router, one.selector) for one in brokers.subscribers] + [(one.router, one.selector) for one in kept]
    for router, selector in wanted:
        truth[router].add(encode_predicate(predicate_of(DestinationPattern.parse(TOPIC), Selector(selector))))
    for router, predicate in lasting:
        if router in truth:
            truth[router].add(encode_predicate(predicate))
    for router, broker in running.items():
        for narrowed in broker.network.scheme.local.narrowed:
            truth[router].narrow(narrowed)
    for router, broker in running.items():
        for other, interests in truth.items():
            if other != router and broker.network.scheme.predicates.get(other, set()) != interests.rows():
                return f"router {router} knows other interests of {other} than those subscribed there"
    return ""


def delivered_in_calm(brokers: Brokers, publications: list[SimulatedPublication]) -> None:
    """Of what was published in calm times everyone has exactly what matches."""
    try:
        brokers.check_delivered([one for one in publications if not one.queue])
    except AssertionError as error:
        fail("delivered-set", str(error))
