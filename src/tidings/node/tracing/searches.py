"""Traces messages: searches requested by this broker's clients, and questions of other brokers.

    client ──Trace──► PathSearch ──┬── this broker: Inquire ──► driver (archive) ──► resolved
                                   └── others: Question ──► links ──► … ──► Answered
                                                                       the last answer: a report for the client

Questions travel by the routes there are, and may be lost with a link: one that is not answered in time is asked once
more, then the broker counts as one that could not be asked.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from tidings.errors import CodecError, LimitError, SecurityError, UsageError
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.clients.session import Connection
from tidings.node.requests import Done, Failed, Trace
from tidings.tracking.query.codec import (
    EXAMPLE_BYTES_MAX,
    NAME_BYTES_MAX,
    NOBODY,
    Answered,
    TraceQuestion,
    WhyQuestion,
    decode,
    encode,
)
from tidings.tracking.query.path import Ask, PathSearch
from tidings.tracking.query.path_json import to_json
from tidings.tracking.recording.losses import TraceReason
from tidings.tracking.trace_answer import TraceAnswer

SEARCHES_MAX = 1000
PATIENCE_MS = 2000  # for an answer; then it is asked for once more
OWN_PATIENCE_MS = 30_000  # with our own records: a busy disk, not a lost letter
TICK_MS_MAX = 1000  # what lies further apart is a clock that was set
EVERYWHERE = ">"  # an id does not tell its destination: permission to trace is for all messages


class Post(Protocol):
    """Sends datagrams to other brokers."""

    def topology(self) -> Mapping[int, Collection[int]]:
        """Brokers that can be reached, with their links where these are known."""

    def post(self, broker: int, letter: bytes) -> bool:
        """False: there is no way there."""


@dataclass(slots=True)
class _Search:
    connection: int
    receipt: int
    path: PathSearch
    why: WhyQuestion = NOBODY
    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)  # broker -> patience left in ms, how often asked


class Tracing:
    def __init__(
        self,
        broker: int,
        post: Post | None,
        inquire: Callable[[int, int, MessageId, WhyQuestion], None],
        reply: Callable[[int, Done | Failed], None],
        present: Callable[[MessageId, WhyQuestion], list[TraceReason]],
    ) -> None:
        """`inquire(now_ms, number, message, why)` asks this broker's own records; the answer comes to `resolved`.
        `present` gives the reasons that only the running node knows."""
        self._broker, self._post, self._inquire, self._reply = broker, post, inquire, reply
        self._present = present
        self._searches: dict[int, _Search] = {}
        self._asked: dict[int, tuple[int, TraceQuestion]] = {}  # inquiry -> another broker and its question
        self._own: dict[int, int] = {}  # inquiry -> search
        self._next = 1
        self._ticked_ms = 0

    @property
    def waiting(self) -> bool:
        return bool(self._searches)

    def start(self, now_ms: int, client: Connection, request: Trace) -> None:
        if not (client.principal.may("trace", EVERYWHERE) or client.principal.may("monitor", EVERYWHERE)):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not trace messages")
        if len(self._searches) >= SEARCHES_MAX:
            raise LimitError("E_TRACES", f"at most {SEARCHES_MAX} messages are traced at a time")
        if request.message == MessageId.NONE:
            raise UsageError("E_MESSAGE_ID_TEXT", "this is the id of messages that have none")
        topology = {self._broker: ()} if self._post is None else self._post.topology()
        number = self._number()
        why = _why(request)
        path = PathSearch(request.message, topology, everywhere=request.everywhere or bool(why.subscriber))
        self._searches[number] = _Search(client.number, request.receipt, path, why)
        self._ask(now_ms, number, path.start())

    def resolved(self, now_ms: int, inquiry: int, answer: TraceAnswer) -> None:
        """Take the answer of this broker's own records."""
        if inquiry in self._asked:
            asker, question = self._asked.pop(inquiry)
            self._send(asker, encode(Answered(question.number, self._with_present(answer, question))))
        elif inquiry in self._own:
            search = self._searches.get(number := self._own.pop(inquiry))
            if search is not None:
                question = TraceQuestion(number, search.path.message, search.why)
                self._answered(now_ms, number, self._with_present(answer, question))

    def _with_present(self, answer: TraceAnswer, question: TraceQuestion) -> TraceAnswer:
        if not question.why.subscriber:
            return answer
        return replace(answer, reasons=(*answer.reasons, *self._present(question.message, question.why)))

    def datagram(self, now_ms: int, source: int, data: bytes) -> None:
        """From another broker; what cannot be read is as good as lost."""
        try:
            letter = decode(data)
        except CodecError:
            return
        if isinstance(letter, TraceQuestion):
            inquiry = self._number()
            self._asked[inquiry] = source, letter
            self._inquire(now_ms, inquiry, letter.message, letter.why)
        elif letter.answer.broker == source:
            self._answered(now_ms, letter.number, letter.answer)

    def tick(self, now_ms: int) -> None:
        passed_ms = min(max(now_ms - self._ticked_ms, 0), TICK_MS_MAX)
        self._ticked_ms = now_ms
        for number, search in list(self._searches.items()):
            for broker, (left_ms, times) in list(search.waiting.items()):
                if left_ms > passed_ms:
                    search.waiting[broker] = left_ms - passed_ms, times
                    continue
                if times == 1 and self._question(number, search, broker, 2):
                    continue
                search.waiting.pop(broker, None)
                self._ask(now_ms, number, search.path.failed(broker, "no answer"))

    def _ask(self, now_ms: int, number: int, questions: list[Ask]) -> None:
        search = self._searches[number]
        while questions:
            broker = questions.pop().broker
            if broker == self._broker:
                inquiry = self._number()
                self._own[inquiry] = number
                search.waiting[broker] = OWN_PATIENCE_MS, 2
                self._inquire(now_ms, inquiry, search.path.message, search.why)
            elif not self._question(number, search, broker, 1):
                questions += search.path.failed(broker, "no route")
        if search.path.done and self._searches.pop(number, None) is not None:
            self._reply(search.connection, Done(search.receipt, {"path": to_json(search.path.report())}))

    def _question(self, number: int, search: _Search, broker: int, times: int) -> bool:
        if not self._send(broker, encode(TraceQuestion(number, search.path.message, search.why))):
            return False
        search.waiting[broker] = PATIENCE_MS, times
        return True

    def _answered(self, now_ms: int, number: int, answer: TraceAnswer) -> None:
        search = self._searches.get(number)
        if search is None or search.waiting.pop(answer.broker, None) is None:
            return  # too late, or asked twice and answered twice
        self._ask(now_ms, number, search.path.answered(answer))

    def _send(self, broker: int, letter: bytes) -> bool:
        return self._post is not None and self._post.post(broker, letter)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1


def _why(request: Trace) -> WhyQuestion:
    """The question about a subscriber, with a message that has the attributes in question."""
    if len(request.why.encode()) > NAME_BYTES_MAX:
        raise UsageError("E_TRACE_WHY", f"a subscriber's name has at most {NAME_BYTES_MAX} bytes")
    if not request.attributes and not request.destination:
        return WhyQuestion(request.why)
    if not request.destination:
        raise UsageError("E_TRACE_WHY", "attributes are compared with subscriptions only together with the destination")
    try:
        attributes = json.loads(request.attributes or "{}")
    except (ValueError, RecursionError):
        attributes = None
    if not isinstance(attributes, dict) or any(isinstance(one, dict | list | None) for one in attributes.values()):
        raise UsageError("E_TRACE_WHY", "attributes must be a JSON object of texts, numbers and booleans")
    example = encode_message(Message(Destination.parse(request.destination), attributes, id=request.message))
    if len(example) > EXAMPLE_BYTES_MAX:
        raise UsageError("E_TRACE_WHY", f"attributes take at most {EXAMPLE_BYTES_MAX} bytes")
    return WhyQuestion(request.why, example)
