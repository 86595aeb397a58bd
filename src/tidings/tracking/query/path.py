"""Path search: asks brokers about one message, outwards from the origin, which the message id names.

    search = PathSearch(message_id)
    questions = search.start()                      ask these brokers …
    questions = search.answered(answer)             … and the brokers that their answers lead to
    questions = search.failed(broker, "no route")   a broker that could not be asked
    search.done, search.report()

Only brokers that hold the message lead on, so the cost grows with the route, not with the network. One that cannot
be asked, or whose records of that time are lost, is *opaque*: the search goes through it, over the links others know
of. The report depends on the answers alone, not on their order, so that bulk reconstruction gives the same.

A message may have entered at another broker than its id names: its publisher lost the connection, and sent it again
elsewhere. An origin where it was not published proves nothing then, even if the message passed there; nor does an
origin that the publisher has left: every known broker is asked, and the tree has its root, or several, where the
message entered.

False positives. A broker that claims the message while all its neighbours were asked and none of them has it, is one,
and is dropped. That needs answers from brokers beside the route: `everywhere=True` asks all, and so does a search whose
origin could not be asked or does not have the message. A broker on the rim that
neither delivered the message nor passed it on is only *suspect*: an approximate routing scheme may have led it there.

After Jun and Astley, sections 3.3 and 4.3.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tidings.errors import RemoteProtocolError
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.tracking.moments import Span
from tidings.tracking.query.dominators import dominators, is_behind
from tidings.tracking.recording.losses import TraceReason
from tidings.tracking.trace_answer import Statement, TraceAnswer, TraceVerdict

NOWHERE = -1  # before the brokers where a message entered


@dataclass(frozen=True, slots=True)
class Ask:
    broker: int
    message: MessageId


@dataclass(frozen=True, slots=True)
class Hop:
    """A broker on the route."""

    broker: int
    sender: int | None  # None: the origin, or nothing leads there
    probability: float  # of this statement being made of a broker that the message did not pass
    subscribers: tuple[Statement, ...] = ()
    other_senders: tuple[int, ...] = ()  # brokers on the route it may have come from as well
    opaque: bool = False  # could not say; it lies between others that could
    suspect: bool = False
    between: Span | None = field(default=None, compare=False)  # when the message passed, by the broker's clock


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Asks why a subscriber did or did not get a message; with the message's attributes, if they are known."""

    subscriber: str
    destination: str = ""
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerReason:
    """A broker's reason for a subscriber to have the message, or not."""

    broker: int
    reason: TraceReason


@dataclass(frozen=True, slots=True)
class Path:
    """The reconstruction. `hops` begin with the origin and name each broker after its sender."""

    message: MessageId
    confirmed: bool  # a broker where it was published holds the message
    hops: tuple[Hop, ...]
    false_positives: tuple[Hop, ...]
    unasked: Mapping[int, str]  # brokers that could not be asked, and why
    unknown: tuple[int, ...]  # brokers whose records of that time are lost, in part or all of them
    asked: int
    filters: int
    entered: tuple[int, ...] = ()  # brokers where it was published: not the one in its id if its publisher moved
    publisher: str = ""  # who published it, as far as the broker in its id knows
    reasons: tuple[BrokerReason, ...] = ()

    @property
    def subscribers(self) -> tuple[tuple[int, Statement], ...]:
        return tuple((hop.broker, one) for hop in self.hops for one in hop.subscribers)

    @property
    def complete(self) -> bool:
        return not self.unasked and not self.unknown


