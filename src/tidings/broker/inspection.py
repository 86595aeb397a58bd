"""Answers the INSPECT request: the state of a broker as JSON (version 1), for users with the right to manage it.

One small *overview* for clients that poll every second, and lists that are fetched a page at a time. Everything is
read on request: without requests, inspection costs nothing.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from heapq import nlargest
from itertools import islice
from typing import Any, assert_never

from tidings.broker.broker_view import BrokerView
from tidings.broker.http.network_status import status
from tidings.broker.security.user_guard import UserGuard
from tidings.delivery.mailbox import Mailbox
from tidings.delivery.policy import QueuePolicy, Quota
from tidings.errors import SecurityError, TidingsError, UsageError
from tidings.kernel.clock import now_ms
from tidings.node.clients.session import Connection, DirectSubscription, MailboxSubscription, Principal
from tidings.node.clients.subscriptions import EVERYTHING
from tidings.node.mailboxes.memory_limits import DROPS
from tidings.node.protocol_session import Inspect
from tidings.node.requests import Done, Failed
from tidings.node.view import UNREACHABLE

VERSION = 1
PAGE, PAGE_MAX = 100, 200
TEXT_MAX = 250  # characters of a selector or a client id; names of queues and destinations are whole, to be used
_SINKS_MAX = 100  # of one connection that are looked at for what waits in them
_SLOW_SHARE = 4  # a connection is slow if a quarter of what may wait for it waits

Item = dict[str, Any]


def inspect(broker: BrokerView, principal: Principal, request: Inspect) -> Done | Failed:
    try:
        found = state(broker, principal, request)
    except TidingsError as error:
        return Failed(request.receipt, error)
    head = {"version": VERSION, "part": request.part}
    return Done(request.receipt, {"status": _in_one_frame(head | found, broker.limits.frame_bytes_max)})


def may_inspect(principal: Principal) -> bool:
    return principal.may("monitor", EVERYTHING) or principal.may("manage", EVERYTHING)


def state(broker: BrokerView, principal: Principal, request: Inspect) -> Item:
    """A part of the broker's state; an error if the user may not see it, or there is no such part."""
    if not may_inspect(principal):
        reason = f"{principal.name} may not inspect the broker; that needs the right to monitor or manage {EVERYTHING}"
        raise SecurityError("E_FORBIDDEN", reason)
    if request.part == "overview":
        return overview(broker)
    if request.part not in _LISTS:
        parts = ", ".join(["overview", *_LISTS])
        raise UsageError("E_INSPECT", f"unknown part {request.part!r}; known parts: {parts}")
    total, items = _LISTS[request.part](broker, request)
    return {"total": total, "items": items}


