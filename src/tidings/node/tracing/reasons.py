"""Tells what a running node sees of a message and a subscriber: whose subscriptions want it, and where it waits.

What histories say about the past comes from the recorder (`Recorder.ask`); this adds what only the running node knows.
The attributes of the message are those of the question, or those of a copy that still waits here.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from tidings.delivery.mailbox import Mailbox
from tidings.errors import TidingsError
from tidings.kernel.codec import decode_message
from tidings.model.codec import decode_predicate
from tidings.model.destination import DestinationPattern
from tidings.model.message_id import MessageId
from tidings.model.predicate_text import abridged
from tidings.model.selector import Selector
from tidings.model.selector.clauses import FailedClause, failed_clause
from tidings.model.selector.program import run
from tidings.model.values import Value
from tidings.node.clients.session import Connection, MailboxSubscription, Subscription
from tidings.node.clients.subscription_plan import predicate_of
from tidings.node.mailboxes.dead_letters import CAUSE
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.tracing.names import subscriber_name
from tidings.routing.message_views import batch_of
from tidings.tracking.query.codec import WhyQuestion
from tidings.tracking.recording.losses import TraceReason

AHEAD_MAX = 100_000  # messages of a mailbox that are looked through
Attributes: TypeAlias = Mapping[str, Value]


class PresentReasons:
    def __init__(self, service: MailboxService, clients: Mapping[int, Connection]) -> None:
        self._service, self._clients = service, clients

    def about(self, message: MessageId, why: WhyQuestion) -> list[TraceReason]:
        held = self._service.message_cache.find(bytes(message))
        owner = self._service.mailboxes.by_name.get(why.subscriber)
        subscriptions = list(self._subscriptions(why.subscriber, owner))
        boxes = dict.fromkeys([*([] if owner is None else [owner]), *(m for _, s in subscriptions if (m := _box(s)))])
        if not subscriptions and owner is None:
            return list(self._dead(held, boxes))
        alive = (message for message in held.values() if CAUSE not in decode_message(message).properties)
        example = why.example or next(alive, b"")  # a dead letter's destination is another
        attributes = batch_of(example).attributes(0) if example else None
        reasons = [reason for box in boxes for reason in _waiting(box, held)]
        reasons += self._dead(held, boxes)
        if attributes is None:
            return [
                *reasons,
                TraceReason("attributes-unknown", "give its destination and attributes to compare selectors"),
            ]
        reasons += [_wants(client, one, attributes) for client, one in subscriptions]
        if owner is not None and not any(_box(one) is owner for _, one in subscriptions):
            reasons.append(_asks(self._service.mailboxes.predicate(owner), attributes))
        return list(dict.fromkeys(reasons))

    def _subscriptions(self, name: str, owner: Mailbox | None) -> Iterator[tuple[Connection, Subscription]]:
        for client in self._clients.values():
            own = subscriber_name(client) == name
            for one in client.subscriptions.values():
                if own or (owner is not None and _box(one) is owner):
                    yield client, one

    def _dead(self, held: Mapping[int, bytes], boxes: Mapping[Mailbox, object]) -> Iterator[TraceReason]:
        for message in held.values():
            letter = decode_message(message)
            if cause := letter.properties.get(CAUSE):
                queue = self._service.mailboxes.by_name.get(str(letter.destination))
                if queue is not None and queue not in boxes:
                    yield TraceReason("dead-letter", f"{letter.destination}: {cause!s}")


def _box(subscription: Subscription) -> Mailbox | None:
    return subscription.mailbox if isinstance(subscription, MailboxSubscription) else None


def _waiting(mailbox: Mailbox, held: Mapping[int, bytes]) -> Iterator[TraceReason]:
    for consumer in mailbox.consumers:
        if any(place.seq in held for place in consumer.unacknowledged.values()):
            yield TraceReason("waits", f"a consumer of {mailbox.name} has it and has not acknowledged it")
    for ahead, place in enumerate(islice(mailbox.backlog.scan(), AHEAD_MAX)):
        if place.seq in held:
            yield TraceReason("waits", f"in {mailbox.name}, behind {ahead} others; consumers: {len(mailbox.consumers)}")


def _wants(client: Connection, subscription: Subscription, attributes: Attributes) -> TraceReason:
    what = f"{subscription.destination} with selector {subscription.selector!r}"
    try:
        pattern = DestinationPattern.parse(subscription.destination)
        if not predicate_of(pattern, Selector("")).matches(attributes, run):
            return TraceReason("destination", subscription.destination)
        if failed := failed_clause(Selector(subscription.selector), attributes):
            return TraceReason("selector", f"{_clause(failed)} of {subscription.selector!r}")
        restriction = client.principal.restriction(str(pattern))
        if restriction and (failed := failed_clause(Selector(restriction), attributes)):
            return TraceReason("selector", f"{_clause(failed)} of the access rule's selector {restriction!r}")
    except TidingsError as error:
        return TraceReason("selector", f"{what} cannot be compared: {error.reason}")
    return TraceReason("matches", what)


def _clause(failed: FailedClause) -> str:
    values = ", ".join(f"{name} = {_text(value)}" for name, value in failed.values.items())
    outcome = "false" if failed.outcome is False else "unknown"
    return f"{failed.text!r} at position {failed.position} is {outcome}{f' ({values})' if values else ''}"


def _text(value: Value | None) -> str:
    return "missing" if value is None else repr(value)


def _asks(predicate: bytes, attributes: Attributes) -> TraceReason:
    """Of a mailbox without consumers: the text of its selector is not kept."""
    wanted = decode_predicate(predicate)
    return TraceReason("matches" if wanted.matches(attributes, run) else "selector", abridged(wanted))