class PathSearch:
    def __init__(
        self,
        message: MessageId,
        topology: Mapping[int, Collection[int]] | None = None,
        *,
        everywhere: bool = False,
        brokers_max: int = 100_000,
    ) -> None:
        self.message, self._everywhere, self._brokers_max = message, everywhere, brokers_max
        self._wanted_everywhere = everywhere
        self._links: dict[int, set[int]] = {}
        for broker, neighbours in (topology or {}).items():
            self._link(broker, neighbours)
        self._answers: dict[int, TraceAnswer] = {}
        self._failed: dict[int, str] = {}
        self._waiting: set[int] = set()

    @property
    def done(self) -> bool:
        return not self._waiting

    def start(self) -> list[Ask]:
        known = sorted(self._links) if self._everywhere else []
        return self._ask([self.message.broker, *known])

    def answered(self, answer: TraceAnswer) -> list[Ask]:
        self._came(answer.broker)
        self._answers[answer.broker] = answer
        self._link(answer.broker, answer.neighbours)
        here = answer.verdict is TraceVerdict.HELD and answer.entered and not answer.moved
        if answer.broker == self.message.broker and not here:
            return self._ask_everywhere()
        return self._go_on()

    def failed(self, broker: int, reason: str) -> list[Ask]:
        self._came(broker)
        self._failed[broker] = reason
        if broker == self.message.broker:
            return self._ask_everywhere()
        return self._go_on()

    def _ask_everywhere(self) -> list[Ask]:
        """The first hop is unknown."""
        self._everywhere = True
        return self._ask([*sorted(self._links), *self._going_on()])

    def report(self) -> Path:
        senders, order = self._walk()
        roots = self._roots()
        given: dict[int, Collection[int]] = {broker: self._given(broker) for broker in order}
        above = dominators(NOWHERE, given | {NOWHERE: roots or order})
        claims = {broker for broker, answer in self._answers.items() if answer.verdict is TraceVerdict.HELD}
        adrift = sorted(claims - set(order))
        false = [broker for broker in adrift if not any(map(self._leads, self._links[broker]))]
        order += [broker for broker in adrift if broker not in false]
        order = self._needed(order, senders, claims)
        entered = tuple(broker for broker in roots if broker in claims)
        hops = tuple(self._hop(broker, senders.get(broker), order, above) for broker in order)
        origin = self._answers.get(self.message.broker)
        return Path(
            message=self.message,
            confirmed=bool(entered),
            hops=hops,
            false_positives=tuple(self._hop(broker, None, (), above) for broker in false),
            unasked=dict(sorted(self._failed.items())),
            unknown=tuple(sorted(b for b, answer in self._answers.items() if answer.incomplete)),
            asked=len(self._answers) + len(self._failed),
            filters=sum(answer.filters for answer in self._answers.values()),
            entered=entered,
            publisher="" if origin is None else origin.publisher,
            reasons=tuple(BrokerReason(b, one) for b in sorted(self._answers) for one in self._answers[b].reasons),
        )

    def _link(self, broker: int, neighbours: Iterable[int]) -> None:
        self._links.setdefault(broker, set()).update(neighbours)
        for other in neighbours:
            self._links.setdefault(other, set()).add(broker)

    def _came(self, broker: int) -> None:
        if broker not in self._waiting:
            raise RemoteProtocolError("E_TRACE_ANSWER", f"answer from broker {broker}, which was not asked")
        self._waiting.remove(broker)

    def _ask(self, brokers: Iterable[int]) -> list[Ask]:
        new = [b for b in dict.fromkeys(brokers) if b not in self._answers | self._failed and b not in self._waiting]
        room = self._brokers_max - len(self._answers) - len(self._failed) - len(self._waiting)
        for broker in new[max(room, 0) :]:
            self._failed[broker] = "too many brokers to ask"
        self._waiting.update(new[: max(room, 0)])
        return [Ask(broker, self.message) for broker in new[: max(room, 0)]]

    def _go_on(self) -> list[Ask]:
        return self._ask(self._going_on())

    def _going_on(self) -> list[int]:
        """Links become known by and by, so every broker that leads on is looked at again."""
        known = self._answers | self._failed
        return sorted({b for broker in known for b in self._onward(broker) if b not in known})

    def _leads(self, broker: int) -> bool:
        """Reports whether the message may have passed this broker."""
        answer = self._answers.get(broker)
        return broker in self._failed if answer is None else answer.verdict is not TraceVerdict.ABSENT

    def _onward(self, broker: int) -> Collection[int]:
        """Whom it may have given the message."""
        links = self._links.get(broker, set())
        if self._everywhere:
            return links
        if not self._leads(broker):
            return ()
        answer = self._answers.get(broker)
        if answer is None or answer.forwarded is None or answer.verdict is not TraceVerdict.HELD:
            return links
        return links & set(answer.forwarded)

    def _roots(self) -> list[int]:
        """The brokers from which it may have spread: the one in its id, and those that say that it entered there."""
        origin = self.message.broker
        answer = self._answers.get(origin)
        entered = sorted(broker for broker, one in self._answers.items() if one.entered and broker != origin)
        came_from_elsewhere = answer is not None and answer.verdict is TraceVerdict.HELD and not answer.entered
        if not self._leads(origin) or (entered and came_from_elsewhere):
            return entered
        return [origin, *entered]

    def _walk(self) -> tuple[dict[int, int], list[int]]:
        """Breadth-first over what the answers allow: each broker's sender, and the order in which they were met."""
        origin = self.message.broker
        senders: dict[int, int] = {}
        known = origin in self._answers or origin in self._failed
        order = self._roots() or ([origin] if known else [])
        seen = set(order)
        for broker in order:
            for other in self._given(broker):
                if other not in seen:
                    seen.add(other)
                    senders[other] = broker
                    order.append(other)
        return senders, order

    def _given(self, broker: int) -> list[int]:
        """The brokers that may have received the message from this one."""
        if not self._leads(broker):
            return []
        answer = self._answers.get(broker)
        given = self._links.get(broker, set())
        if answer is not None and answer.forwarded is not None and answer.verdict is TraceVerdict.HELD:
            given = given & set(answer.forwarded)
        return sorted(filter(self._leads, given))

    def _needed(self, order: list[int], senders: Mapping[int, int], claims: Collection[int]) -> list[int]:
        """Removes opaque brokers that lead to no other broker."""
        needed = {self.message.broker} & set(order)
        for broker in order:
            at: int | None = broker if broker in claims else None
            while at is not None and at not in needed:
                needed.add(at)
                at = senders.get(at)
        return [broker for broker in order if broker in needed]

    def _hop(self, broker: int, sender: int | None, route: Collection[int], above: Mapping[int, int]) -> Hop:
        """`above`: whom the message must have passed before it came to a broker."""
        answer = self._answers.get(broker)
        if answer is None or answer.verdict is not TraceVerdict.HELD:
            return Hop(broker, sender, 0.0, opaque=answer is None or answer.verdict is TraceVerdict.UNKNOWN)
        around = self._links[broker] & set(route)
        possible = (b for b in around if b != sender and self._may_give(b, broker))
        others = tuple(sorted(b for b in possible if not is_behind(b, broker, above)))
        is_root = answer.entered or (broker == self.message.broker and sender is None)
        # Of a root with an exact record, or whose neighbours were not asked, nothing is odd about that.
        odd = not is_root or (self._wanted_everywhere and answer.probability > 0)
        rim = odd and not answer.subscribers and not around - {sender}
        others = () if is_root else others
        return Hop(broker, sender, answer.probability, answer.subscribers, others, suspect=rim, between=answer.between)

    def _may_give(self, broker: int, to: int) -> bool:
        answer = self._answers.get(broker)
        return answer is None or answer.forwarded is None or to in answer.forwarded