def _in_one_frame(answer: Item, bytes_max: int) -> str:
    """As JSON; a list is cut to the items that fit into one frame, but has at least one."""
    while True:
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        items = answer.get("items", ())
        if len(items) <= 1 or (size := len(text.encode())) <= bytes_max:
            return text
        answer = {**answer, "items": items[: max(1, min(len(items) - 1, len(items) * bytes_max // size))]}


def overview(broker: BrokerView) -> Item:
    plane, counts, network = broker.forwarder.stats(), broker.engine.counts(), broker.engine.network()
    mailboxes = broker.engine.mailboxes
    return {
        "broker": _broker(broker),
        "time_ms": now_ms(),
        "steady_seconds": round(time.monotonic(), 6),  # for rates: the time of day may be set back
        "cpu_seconds": round(time.process_time(), 6),
        "plane": plane,
        "dropped": dropped(broker),
        "expired": plane["expired"] + counts.expired,
        "dead": counts.dead_letters,
        "dead_letters": str(broker.settings.dead_letters),
        "connections": len(broker.clients.connections),
        "filters": broker.forwarder.filters(),
        "mailboxes": len(mailboxes),
        "waiting": sum(len(mailbox.backlog) for mailbox in mailboxes.values()),
        "held_bytes": broker.forwarder.held_bytes(),
        "capacity": {} if broker.observer is None else _gauges(broker.observer.gauges()),
        "network": status(broker),
        "links_down": [] if network is None else sorted(network.dialled - network.links.keys()),
    }


def _broker(broker: BrokerView) -> Item:
    identity = {"id": broker.settings.broker_id, "name": broker.name, "pid": os.getpid()}
    return identity | {"run": broker.run, "ready": broker.ready, "role": broker.role}


def dropped(broker: BrokerView) -> dict[str, int]:
    """Messages that subscribers did not get, by reason, since the broker started."""
    plane, mailboxes = broker.forwarder.stats(), broker.engine.counts().dropped
    return {reason: plane[f"dropped_{reason}"] + mailboxes[reason] for reason in DROPS}


def _gauges(gauges: Iterable[tuple[str, str, Any]]) -> Item:
    """The observer's, by name; those with labels by the label's value too."""
    return {
        name: samples[0][1] if not samples[0][0] else {next(iter(labels.values())): value for labels, value in samples}
        for name, _, samples in gauges
        if samples
    }


# --- lists --------------------------------------------------------------------------------------------------------


def _page(items: Iterable[Item], request: Inspect) -> list[Item]:
    return list(islice(items, request.offset, request.offset + _count(request)))


def _count(request: Inspect) -> int:
    return min(request.count or PAGE, PAGE_MAX)


def _connections(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    """Those with the most output waiting come first."""
    clients = broker.engine.connections
    found = [
        (broker.forwarder.output_bytes(number), number)
        for number, connection in broker.clients.connections.items()
        if _mentions(request.containing, connection.address, connection.user, _client_id(clients.get(number)))
    ]
    largest = nlargest(request.offset + _count(request), found)[request.offset :]
    return len(found), [_connection(broker, number, waiting) for waiting, number in largest]


def _client_id(client: Connection | None) -> str:
    return "" if client is None else client.client_id


def _connection(broker: BrokerView, number: int, waiting: int) -> Item:
    connection, client = broker.clients.connections[number], broker.engine.connections.get(number)
    subscriptions = () if client is None else client.subscriptions.values()
    sinks = [one.sink for one in islice(subscriptions, _SINKS_MAX) if isinstance(one, DirectSubscription)]
    counts = [broker.forwarder.sink_counts(sink) for sink in sinks]
    waiting += sum(backlog for _, _, backlog, _ in counts)
    return {
        "connection": number,
        "address": connection.address,
        "user": connection.user,
        "client": _short(_client_id(client)),
        "protocol": connection.protocol,
        "since_ms": connection.opened_ms,
        "subscriptions": len(subscriptions),
        "waiting_bytes": waiting,
        "slow": waiting * _SLOW_SHARE > broker.limits.output_bytes_max or any(stalled for *_, stalled in counts),
    }


def _subscriptions(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    """In the order of their connections. Skipped subscriptions cost nothing: this runs on the broker's loop."""
    text, total, page = request.containing, 0, list[Item]()
    end = request.offset + _count(request)
    for client in broker.engine.connections.values():
        numbers: Collection[int] = client.subscriptions
        if text and not _mentions(text, client.principal.name, client.client_id):
            found = client.subscriptions.items()
            numbers = [number for number, one in found if text in one.selector or text in one.destination]
        if total < end and total + len(numbers) > request.offset:
            shown = islice(numbers, max(0, request.offset - total), end - total)
            page += [_subscription(broker, client, number) for number in shown]
        total += len(numbers)
    return total, page


def _subscription(broker: BrokerView, client: Connection, number: int) -> Item:
    one = client.subscriptions[number]
    head: Item = {
        "connection": client.number,
        "subscription": number,
        "user": client.principal.name,
        "client": _short(client.client_id),
        "destination": one.destination,
        "selector": _short(one.selector),
    }
    match one:
        case DirectSubscription(sink):
            delivered, dropped, waiting_bytes, stalled = broker.forwarder.sink_counts(sink)
            counts: Item = {"delivered": delivered, "dropped": dropped, "waiting_bytes": waiting_bytes}
            return {**head, "kind": "direct", "stalled": stalled, **counts}
        case MailboxSubscription(mailbox):
            counts = {"delivered": mailbox.given, "dropped": mailbox.dropped, "waiting": len(mailbox.backlog)}
            return {**head, "kind": mailbox.kind.value, "stalled": mailbox.stalled, **counts}
        case _:
            assert_never(one)


def _mailboxes(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    """The fullest come first."""
    found = [one for one in broker.engine.mailboxes.values() if _mentions(request.containing, one.name)]
    largest = nlargest(request.offset + _count(request), found, key=lambda one: len(one.backlog))
    return len(found), [mailbox_item(one) | broker.engine.home_of(one) for one in largest[request.offset :]]


def mailbox_item(mailbox: Mailbox) -> Item:
    return {
        "name": mailbox.name,
        "kind": mailbox.kind.value,
        "waiting": len(mailbox.backlog),
        "messages": mailbox.messages,
        "unacknowledged": mailbox.unacknowledged,
        "resting": len(mailbox.resting),
        "active_connection": None if (served := mailbox.served()) is None else served.connection,
        "consumers": len(mailbox.consumers),
        "given": mailbox.given,
        "dropped": mailbox.dropped,
        "stalled": mailbox.stalled,
        "policy": None if mailbox.quota is None else _quota(mailbox.quota),
    }


def policy_item(policy: QueuePolicy) -> Item:
    return {
        "destination": str(policy.pattern),
        "messages_max": policy.messages_max,
        "bytes_max": policy.bytes_max,
        "overflow": policy.overflow.value,
        "lifetime_ms": policy.lifetime_ms,
        "deliveries_max": policy.deliveries_max,
        "dead_letters": "" if policy.dead_letters is None else str(policy.dead_letters),
        "idle_ms": policy.idle_ms,
        "create": policy.create,
        "redelivery_first_ms": policy.backoff.first_ms,
        "redelivery_factor": policy.backoff.factor,
        "redelivery_most_ms": policy.backoff.most_ms,
        "redelivery_jitter": policy.backoff.jitter,
        "single_active": policy.single_active,
        "scope": policy.scope.value,
        "home": policy.home,
    }


def _quota(quota: Quota) -> Item:
    """The policy of a queue, and what it did."""
    return policy_item(quota.policy) | {"bytes": quota.bytes, "overflowed": sum(quota.dropped.values())}


def _destinations(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    """Destinations of subscriptions, most subscriptions first."""
    counts = Counter(
        one.destination
        for client in broker.engine.connections.values()
        for one in client.subscriptions.values()
        if _mentions(request.containing, one.destination)
    )
    items = ({"destination": name, "subscriptions": count} for name, count in counts.most_common())
    return len(counts), _page(items, request)


def _traffic(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    """Destinations published to, busiest first; counted while a client asks (topic_meter.hpp)."""
    found = [
        (came, given, name)
        for name, (came, given) in broker.forwarder.destination_counts(now_ms()).items()
        if _mentions(request.containing, name)
    ]
    busiest = nlargest(request.offset + _count(request), found)[request.offset :]
    return len(found), [{"destination": name, "in": came, "out": given} for came, given, name in busiest]


def _routing(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    network = broker.engine.network()
    if network is None:
        return 0, []
    routers = [one for one in sorted({*network.routes, *network.interests}) if _mentions(request.containing, str(one))]
    items = (
        {
            "router": router,
            "next_hop": route.next_hop,
            "distance": route.distance,
            "interests": network.interests.get(router, 0),
        }
        for router in routers
        for route in [network.routes.get(router, UNREACHABLE)]
    )
    return len(routers), _page(items, request)


def _interests(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    return broker.engine.interests(request.offset, _count(request), request.containing)


def _covering(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    return broker.engine.covering_tables(request.offset, _count(request), request.containing)


def _policies(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    """In order, each with the number of queues that it holds for."""
    engine = broker.engine
    held = Counter(one.quota.policy for one in engine.mailboxes.values() if one.quota is not None)
    items = [
        {"number": number, "queues": held[one]} | policy_item(one)
        for number, one in enumerate(engine.policies, 1)
        if _mentions(request.containing, str(one.pattern))
    ]
    return len(items), _page(items, request)


def _users(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    guard = broker.guard
    known = sorted(guard.users.by_name.items()) if isinstance(guard, UserGuard) else []
    items = [
        {"name": name, "groups": sorted(user.groups), "password": bool(user.password)}
        for name, user in known
        if _mentions(request.containing, name, *user.groups)
    ]
    return len(items), _page(items, request)


def _access(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    """The access rules in their order."""
    guard = broker.guard
    items = [
        {
            "number": number,
            "user": rule.user,
            "group": rule.group,
            "allow": rule.allow,
            "operations": sorted(rule.operations),
            "destination": str(rule.pattern),
            "selector": _short(rule.selector),
        }
        for number, rule in enumerate(guard.rules.rules if isinstance(guard, UserGuard) else (), 1)
        if _mentions(request.containing, rule.user, rule.group, str(rule.pattern))
    ]
    return len(items), _page(items, request)


def _quotas(broker: BrokerView, request: Inspect) -> tuple[int, list[Item]]:
    """Of users that are connected or have queues, and have a quota."""
    used = sorted(broker.engine.usage(), key=lambda one: one.user)
    items = [
        {"user": one.user, "quota": asdict(one.quota)}
        | {name: getattr(one, name) for name in ("connections", "queues", "stored_bytes", "messages", "bytes", "waits")}
        for one in used
        if _mentions(request.containing, one.user)
    ]
    return len(items), _page(items, request)


_LISTS: dict[str, Callable[[BrokerView, Inspect], tuple[int, list[Item]]]] = {
    "connections": _connections,
    "subscriptions": _subscriptions,
    "mailboxes": _mailboxes,
    "destinations": _destinations,
    "traffic": _traffic,
    "routing": _routing,
    "interests": _interests,
    "covering": _covering,
    "policies": _policies,
    "users": _users,
    "access": _access,
    "quotas": _quotas,
}


def _mentions(part: str, *texts: str) -> bool:
    return not part or any(part in text for text in texts)


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
